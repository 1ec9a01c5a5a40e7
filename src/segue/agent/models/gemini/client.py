"""The client for generateContent, with its errors."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import ClassVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.catalog import ApiFormat
from segue.agent.models.gemini.answer import EXTRAS, NEWS, GeminiAnswer, GeminiError
from segue.agent.models.gemini.request import SEEN, build
from segue.agent.models.hosted import IMAGE, HostedModel
from segue.agent.models.http import Refusal, encoded, passing
from segue.core import errors

_SIGNATURE = "signature"
_NOTHING_LEFT = re.compile(r"\bcredits?\b|prepay|limit: 0\b")
_WAIT = re.compile(r"retry in|retrydelay")


class _GeminiRefusal(Struct):
    error: GeminiError


_REFUSALS: msgspec.json.Decoder[_GeminiRefusal | list[_GeminiRefusal]] = msgspec.json.Decoder(
    _GeminiRefusal | list[_GeminiRefusal]
)


class GeminiModel(HostedModel):
    """A Google model, accessed with an AI Studio key. Any other model or account rejects the
    signatures of earlier answers."""

    WIRE = ApiFormat.GEMINI
    SENT_BACK: ClassVar[Mapping[str, str]] = {EXTRAS: _SIGNATURE}

    async def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        model = self._model.removeprefix("models/")  # the collection
        kinds = SEEN if IMAGE in included else ()
        asked = build(model, prompt, signed=_SIGNATURE in included, kinds=kinds)
        path = f"/models/{quote(model, safe='')}:streamGenerateContent?alt=sse"
        answer = GeminiAnswer(self._client.provider)
        async with aclosing(self._client.events(path, encoded(asked))) as events:
            async for event in events:
                news = self._read(event.data, NEWS)
                if news.error is not None:
                    raise self._fault(news.error.code, news.error, event.data)
                for text in answer.take(news):
                    yield Text(text)
        for piece in answer.rest():
            yield piece

    def _translate(self, refusal: Refusal) -> errors.ModelError:
        decoded = _REFUSALS.decode(refusal.body)
        error = (decoded[0] if isinstance(decoded, list) else decoded).error
        return self._fault(refusal.status, error, refusal.body)

    def _fault(self, status: int, error: GeminiError, body: str) -> errors.ModelError:
        """Translate an API error. `body` is the complete response, with the details."""
        reason = error.message.strip().rstrip(".") or error.status
        return self._error(_kind(status, error.status, reason.lower(), body.lower()), reason)


def _kind(status: int, name: str, said: str, everything: str) -> type[errors.ModelError]:
    match status:
        case 401 | 403:
            return errors.BadKey
        case 404:
            return errors.UnknownModel
        case 413:
            return errors.ContextTooLong
        case 429:
            # Every quota error mentions billing. A temporary one says when to retry.
            waits = _WAIT.search(everything)
            spent = _NOTHING_LEFT.search(said) or ("billing" in said and not waits)
            return errors.NoCredit if spent else errors.ModelBusy
        case _ if status < 500:
            if "api_key_invalid" in everything or "api key" in said:
                return errors.BadKey
            if "token count" in said and "exceeds" in said:
                return errors.ContextTooLong
            unpaid = name == "FAILED_PRECONDITION" and "billing" in said
            return errors.NoCredit if unpaid else errors.ModelRefused
        case _:
            return passing(status)
