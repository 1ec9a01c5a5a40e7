"""Translates the errors of OpenAI-compatible servers, which differ widely."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from segue.agent.models.http import RETRIED, Refusal
from segue.agent.models.openai.request import IMAGE_URL
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelError,
    ModelOffline,
    ModelRefused,
    NoCredit,
    UnknownModel,
)


class UnknownField(ModelRefused):
    """{provider} does not know {field}: {reason}. Type /model to choose another."""

    @property
    def field(self) -> str:
        return str(self.fields["field"])


_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_TOO_LONG = re.compile(
    r"""context_length_exceeded | exceed_context_size_error
    | maximum\ context\ length | context\ window | context\ length\ of\ only
    | exceeds?\ the\ available\ context\ size | exceed(s|ed)?\ (the\ |max(imum)?\ )*context\ length
    | longer\ than\ the\ maximum\ model\ length | max_tokens\ must\ be\ at\ least\ 1,\ got\ -
    | tokens\ to\ keep\ from\ the\ initial\ prompt | cannot\ truncate\ prompt
    | prompt\ (is\ )?too\ long | request\ too\ large | input\ token\ count .* exceeds
    | reduce\ the\ length\ of\ the\ (messages|prompt)""",
    re.VERBOSE | re.IGNORECASE,
)
_NO_SUCH_MODEL = re.compile(
    r"""model_not_found | is\ not\ a\ valid\ model | invalid\ model | unknown\ model
    | no\ endpoints\ found\ for | model\b.{0,200}\b(not\ found|not\ exist|not\ available)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_NO_SUCH_FIELD = re.compile(
    r"unsupported|unrecognized|unknown|unexpected|not supported|not permitted|not allowed",
    re.IGNORECASE,
)
# OpenAI, llama.cpp (current and older), Mistral, Ollama and LM Studio, OpenRouter, vLLM; then
# DeepSeek (current, and two older ones) and Groq, which only say that they expected a string.
_NO_IMAGES = re.compile(
    r"""image_url\ is\ only\ supported\ by | image\ input\ is\ not\ (supported|enabled)
    | unsupported\ content\ part\ type:\ \W{0,4}image_url | not\ support\ (images?|vision)\b
    | no\ endpoints\ found\ that\ support\ image | is\ not\ a\ multimodal\ model
    | unknown\ variant\ \W?image_url | untagged\ enum\ ChatCompletionRequestContent
    | invalid\ type:\ sequence,\ expected\ a\ string | content\W{0,3}\ must\ be\ a\ string""",
    re.VERBOSE | re.IGNORECASE,
)
_FIELDS = ("stream_options", "max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIFaults:
    """Translates the error responses of a server."""

    provider: str
    name: str
    model: str
    base_url: str
    setting: str

    def explain(self, refusal: Refusal) -> ModelError | None:
        status, reason = refusal.status, _reason(refusal)
        fields = _error_fields(refusal.body)
        if status == 401 or fields.get("code") == "invalid_api_key":
            return BadKey(provider=self.provider, setting=self.setting)
        if status == 402 or not _NO_CREDIT.isdisjoint((fields.get("code"), fields.get("type"))):
            return NoCredit(provider=self.provider)
        if _NO_IMAGES.search(refusal.body):
            return UnknownField(provider=self.provider, field=IMAGE_URL, reason=reason)
        if _TOO_LONG.search(refusal.body) or status == 413:
            return ContextTooLong(model=self.name)
        if status == 404 or (status == 400 and _NO_SUCH_MODEL.search(refusal.body)):
            return self._not_found(refusal, reason)
        if status in RETRIED or status >= 500:
            return ModelBusy(provider=self.provider, reason=reason)
        if status >= 400:
            return self._refused(refusal, reason)
        return None

    def in_stream(self, data: str) -> ModelError:
        """Translate an error that arrived as an event, after the response had started."""
        code = str(_error_fields(data).get("code"))
        refusal = Refusal(
            status=int(code) if re.fullmatch("[45][0-9]{2}", code) else 200, body=data
        )
        error = self.explain(refusal)
        if error is None or (isinstance(error, UnknownField) and error.field != IMAGE_URL):
            return self.failed(_reason(refusal))
        return error

    def failed(self, reason: str) -> ModelError:
        return ModelError(provider=self.provider, reason=reason)

    def _not_found(self, refusal: Refusal, reason: str) -> ModelError:
        if _NO_SUCH_MODEL.search(refusal.body) or self.model in refusal.body:
            return UnknownModel(provider=self.provider, model=self.model)
        if _error_fields(refusal.body):
            return ModelRefused(provider=self.provider, reason=reason)
        return ModelOffline(
            provider=self.provider, url=self.base_url, reason="no such API is there (HTTP 404)"
        )

    def _refused(self, refusal: Refusal, reason: str) -> ModelError:
        # The rejected field is named first, before the one to use instead.
        named = [(refusal.body.find(field), field) for field in _FIELDS]
        first = min((found for found in named if found[0] >= 0), default=None)
        if first and refusal.status in {400, 422} and _NO_SUCH_FIELD.search(refusal.body):
            return UnknownField(provider=self.provider, field=first[1], reason=reason)
        return ModelRefused(provider=self.provider, reason=reason)


def _error_fields(body: str) -> Mapping[str, Any]:
    """The error object in a body: `error`, or the body itself in older versions of vLLM."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    if isinstance(found, dict):
        whole = cast("dict[str, Any]", found)
        error = whole.get("error", whole)
        if isinstance(error, dict):
            return cast("dict[str, Any]", error)
        if isinstance(error, str):
            return {"message": error}
    return {}


def _reason(refusal: Refusal) -> str:
    """The error message on one line, without a full stop, because our own message adds one."""
    fields = _error_fields(refusal.body)
    metadata = fields.get("metadata")
    # OpenRouter's own message is only "Provider returned error".
    raw = cast("dict[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    said = raw or fields.get("message") or refusal.body or f"HTTP {refusal.status}"
    return " ".join(str(said).split())[:300].rstrip(". ")
