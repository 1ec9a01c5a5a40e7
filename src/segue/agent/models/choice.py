"""Chooses the model: the one that the user named, or else the first that is usable. The pool keeps
those in use connected.

Without a name, the order is: a provider whose key is set, then the embedded model. A server on this
machine is used only if the user chose it, because any program can listen on its port. A named model
is either used or refused, never replaced by another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from segue.agent.models import routes
from segue.agent.models.base import Model
from segue.agent.models.catalog import (
    LOCAL,
    PROVIDERS,
    SCRIPTED,
    SERVERS,
    ApiFormat,
    ModelServer,
    Provider,
)
from segue.agent.models.routes import Route
from segue.config import KEY_VARIABLES, Endpoint, Settings
from segue.core.errors import LocalMissing, ModelError, ModelOffline, NoModel, UnknownModel

if TYPE_CHECKING:
    from segue.agent.models.hosted import HostedModel

PROBE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    name: str
    why: str
    """The reason, as one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate for when no model is named."""

    title: str
    name: str | None = None
    """The full name of its model, or None if it cannot be used."""
    why: str
    """Why it can or cannot be used, as one sentence for the user."""
    offer: str | None = None
    """A model that is usable once the user chooses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The model that `choose` selects from the settings, and all the candidates."""

    choice: Choice | None
    problem: str = ""
    """Why the model named in the settings cannot be used."""
    considered: tuple[Candidate, ...]


async def choose(
    settings: Settings, wanted: str | None = None, *, servers: Sequence[ModelServer] = SERVERS
) -> Choice:
    """Choose the model `wanted`, or the one in the settings, or the first that is usable. Raise
    NoModel if there is none, or another ModelError if the named model is not usable."""
    if wanted:
        return await _named(wanted, "You asked for it.", settings, servers)
    if settings.model:
        return await _named(settings.model, f"Set by {settings.model_from}.", settings, servers)
    if found := _first([*_keyed(settings), embedded(settings)]):
        return found
    near = [f"type `segue model use {s.offer}`" for s in await answering(settings, servers)]
    raise NoModel(reason=", or ".join((*near, *ways(servers))))


async def survey(settings: Settings, *, servers: Sequence[ModelServer] = SERVERS) -> Survey:
    """Return the choice and all the candidates. A failed choice is the `problem`, not raised."""
    asked = await _asked(settings, servers)
    considered = (*_keyed(settings), embedded(settings), *asked)
    if not settings.model:
        return Survey(choice=_first(considered), considered=considered)
    try:
        choice = await choose(settings, servers=servers)
    except ModelError as error:
        return Survey(choice=None, problem=str(error), considered=considered)
    return Survey(choice=choice, considered=considered)


def connect(
    choice: Choice | str, settings: Settings, *, servers: Sequence[ModelServer] = SERVERS
) -> Model:
    """Create the model. Raise ModelError if its name alone shows that it cannot be used."""
    name = choice if isinstance(choice, str) else choice.name
    if name == SCRIPTED:
        from segue.agent.models.scripted import ScriptedModel  # noqa: PLC0415

        return ScriptedModel()
    if name == LOCAL:
        from segue.agent.models.local.model import LocalModel  # noqa: PLC0415

        return LocalModel(folder=settings.models_folder, idle=settings.idle_minutes * 60)
    route = routes.find(name, settings, servers)
    return _client(route, route.model(name))


def _client(route: Route, model: str) -> Model:
    service = route.service
    return _client_class(route.wire)(
        name=route.full_name(model),
        model=model,
        base_url=route.base_url,
        key=route.secret(),
        setting=route.setting,
        context=service.context_of(model) if isinstance(service, Provider) else service.context,
        small=isinstance(service, Endpoint) and service.small,
        # Unknown for the models of a local server. One that cannot see would make things up.
        images=service.images if isinstance(service, Endpoint) else isinstance(service, Provider),
    )


def _client_class(wire: ApiFormat) -> type[HostedModel]:
    match wire:
        case ApiFormat.OPENAI:
            from segue.agent.models.openai import OpenAIModel  # noqa: PLC0415

            return OpenAIModel
        case ApiFormat.ANTHROPIC:
            from segue.agent.models.anthropic import AnthropicModel  # noqa: PLC0415

            return AnthropicModel
        case ApiFormat.GEMINI:
            from segue.agent.models.gemini import GeminiModel  # noqa: PLC0415

            return GeminiModel


# A named model


async def _named(name: str, why: str, settings: Settings, servers: Sequence[ModelServer]) -> Choice:
    name = name.strip()
    if name == SCRIPTED:
        return Choice(name=name, why=why)
    if name == LOCAL:
        if missing := _missing(settings):
            raise LocalMissing(missing=missing)
        return Choice(name=name, why=why)
    route = routes.find(name, settings, servers)
    routes.check_account(route, settings)
    if isinstance(route.service, ModelServer):
        return Choice(name=await _served(route, name), why=why)
    return Choice(name=route.full_name(route.model(name)), why=why)


async def _served(route: Route, name: str) -> str:
    """The full name of a model on a local server. Without a model name, its first model."""
    from segue.agent.models import offers  # noqa: PLC0415 - httpx2 takes a while

    offered = await offers.models(route, PROBE_SECONDS)
    given = name.partition("/")[2]
    # Ollama's shorthand for the tag.
    fitting = [m for m in offered if not given or m in {given, f"{given}:latest"}]
    if not fitting:
        raise UnknownModel(provider=route.title, model=given or name)
    return route.full_name(fitting[0])


# Candidates when no model is named


def _first(considered: Sequence[Candidate]) -> Choice | None:
    for thing in considered:
        if thing.name:
            return Choice(name=thing.name, why=thing.why)
    return None


def _keyed(settings: Settings) -> list[Candidate]:
    return [
        _provider(provider, settings)
        for provider in PROVIDERS.values()
        if not routes.is_hidden(provider, settings)
    ]


def _provider(provider: Provider, settings: Settings) -> Candidate:
    key = settings.keys.get(provider.name)
    if key is None:
        why = f"{' or '.join(KEY_VARIABLES[provider.name])} is not set."
    elif provider.default is None:
        why = f"{key.setting} is set, but its models have to be chosen by name."
    else:
        name = f"{provider.name}/{provider.default}"
        return Candidate(title=provider.title, name=name, why=f"{key.setting} is set.")
    return Candidate(title=provider.title, why=why)


async def answering(
    settings: Settings, servers: Sequence[ModelServer] = SERVERS
) -> list[Candidate]:
    """The servers on this machine that offer a model."""
    return [server for server in await _asked(settings, servers) if server.offer]


async def _asked(settings: Settings, servers: Sequence[ModelServer]) -> list[Candidate]:
    """Query all servers concurrently."""
    asked = [server for server in servers if not routes.is_hidden(server, settings)]
    return list(await asyncio.gather(*(_server(server, settings) for server in asked)))


async def _server(server: ModelServer, settings: Settings) -> Candidate:
    from segue.agent.models import offers  # noqa: PLC0415

    offer = None
    try:
        offered = await offers.models(routes.to_server(server), PROBE_SECONDS)
    except ModelOffline:
        why = f"Nobody answers at {server.place}."
    except ModelError:
        why = f"What answers at {server.place} is something else."
    else:
        why = f"{server.title} answers at {server.place}"
        if found := routes.strangers(server, settings):
            why = f"{why} as {' and '.join(found)}, not as you"
        if offered:
            offer = f"{server.name}/{offered[0]}"
            why = f"{why}. Type `segue model use {offer}` to use it."
        else:
            why = f"{why}, but has no model for a conversation."
    return Candidate(title=server.title, why=why, offer=offer)


def _missing(settings: Settings) -> str:
    from segue.agent.models.local import runtime  # noqa: PLC0415

    return runtime.missing(settings.models_folder)


def embedded(settings: Settings) -> Candidate:
    """The embedded model, which needs no server, key or account."""
    title = "Embedded model"
    if missing := _missing(settings):
        why = f"Not here yet: {missing}. `segue model pull` gets it."
        return Candidate(title=title, why=why)
    return Candidate(title=title, name=LOCAL, why="The embedded model is here.")


def ways(servers: Sequence[ModelServer] = SERVERS) -> tuple[str, ...]:
    """Ways to get a first model. Any one of them is enough."""
    variables = ", ".join(KEY_VARIABLES[p.name][0] for p in PROVIDERS.values() if p.default)
    titles = ", ".join(server.title for server in servers)
    return (
        f"set the key of a provider ({variables})",
        f"start a server on this machine ({titles}) and choose it",
        "type `segue model pull` for a small model that needs no key",
    )


class Models(Protocol):
    """The source of models for turns."""

    async def get(self, wanted: str | None) -> Model:
        """Return the model `wanted`, or the default model if None. Raise ModelError if there is
        none."""
        ...

    async def close(self) -> None: ...


class Pool:
    """Chooses by the settings, once per name, so that a conversation does not change its model
    because a server comes up later."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names: dict[str | None, str] = {}
        self._models: dict[str, Model] = {}
        self._retired: list[Model] = []
        """Models of earlier settings, which running turns may still use."""

    async def get(self, wanted: str | None) -> Model:
        if wanted not in self._names:
            self._names[wanted] = (await choose(self._settings, wanted)).name
        name = self._names[wanted]
        if name not in {LOCAL, SCRIPTED}:
            routes.check_account(routes.find(name, self._settings), self._settings)
        if name not in self._models:
            self._models[name] = connect(name, self._settings)
        return self._models[name]

    def reload(self, settings: Settings) -> None:
        """Choose by new settings from now on. Turns that are running keep their models."""
        self._settings = settings
        self._retired += self._models.values()
        self._names = {}
        self._models = {}

    async def close(self) -> None:
        models = [*self._retired, *self._models.values()]
        self._models = {}
        self._retired = []
        for model in models:
            await model.close()
