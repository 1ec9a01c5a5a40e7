"""The client for a chat completions API. It adapts to what its server supports."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from urllib.parse import urlsplit

import httpx2
import msgspec

from segue.agent.models import plain
from segue.agent.models.base import Piece, Prompt
from segue.agent.models.fallbacks import IMAGE, carried, conceding
from segue.agent.models.http import ProviderClient, ProviderEndpoint, Timeouts, read_out
from segue.agent.models.openai.answer import CHUNKS, Chunk, OpenAIAnswer
from segue.agent.models.openai.faults import OpenAIFaults, UnknownField
from segue.agent.models.openai.request import IMAGE_URL, ServerDialect, build, limit_at
from segue.core.errors import BadKey, ModelCutOff, ModelStalled

_PROVIDERS = {
    "api.openai.com": "OpenAI",
    "openrouter.ai": "OpenRouter",
    "api.groq.com": "Groq",
    "api.mistral.ai": "Mistral",
    "api.deepseek.com": "DeepSeek",
}
_PATIENCE = Timeouts()
_LINGER = 0.25
"""Seconds to wait for the end of the response after its last event."""


class OpenAIModel:
    """A model behind a chat completions API."""

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        key: str | None,
        setting: str,
        context: int,
        small: bool = False,
        images: bool | None = None,
        patience: Timeouts = _PATIENCE,
        reuse: bool = True,
    ) -> None:
        """`images` says whether the model accepts pictures.

        By default it does unless it is small. If the server reports that it does not, that takes
        precedence.
        """
        self.name = name
        self.context = context
        self.small = small
        self._model = model
        self._key = (key or "").strip()
        host = urlsplit(base_url).hostname or ""
        self._faults = OpenAIFaults(
            provider=_PROVIDERS.get(host) or name.partition("/")[0],
            name=name,
            model=model,
            base_url=base_url,
            setting=setting,
        )
        self._dialect = ServerDialect(
            limit=limit_at(host), images=not small if images is None else images
        )
        self._client = ProviderClient(
            ProviderEndpoint(
                provider=self._faults.provider,
                base_url=base_url,
                headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
                explain=self._faults.explain,
                patience=patience,
                reuse=reuse,
            )
        )

    async def close(self) -> None:
        await self._client.close()

    @property
    def images(self) -> bool:
        return self._dialect.images

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """Stream the answer piece by piece, ending with End. Raise ModelError on failure.

        If the server rejects some pictures although the model accepts pictures, the request is
        repeated without them.
        """
        if not (self._key.isascii() and self._key.isprintable()):
            raise BadKey(provider=self._faults.provider, setting=self._faults.setting)

        def ask(included: frozenset[str]) -> AsyncGenerator[Piece]:
            return self._learning(prompt, pictures=IMAGE in included)

        included = carried(prompt, images=self.images, extras={})
        async with contextlib.aclosing(conceding(ask, included)) as pieces:
            async for piece in pieces:
                yield piece

    async def _learning(self, prompt: Prompt, *, pictures: bool) -> AsyncGenerator[Piece]:
        """Stream the answer.

        Whenever the server rejects a field, remember that and retry without the field.
        """
        for left in reversed(range(ServerDialect.LESSONS + 1)):
            dialect = self._dialect
            begun = False
            said = dialect if pictures else replace(dialect, images=False)
            try:
                async with contextlib.aclosing(self._ask(prompt, said)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except UnknownField as error:
                if begun or not left or (error.field == IMAGE_URL and not said.images):
                    raise
                self._dialect = dialect.without(error.field)

    async def _ask(self, prompt: Prompt, dialect: ServerDialect) -> AsyncGenerator[Piece]:
        plain_calls = self.small and plain.are_wanted(prompt.messages)
        answer = OpenAIAnswer({t.name for t in prompt.tools} if plain_calls else ())
        body = build(prompt, model=self._model, dialect=dialect, small=self.small)
        async with contextlib.aclosing(self._client.events("/chat/completions", body)) as events:
            try:
                async for event in events:
                    if event.data == "[DONE]":
                        break
                    for piece in answer.read(self._chunk(event)):
                        yield piece
            except (ModelCutOff, ModelStalled):
                if not answer.finished:
                    raise
            await read_out(events, _LINGER)
        if not answer.finished:
            raise ModelCutOff(provider=self._faults.provider)
        yield answer.end()

    def _chunk(self, event: httpx2.ServerSentEvent) -> Chunk:
        if not event.data.strip():
            return Chunk()
        try:
            chunk = CHUNKS.decode(event.data)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self._faults.failed(f"it sent {event.data[:200]!r}, not a chunk") from error
        if chunk.error or chunk.object == "error" or event.event == "error":
            raise self._faults.in_stream(event.data)
        return chunk
