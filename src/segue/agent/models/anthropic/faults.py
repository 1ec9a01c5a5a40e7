"""Translates Anthropic's API errors into errors for the user."""

from __future__ import annotations

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

PROVIDER = "Anthropic"

_NO_CREDIT = ("credit balance", "api usage limits")
_TOO_LONG = ("prompt is too long", "exceed context limit", "context window")


class AnthropicError(Struct):
    type: str = ""
    message: str = ""


class _AnthropicRefusal(Struct):
    error: AnthropicError


_REFUSALS = msgspec.json.Decoder(_AnthropicRefusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicFaults:
    """Translates error responses of the API."""

    model: str
    setting: str

    def explain(self, refusal: Refusal) -> ModelError:
        return self.translate(refusal.status, _REFUSALS.decode(refusal.body).error)

    def too_long(self) -> ContextTooLong:
        return ContextTooLong(model=self.model)

    def translate(self, status: int, error: AnthropicError) -> ModelError:
        """Translate an API error. `status` is 0 for an error inside a stream."""
        reason = error.message.strip().rstrip(".") or error.type
        said = reason.lower()
        match error.type, status:
            case ("authentication_error" | "permission_error", _) | (_, 401 | 403):
                return BadKey(provider=PROVIDER, setting=self.setting)
            case ("not_found_error", _):
                return UnknownModel(provider=PROVIDER, model=self.model)
            case ("billing_error", _) | (_, 402):
                return NoCredit(provider=PROVIDER)
            case ("request_too_large", _) | (_, 413):
                return self.too_long()
            case ("invalid_request_error", _):
                if any(words in said for words in _NO_CREDIT):
                    return NoCredit(provider=PROVIDER)
                if any(words in said for words in _TOO_LONG):
                    return self.too_long()
                return ModelRefused(provider=PROVIDER, reason=reason)
            case _:
                return ModelBusy(provider=PROVIDER, reason=reason)
