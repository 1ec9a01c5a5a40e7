"""The client for the Messages API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import ClassVar

from segue.agent.models.anthropic.answer import EVENTS, EXTRAS, AnthropicAnswer
from segue.agent.models.anthropic.faults import PROVIDER, AnthropicFaults
from segue.agent.models.anthropic.request import build
from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.fallbacks import IMAGE
from segue.agent.models.hosted import HostedModel, read
from segue.agent.models.http import encoded, read_out
from segue.core.errors import ModelCutOff
from segue.core.images import KINDS

VERSION = "2023-06-01"

_THINKING = "thinking"
_LAST_BYTES = 1.0
"""Seconds to wait for the end of the stream after the end of the answer."""


class AnthropicModel(HostedModel):
    """A model of Anthropic, or of any server that implements its Messages API.

    Newer models reject the thinking of earlier answers if anything before it has changed: a
    summary, a trimmed output, another system prompt.
    """

    PROVIDER = PROVIDER
    BASE_URL = "https://api.anthropic.com"
    SENT_BACK: ClassVar[Mapping[str, str]] = {EXTRAS: _THINKING}

    def _headers(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key, "anthropic-version": VERSION}

    @property
    def _faults(self) -> AnthropicFaults:
        return AnthropicFaults(model=self._model, setting=self._setting)

    async def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        kinds = KINDS if IMAGE in included else ()
        asked = build(self._model, prompt, thinking=_THINKING in included, kinds=kinds)
        answer = AnthropicAnswer()
        async with aclosing(self._client.events("/v1/messages", encoded(asked))) as events:
            async for event in events:
                news = read(event.data, EVENTS, PROVIDER)
                if news.type == "message_stop":
                    await read_out(events, _LAST_BYTES)
                    break
                if news.error is not None:
                    raise self._faults.translate(0, news.error)
                if text := answer.take(news):
                    yield Text(text)
            else:
                raise ModelCutOff(provider=PROVIDER)
        for piece in answer.rest():
            yield piece
