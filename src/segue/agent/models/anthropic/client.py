"""The client for the Messages API, with its errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import ClassVar

import msgspec
from msgspec import Struct

from segue.agent.models.anthropic.answer import EVENTS, EXTRAS, AnthropicAnswer, AnthropicError
from segue.agent.models.anthropic.request import build
from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.catalog import ApiFormat
from segue.agent.models.hosted import IMAGE, HostedModel
from segue.agent.models.http import Refusal, encoded, passing, read_out
from segue.core import errors
from segue.core.images import KINDS

_THINKING = "thinking"
_LAST_BYTES = 1.0
"""Seconds to wait for the end of the stream after the end of the answer."""
_NO_CREDIT = ("credit balance", "api usage limits")
_TOO_LONG = ("prompt is too long", "exceed context limit", "context window")


class _AnthropicRefusal(Struct):
    error: AnthropicError


_REFUSALS = msgspec.json.Decoder(_AnthropicRefusal)


class AnthropicModel(HostedModel):
    """A model of Anthropic, or of any server that implements its Messages API.

    Newer models reject the thinking of earlier answers if anything before it has changed: a
    summary, a trimmed output, another system prompt.
    """

    WIRE = ApiFormat.ANTHROPIC
    SENT_BACK: ClassVar[Mapping[str, str]] = {EXTRAS: _THINKING}

    async def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        kinds = KINDS if IMAGE in included else ()
        asked = build(self._model, prompt, thinking=_THINKING in included, kinds=kinds)
        answer = AnthropicAnswer()
        async with aclosing(self._client.events("/v1/messages", encoded(asked))) as events:
            async for event in events:
                news = self._read(event.data, EVENTS)
                if news.type == "message_stop":
                    await read_out(events, _LAST_BYTES)
                    break
                if news.error is not None:
                    raise self._fault(0, news.error)
                if text := answer.take(news):
                    yield Text(text)
            else:
                raise self._error(errors.ModelCutOff)
        for piece in answer.rest():
            yield piece

    def _translate(self, refusal: Refusal) -> errors.ModelError:
        return self._fault(refusal.status, _REFUSALS.decode(refusal.body).error)

    def _fault(self, status: int, error: AnthropicError) -> errors.ModelError:
        """Translate an API error. `status` is 0 for an error inside a stream."""
        reason = error.message.strip().rstrip(".") or error.type
        return self._error(_kind(status, error.type, reason.lower()), reason)


def _kind(status: int, name: str, said: str) -> type[errors.ModelError]:
    match name, status:
        case ("authentication_error" | "permission_error", _) | (_, 401 | 403):
            return errors.BadKey
        case ("not_found_error", _):
            return errors.UnknownModel
        case ("billing_error", _) | (_, 402):
            return errors.NoCredit
        case ("request_too_large", _) | (_, 413):
            return errors.ContextTooLong
        case ("invalid_request_error", _):
            if any(words in said for words in _NO_CREDIT):
                return errors.NoCredit
            too_long = any(words in said for words in _TOO_LONG)
            return errors.ContextTooLong if too_long else errors.ModelRefused
        case ("overloaded_error" | "rate_limit_error", _):
            return errors.ModelBusy
        case _:
            return passing(status)
