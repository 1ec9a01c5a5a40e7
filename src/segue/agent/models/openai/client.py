"""The client for a chat completions API. It adapts to what its server supports.

Servers differ widely in their errors, too, so most of those are recognised by their text.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import msgspec

from segue.agent.models import plain
from segue.agent.models.base import Piece, Prompt
from segue.agent.models.catalog import ApiFormat
from segue.agent.models.hosted import IMAGE, HostedModel
from segue.agent.models.http import RETRIED, Refusal, passing, read_out
from segue.agent.models.openai.answer import CHUNKS, Chunk, OpenAIAnswer
from segue.agent.models.openai.request import IMAGE_URL, ServerDialect, build, limit_at
from segue.core import errors

_LINGER = 0.25
"""Seconds to wait for the end of the response after its last event."""
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


class UnknownField(errors.ModelRefused):
    """{provider} does not know {field}: {reason}. Type /model to choose another."""

    @property
    def field(self) -> str:
        return str(self.fields["field"])


class OpenAIModel(HostedModel):
    """A model behind a chat completions API. `images` becomes False if the server says so."""

    WIRE = ApiFormat.OPENAI
    _learned: ServerDialect | None = None

    @property
    def _dialect(self) -> ServerDialect:
        limit = limit_at(urlsplit(self._client.base_url).hostname or "")
        return self._learned or ServerDialect(limit=limit, images=self.images)

    async def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        """Whenever the server rejects a field, remember that and retry without the field."""
        for left in reversed(range(ServerDialect.LESSONS + 1)):
            dialect = self._dialect
            begun = False
            said = dialect if IMAGE in included else replace(dialect, images=False)
            try:
                async with aclosing(self._send(prompt, said)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except UnknownField as error:
                if begun or not left or (error.field == IMAGE_URL and not said.images):
                    raise
                self._learned = dialect.without(error.field)
                self.images = self._learned.images

    async def _send(self, prompt: Prompt, dialect: ServerDialect) -> AsyncGenerator[Piece]:
        plain_calls = self.small and plain.are_wanted(prompt.messages)
        answer = OpenAIAnswer({t.name for t in prompt.tools} if plain_calls else ())
        body = build(prompt, model=self._model, dialect=dialect, small=self.small)
        async with aclosing(self._client.events("/chat/completions", body)) as events:
            try:
                async for event in events:
                    if event.data == "[DONE]":
                        break
                    for piece in answer.read(self._chunk(event)):
                        yield piece
            except (errors.ModelCutOff, errors.ModelStalled):
                if not answer.finished:
                    raise
            await read_out(events, _LINGER)
        if not answer.finished:
            raise self._error(errors.ModelCutOff)
        yield answer.end()

    def _chunk(self, event: httpx2.ServerSentEvent) -> Chunk:
        if not event.data.strip():
            return Chunk()
        try:
            chunk = CHUNKS.decode(event.data)
        except (msgspec.DecodeError, UnicodeError) as error:
            reason = f"it sent {event.data[:200]!r}, not a chunk"
            raise self._error(errors.ModelError, reason) from error
        if chunk.error or chunk.object == "error" or event.event == "error":
            raise self._in_stream(event.data)
        return chunk

    # Errors

    def _translate(self, refusal: Refusal) -> errors.ModelError | None:
        status, body, reason = refusal.status, refusal.body, _reason(refusal)
        fields = _error_fields(body)
        if status == 401 or fields.get("code") == "invalid_api_key":
            return self._error(errors.BadKey)
        if status == 402 or not _NO_CREDIT.isdisjoint((fields.get("code"), fields.get("type"))):
            return self._error(errors.NoCredit)
        if _NO_IMAGES.search(body):
            return self._error(UnknownField, reason, field=IMAGE_URL)
        if _TOO_LONG.search(body) or status == 413:
            return self._error(errors.ContextTooLong)
        if status == 404 or (status == 400 and _NO_SUCH_MODEL.search(body)):
            return self._not_found(body, reason)
        if status in RETRIED or status >= 500:
            return self._error(passing(status), reason)
        if status < 400:
            return None
        if status in {400, 422} and _NO_SUCH_FIELD.search(body) and (field := _first_field(body)):
            return self._error(UnknownField, reason, field=field)
        return self._error(errors.ModelRefused, reason)

    def _not_found(self, body: str, reason: str) -> errors.ModelError:
        if _NO_SUCH_MODEL.search(body) or self._model in body:
            return self._error(errors.UnknownModel)
        if _error_fields(body):
            return self._error(errors.ModelRefused, reason)
        return self._error(errors.ModelOffline, "no such API is there (HTTP 404)")

    def _in_stream(self, data: str) -> errors.ModelError:
        """Translate an error that arrived as an event, after the response had started."""
        code = str(_error_fields(data).get("code"))
        status = int(code) if re.fullmatch("[45][0-9]{2}", code) else 200
        refusal = Refusal(status=status, body=data)
        error = self._translate(refusal)
        if error is None or (isinstance(error, UnknownField) and error.field != IMAGE_URL):
            return self._error(errors.ModelError, _reason(refusal))
        return error


def _first_field(body: str) -> str | None:
    """The rejected field, which is named before the one to use instead."""
    return min((field for field in _FIELDS if field in body), key=body.find, default=None)


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
