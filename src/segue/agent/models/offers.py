"""What there is to choose from."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from segue.agent.models import discovery, routes
from segue.agent.models.catalog import LOCAL, PROVIDERS, SCRIPTED, SERVERS, Provider, Server
from segue.agent.models.choice import PROBE_SECONDS, Choice, embedded
from segue.agent.models.routes import Route
from segue.config import Settings
from segue.core.errors import BadKey, ModelError, UnknownModel

LIST_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one service has."""

    name: str
    title: str
    models: tuple[str, ...] = ()
    """As a person types them."""
    problem: str = ""
    """Why it could not be asked."""


async def available(
    settings: Settings,
    only: str | None = None,
    *,
    servers: Sequence[Server] = SERVERS,
    seconds: float = LIST_SECONDS,
) -> tuple[Offer, ...]:
    """What can be chosen, of all services that can be asked or of `only` one.

    A service that does not answer is told beside the others. A local server that is not there is
    left out, unless it is the one that was asked for.
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
    servers: Sequence[Server] = SERVERS,
    seconds: float = LIST_SECONDS,
) -> str:
    """Look at the service's own list of models, which costs nothing, whether the choice is in it.

    BadKey or UnknownModel when it cannot work; a sentence when that could not be found out.
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
    servers: Sequence[Server] = SERVERS,
    seconds: float = LIST_SECONDS,
) -> None:
    """The same; what could not be found out is a ModelError too."""
    if choice.name in {LOCAL, SCRIPTED}:
        return
    route = routes.find(choice.name, settings, servers)
    offered = await discovery.models(route, seconds)
    model = route.model(choice.name)
    if not any(_means(model, name) for name in offered):
        raise UnknownModel(provider=route.title, model=model)


def _means(model: str, listed: str) -> bool:
    """Whether `model` is the one that is listed, by its name, an alias or a variant of it."""
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
