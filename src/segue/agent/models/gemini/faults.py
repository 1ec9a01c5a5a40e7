"""Translates Google's API errors into errors for the user."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from segue.agent.models.http import Refusal
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelError,
    ModelRefused,
    NoCredit,
    UnknownModel,
)

PROVIDER = "Gemini"

_NOTHING_LEFT = re.compile(r"\bcredits?\b|prepay|limit: 0\b")
_WAIT = re.compile(r"retry in|retrydelay")


class GeminiError(Struct):
    code: int = 0
    message: str = ""
    status: str = ""


class _GeminiRefusal(Struct):
    error: GeminiError


_REFUSALS: msgspec.json.Decoder[_GeminiRefusal | list[_GeminiRefusal]] = msgspec.json.Decoder(
    _GeminiRefusal | list[_GeminiRefusal]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiFaults:
    """Translates error responses of the API."""

    model: str
    setting: str

    def explain(self, refusal: Refusal) -> ModelError:
        decoded = _REFUSALS.decode(refusal.body)
        error = (decoded[0] if isinstance(decoded, list) else decoded).error
        return self.translate(refusal.status, error, refusal.body)

    def too_long(self) -> ContextTooLong:
        return ContextTooLong(model=self.model)

    def translate(self, status: int, error: GeminiError, body: str) -> ModelError:
        """Translate an API error. `body` is the complete response, with the details."""
        reason = error.message.strip().rstrip(".") or error.status
        said, everything = reason.lower(), body.lower()
        match status:
            case 401 | 403:
                return BadKey(provider=PROVIDER, setting=self.setting)
            case 404:
                return UnknownModel(provider=PROVIDER, model=self.model)
            case 413:
                return self.too_long()
            case 429:
                # Every quota error mentions billing. A temporary one says when to retry.
                waits = _WAIT.search(everything)
                if _NOTHING_LEFT.search(said) or ("billing" in said and not waits):
                    return NoCredit(provider=PROVIDER)
                return ModelBusy(provider=PROVIDER, reason=reason)
            case _ if status < 500:
                if "api_key_invalid" in everything or "api key" in said:
                    return BadKey(provider=PROVIDER, setting=self.setting)
                if "token count" in said and "exceeds" in said:
                    return self.too_long()
                if error.status == "FAILED_PRECONDITION" and "billing" in said:
                    return NoCredit(provider=PROVIDER)
                return ModelRefused(provider=PROVIDER, reason=reason)
            case _:
                return ModelBusy(provider=PROVIDER, reason=reason)
