"""The models that the user can choose from."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from segue.agent.models import discovery, routes
from segue.agent.models.catalog import LOCAL, PROVIDERS, SCRIPTED, SERVERS, ModelServer, Provider
from segue.agent.models.choice import PROBE_SECONDS, Choice, embedded
from segue.agent.models.routes import Route
from segue.config import Settings
from segue.core.errors import BadKey, ModelError, UnknownModel

LIST_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The models of one service."""

    name: str
    title: str
    models: tuple[str, ...] = ()
    """Full names, as the user types them."""
    problem: str = ""
    """Why the service could not be queried."""


async def available(
    settings: Settings,
    only: str | None = None,
    *,
    servers: Sequence[ModelServer] = SERVERS,
    seconds: float = LIST_SECONDS,
) -> tuple[Offer, ...]:
    """List the models of every service that can be queried, or of `only` one.

    A service that fails is included with its `problem`. A local server that is not running is left
    out, unless it is `only`.
    """
    if only == LOCAL:
        return (_embedded_offer(settings),)
    if only:
        return (await _offer(routes.find(only, settings, servers), seconds),)
    asked = [
        *(routes.find(name, settings) for name in settings.endpoints),
        *(routes.to_provider(p, settings) for p in PROVIDERS.values() if _can_ask(p, settings)),
    ]
    here = [routes.to_server(s) for s in servers if not routes.is_hidden(s, settings)]
    far, near = await asyncio.gather(
        asyncio.gather(*(_offer(route, seconds) for route in asked)),
        asyncio.gather(*(_offer(route, PROBE_SECONDS) for route in here)),
    )
    return (*far, *(offer for offer in near if not offer.problem), _embedded_offer(settings))


async def check(
    choice: Choice,
    settings: Settings,
    *,
    servers: Sequence[ModelServer] = SERVERS,
    seconds: float = LIST_SECONDS,
) -> str:
    """Check the choice against the service's own list of models, which costs nothing.

    Raise BadKey or UnknownModel if it cannot work. Return a sentence if the check itself failed, or
    an empty string if the choice is fine.
    """
    try:
        await look(choice, settings, servers=servers, seconds=seconds)
    except (BadKey, UnknownModel):
        raise
    except ModelError as error:
        return str(error)
    return ""


async def look(
    choice: Choice,
    settings: Settings,
    *,
    servers: Sequence[ModelServer] = SERVERS,
    seconds: float = LIST_SECONDS,
) -> None:
    """Like `check`, but raise ModelError if the check itself fails."""
    if choice.name in {LOCAL, SCRIPTED}:
        return
    route = routes.find(choice.name, settings, servers)
    offered = await discovery.models(route, seconds)
    model = route.model(choice.name)
    if not any(_means(model, name) for name in offered):
        raise UnknownModel(provider=route.title, model=model)


def _means(model: str, listed: str) -> bool:
    """True if `listed` is `model`, or the name that `model` is an alias or a variant of."""
    dated = rf"{re.escape(model.removesuffix('-latest'))}(-\d{{4,8}})?"
    return bool(re.fullmatch(dated, listed)) or model.partition(":")[0] == listed


def _can_ask(provider: Provider, settings: Settings) -> bool:
    return provider.name in settings.keys and not routes.is_hidden(provider, settings)


async def _offer(route: Route, seconds: float) -> Offer:
    try:
        found = await discovery.models(route, seconds)
    except ModelError as error:
        return Offer(name=route.name, title=route.title, problem=str(error))
    return Offer(
        name=route.name, title=route.title, models=tuple(route.full_name(m) for m in found)
    )


def _embedded_offer(settings: Settings) -> Offer:
    found = embedded(settings)
    if found.name:
        return Offer(name=LOCAL, title=found.title, models=(found.name,))
    return Offer(name=LOCAL, title=found.title, problem=found.why)
