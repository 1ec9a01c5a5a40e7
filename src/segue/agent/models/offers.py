"""The models that services offer, by their own lists.

Imports httpx2, which is slow to import, so import this module only when it is used.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import httpx2
import msgspec
from msgspec import Struct

from segue.agent.models import routes
from segue.agent.models.catalog import LOCAL, PROVIDERS, SCRIPTED, SERVERS, ApiFormat, ModelServer
from segue.agent.models.choice import PROBE_SECONDS, Choice, embedded
from segue.agent.models.routes import Route
from segue.config import Settings
from segue.core.errors import BadKey, ModelError, ModelOffline, UnknownModel
from segue.core.text import one_line
from segue.system import http

LIST_SECONDS = 10.0
_MAX_PAGES = 20
_MAX_BYTES = 8 * 1024 * 1024
_NO_CHAT = re.compile(
    r"""embed | bge- | \bgte- | \be5- | minilm | rerank | moderation | guard
    | whisper | transcribe | \btts | -tts | realtime | dall-e | gpt-image | imagen | \bveo | sora
    | davinci | babbage""",
    re.VERBOSE | re.IGNORECASE,
)


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
    settings: Settings, only: str | None = None, *, servers: Sequence[ModelServer] = SERVERS
) -> tuple[Offer, ...]:
    """List the models of every service that can be queried, or of `only` one.

    A service that fails is included with its `problem`. A local server that is not running is left
    out, unless it is `only`.
    """
    if only == LOCAL:
        return (_embedded_offer(settings),)
    if only:
        return (await _offer(routes.find(only, settings, servers), LIST_SECONDS),)
    keyed = [name for name in PROVIDERS if name in settings.keys]
    asked = [routes.find(name, settings) for name in dict.fromkeys((*settings.endpoints, *keyed))]
    here = [routes.to_server(s) for s in servers if not routes.is_hidden(s, settings)]
    far, near = await asyncio.gather(
        asyncio.gather(*(_offer(route, LIST_SECONDS) for route in asked)),
        asyncio.gather(*(_offer(route, PROBE_SECONDS) for route in here)),
    )
    return (*far, *(offer for offer in near if not offer.problem), _embedded_offer(settings))


async def check(
    choice: Choice, settings: Settings, *, servers: Sequence[ModelServer] = SERVERS
) -> str:
    """Check the choice against the service's own list of models, which costs nothing.

    Raise BadKey or UnknownModel if it cannot work. Return a sentence if the check itself failed, or
    an empty string if the choice is fine.
    """
    try:
        await look(choice, settings, servers=servers, seconds=LIST_SECONDS)
    except (BadKey, UnknownModel):
        raise
    except ModelError as error:
        return str(error)
    return ""


async def look(
    choice: Choice, settings: Settings, *, servers: Sequence[ModelServer], seconds: float
) -> None:
    """Like `check`, but raise ModelError if the check itself fails."""
    if choice.name in {LOCAL, SCRIPTED}:
        return
    route = routes.find(choice.name, settings, servers)
    offered = await models(route, seconds)
    model = route.model(choice.name)
    if not any(_means(model, name) for name in offered):
        raise UnknownModel(provider=route.title, model=model)


def _means(model: str, listed: str) -> bool:
    """True if `listed` is `model`, or the name that `model` is an alias or a variant of."""
    dated = rf"{re.escape(model.removesuffix('-latest'))}(-\d{{4,8}})?"
    return bool(re.fullmatch(dated, listed)) or model.partition(":")[0] == listed


async def _offer(route: Route, seconds: float) -> Offer:
    try:
        found = tuple(route.full_name(model) for model in await models(route, seconds))
    except ModelError as error:
        return Offer(name=route.name, title=route.title, problem=str(error))
    return Offer(name=route.name, title=route.title, models=found)


def _embedded_offer(settings: Settings) -> Offer:
    found = embedded(settings)
    if found.name:
        return Offer(name=LOCAL, title=found.title, models=(found.name,))
    return Offer(name=LOCAL, title=found.title, problem=found.why)


# The list of one service


async def models(route: Route, seconds: float) -> tuple[str, ...]:
    """The chat models of the service, with its own names and in its own order. Raise ModelError if
    it does not list them within `seconds`."""
    try:
        async with (
            asyncio.timeout(seconds),
            http.client(route.base_url, headers=route.wire.headers(route.secret())) as client,
        ):
            found = await _listed(client, route)
    except TimeoutError as error:
        raise _offline(route, f"no answer within {seconds:g} seconds") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise _offline(route, one_line(str(error)) or "no answer") from error
    # A name with unprintable characters could not be typed, so it is left out.
    return tuple(m for m in found if m and m == one_line(m) and not _NO_CHAT.search(m))


def _offline(route: Route, reason: str) -> ModelOffline:
    return ModelOffline(provider=route.title, url=route.base_url, reason=reason)


class _Id(Struct, frozen=True):
    id: str


class _OpenAIPage(Struct, frozen=True):
    data: Sequence[_Id] | None
    """Ollama sends null if it has no models."""

    def names(self) -> list[str]:
        return [model.id for model in self.data or ()]

    def following(self) -> dict[str, str]:
        """The query for the next page. Empty after the last one."""
        return {}


class _ServerModel(_Id, frozen=True):
    object: Literal["model"]


class _ServerPage(_OpenAIPage, frozen=True):
    """The format that Ollama, LM Studio and llama.cpp share. It is strict, so that another program
    on their port is not mistaken for one of them."""

    object: Literal["list"]
    data: Sequence[_ServerModel] | None


class _AnthropicPage(_OpenAIPage, frozen=True):
    data: Sequence[_Id]
    has_more: bool = False
    last_id: str | None = None

    def following(self) -> dict[str, str]:
        return {"after_id": self.last_id} if self.has_more and self.last_id else {}


class _GeminiModel(Struct, rename="camel"):
    name: str
    supported_generation_methods: list[str] = []


class _GeminiPage(Struct, rename="camel"):
    models: list[_GeminiModel] = []
    next_page_token: str = ""

    def names(self) -> list[str]:
        chat = [m for m in self.models if "generateContent" in m.supported_generation_methods]
        return [model.name.removeprefix("models/") for model in chat]

    def following(self) -> dict[str, str]:
        return {"pageToken": self.next_page_token} if self.next_page_token else {}


_Page = _OpenAIPage | _GeminiPage
_LISTS: dict[ApiFormat, tuple[str, dict[str, str], type[_Page]]] = {
    ApiFormat.OPENAI: ("/models", {}, _OpenAIPage),
    ApiFormat.ANTHROPIC: ("/v1/models", {"limit": "1000"}, _AnthropicPage),
    ApiFormat.GEMINI: ("/models", {"pageSize": "1000"}, _GeminiPage),
}


async def _listed(client: httpx2.AsyncClient, route: Route) -> list[str]:
    path, query, kind = _LISTS[route.wire]
    if isinstance(route.service, ModelServer):
        kind = _ServerPage
    names: list[str] = []
    for _ in range(_MAX_PAGES):
        body = await _get(client, route, path, query)
        try:
            page = msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise _no_list(route) from error
        names += page.names()
        if not (following := page.following()):
            break
        query = {**query, **following}
    return names


async def _get(client: httpx2.AsyncClient, route: Route, path: str, query: dict[str, str]) -> bytes:
    async with client.stream("GET", path, params=query) as response:
        body = await http.read(response, _MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise _no_list(route)
    # Gemini responds to an invalid key with 400.
    if response.status_code in {401, 403} or b"API_KEY_INVALID" in body:
        raise BadKey(provider=route.title, setting=route.setting)
    if response.status_code == 404:
        raise ModelError(provider=route.title, reason="it does not list its models (HTTP 404)")
    if response.status_code != 200:
        raise ModelError(provider=route.title, reason=f"HTTP {response.status_code}")
    return body


def _no_list(route: Route) -> ModelError:
    return ModelError(provider=route.title, reason="what it sent is no list of models")
