"""Asks a service which models it offers."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal

import httpx2
import msgspec
from msgspec import Struct

from segue.agent.models.catalog import ApiFormat, ModelServer
from segue.agent.models.http import around_proxies, trusted
from segue.agent.models.routes import Route
from segue.core.errors import BadKey, ModelError, ModelOffline
from segue.core.text import one_line

_MAX_PAGES = 20
_MAX_BYTES = 8 * 1024 * 1024
_NO_CHAT = re.compile(
    r"""embed | bge- | \bgte- | \be5- | minilm | rerank | moderation | guard
    | whisper | transcribe | \btts | -tts | realtime | dall-e | gpt-image | imagen | \bveo | sora
    | davinci | babbage""",
    re.VERBOSE | re.IGNORECASE,
)


async def models(route: Route, seconds: float) -> tuple[str, ...]:
    """The chat models of the service, with its own names and in its own order.

    Raise ModelError if it does not list them within `seconds`.
    """
    try:
        async with asyncio.timeout(seconds), _client(route) as client:
            found = await _READERS[route.wire](client, route)
    except TimeoutError as error:
        raise _offline(route, f"no answer within {seconds:g} seconds") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise _offline(route, one_line(str(error)) or "no answer") from error
    # A name with unprintable characters could not be typed, so it is left out.
    return tuple(m for m in found if m and m == one_line(m) and not _NO_CHAT.search(m))


def _offline(route: Route, reason: str) -> ModelOffline:
    return ModelOffline(provider=route.title, url=route.base_url, reason=reason)


def _client(route: Route) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=route.base_url,
        headers=route.wire.headers(route.secret()),
        timeout=None,
        verify=trusted(),
        mounts=around_proxies(route.base_url),
    )


async def _get(client: httpx2.AsyncClient, route: Route, path: str, **query: str) -> bytes:
    async with client.stream("GET", path, params=query) as response:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_BYTES:
                raise _no_list(route)
    # Gemini responds to an invalid key with 400.
    if response.status_code in {401, 403} or b"API_KEY_INVALID" in body:
        raise BadKey(provider=route.title, setting=route.setting)
    if response.status_code == 404:
        raise ModelError(provider=route.title, reason="it does not list its models (HTTP 404)")
    if response.status_code != 200:
        raise ModelError(provider=route.title, reason=f"HTTP {response.status_code}")
    return bytes(body)


def _no_list(route: Route) -> ModelError:
    return ModelError(provider=route.title, reason="what it sent is no list of models")


def _decoded(body: bytes, kind: type[Any], route: Route) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise _no_list(route) from error


class _OpenAIModel(Struct):
    id: str


class _OpenAIList(Struct):
    data: list[_OpenAIModel] | None
    """Ollama sends null if it has no models."""


class _ServerModel(Struct):
    id: str
    object: Literal["model"]


class _ServerList(Struct):
    """The format that Ollama, LM Studio and llama.cpp share.

    It is strict, so that another program on their port is not mistaken for one of them.
    """

    object: Literal["list"]
    data: list[_ServerModel] | None


async def _openai(client: httpx2.AsyncClient, route: Route) -> list[str]:
    strict = isinstance(route.service, ModelServer)
    found = _decoded(
        await _get(client, route, "/models"), _ServerList if strict else _OpenAIList, route
    )
    return [model.id for model in found.data or ()]


class _AnthropicList(Struct):
    data: list[_OpenAIModel]
    has_more: bool = False
    last_id: str | None = None


async def _anthropic(client: httpx2.AsyncClient, route: Route) -> list[str]:
    names: list[str] = []
    after: dict[str, str] = {}
    for _ in range(_MAX_PAGES):
        body = await _get(client, route, "/v1/models", limit="1000", **after)
        page: _AnthropicList = _decoded(body, _AnthropicList, route)
        names += [model.id for model in page.data]
        if not page.has_more or not page.last_id:
            break
        after = {"after_id": page.last_id}
    return names


class _GeminiModel(Struct, rename="camel"):
    name: str
    supported_generation_methods: list[str] = []


class _GeminiList(Struct, rename="camel"):
    models: list[_GeminiModel] = []
    next_page_token: str = ""


async def _gemini(client: httpx2.AsyncClient, route: Route) -> list[str]:
    names: list[str] = []
    after: dict[str, str] = {}
    for _ in range(_MAX_PAGES):
        body = await _get(client, route, "/models", pageSize="1000", **after)
        page: _GeminiList = _decoded(body, _GeminiList, route)
        names += [
            model.name.removeprefix("models/")
            for model in page.models
            if "generateContent" in model.supported_generation_methods
        ]
        if not page.next_page_token:
            break
        after = {"pageToken": page.next_page_token}
    return names


_READERS = {ApiFormat.OPENAI: _openai, ApiFormat.ANTHROPIC: _anthropic, ApiFormat.GEMINI: _gemini}
