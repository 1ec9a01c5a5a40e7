"""OpenAI's chat completions API, as served by OpenAI and compatible services: OpenRouter, Ollama,
LM Studio, vLLM, llama.cpp and more.

First the chunks of an answer, then the body of a request, in a message order and a dialect that the
server accepts, then the client, which learns the dialect. Servers differ widely in their errors,
too, so most of those are recognised by their text.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from segue.agent.models import plain
from segue.agent.models.base import (
    Call,
    End,
    Piece,
    Prompt,
    Stop,
    Text,
    ToolSpec,
    as_user,
    by_agent,
    is_object,
)
from segue.agent.models.catalog import ApiFormat
from segue.agent.models.hosted import (
    IMAGE,
    RETRIED,
    HostedModel,
    Refusal,
    encoded,
    passing,
    read_out,
)
from segue.agent.models.messages import shown
from segue.core import errors
from segue.core.images import KINDS
from segue.core.session import Usage
from segue.core.text import whole
from segue.core.transcript import Image, Message, Role, ToolCall


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _Fragment(Struct):
    index: int | None = None
    id: str | int | None = None
    function: _Function | None = None


class _ChunkDelta(Struct):
    content: Any = None
    refusal: str | None = None
    tool_calls: list[_Fragment] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _ChunkDelta | None = None
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None


class _ChunkUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _OpenAIChunk(Struct):
    choices: list[_Choice] | None = None
    usage: _ChunkUsage | None = None
    error: Any = None
    object: Any = None


_CHUNKS = msgspec.json.Decoder(_OpenAIChunk)
_STOPS = {
    "tool_calls": Stop.CALLS,
    "function_call": Stop.CALLS,
    "length": Stop.LENGTH,
    "content_filter": Stop.REFUSED,
}


class _OpenAIAnswer:
    """An answer, assembled from its chunks."""

    def __init__(self, plain_tools: Iterable[str]) -> None:
        self._reader = plain.Reader(frozenset(plain_tools))
        self._calls = _Calls()
        self._usage = Usage()
        self._stop: Stop | None = None
        self._refused = False

    @property
    def finished(self) -> bool:
        return self._stop is not None

    def read(self, chunk: _OpenAIChunk) -> Iterator[Piece]:
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index or self.finished:
                continue
            if choice.delta is not None:
                yield from self._delta(choice.delta)
            if choice.finish_reason:
                yield from self._finish(_STOPS.get(choice.finish_reason, Stop.DONE))

    def end(self) -> End:
        return End(stop=self._stop or Stop.DONE, usage=self._usage)

    def _delta(self, delta: _ChunkDelta) -> Iterator[Piece]:
        self._refused = self._refused or bool(delta.refusal)
        if text := self._reader.feed(_text(delta.content) + (delta.refusal or "")):
            yield Text(text)
        for fragment in delta.tool_calls or ():
            self._calls.add(fragment)

    def _finish(self, stop: Stop) -> Iterator[Piece]:
        whole = stop is not Stop.LENGTH
        held = self._reader.end(_new_id(), whole=whole)
        calls = list(self._calls.complete(whole=whole))
        if isinstance(held, ToolCall):
            calls.append(held)
        elif held:
            yield Text(held)
        yield from (Call(call) for call in calls)
        if stop in {Stop.DONE, Stop.CALLS}:
            # Several servers send "stop" even after calls, and some send "tool_calls" without any.
            stop = Stop.CALLS if calls else Stop.REFUSED if self._refused else Stop.DONE
        self._stop = stop


@dataclass(slots=True)
class _Building:
    """A tool call that is still incomplete."""

    index: int | None
    id: str
    name: str
    arguments: list[str]


class _Calls:
    """Assembles tool calls from their fragments.

    OpenAI numbers the calls and sends the id only with the first fragment. Other servers omit the
    number or the id, repeat the id or the name in every fragment, or number every call 0.
    """

    def __init__(self) -> None:
        self._calls: list[_Building] = []

    def add(self, fragment: _Fragment) -> None:
        call_id = "" if fragment.id is None else str(fragment.id)
        function = fragment.function or _Function()
        name = function.name or ""
        call = self._goes_on(fragment.index, call_id, name)
        if call is None:
            call = _Building(fragment.index, call_id, name, [])
            self._calls.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        if function.arguments is not None:
            call.arguments.append(_arguments(function.arguments))

    def complete(self, *, whole: bool) -> Iterator[ToolCall]:
        """Yield the calls. If the answer was cut short, skip those that may be incomplete."""
        taken: set[str] = set()
        for call in self._calls:
            arguments = "".join(call.arguments)
            if not whole and not is_object(arguments):
                continue
            call_id = call.id if call.id and call.id not in taken else _new_id()
            taken.add(call_id)
            yield ToolCall(id=call_id, name=call.name, arguments=arguments.strip() or "{}")

    def _goes_on(self, index: int | None, call_id: str, name: str) -> _Building | None:
        """The call that a fragment belongs to, or None if it starts a new one."""
        same = [c for c in self._calls if index is None or c.index == index]
        if call_id:
            known = [c for c in same if c.id == call_id]
            unnamed = [c for c in same[-1:] if not c.id and index is not None]
            return (known or unnamed or [None])[-1]
        if not same:
            return None
        last = same[-1]
        if name and last.name and (name != last.name or is_object("".join(last.arguments))):
            return None
        return last


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _text(content: Any) -> str:
    """The text of a delta. The content is a string, or a list of parts on some servers."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = (cast("dict[str, Any]", p).get("text") for p in parts if isinstance(p, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _usage(tokens: _ChunkUsage) -> Usage:
    details = tokens.prompt_tokens_details or _Details()
    return Usage(
        input=tokens.prompt_tokens or 0,
        output=tokens.completion_tokens or 0,
        cached=details.cached_tokens or 0,
    )


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


_IMAGE_URL = "image_url"

_Pictures = Sequence[Image | str]
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDialect:
    """The few fields on which compatible servers differ."""

    LESSONS = 3

    limit: str
    usage: bool = True
    images: bool = True

    def without(self, field: str) -> ServerDialect:
        if field == "stream_options":
            return replace(self, usage=False)
        if field == _IMAGE_URL:
            return replace(self, images=False)
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
        return replace(self, limit=other[field])


def limit_at(host: str) -> str:
    """The name of the field that limits the length of the answer.

    OpenAI's newer models reject `max_tokens`. Ollama and many other servers know only that field,
    and would silently leave the answer without a limit.
    """
    ours = host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))
    return "max_completion_tokens" if ours else "max_tokens"


def build(prompt: Prompt, *, model: str, dialect: ServerDialect, small: bool = False) -> bytes:
    """Build the request body."""
    request: dict[str, Any] = {
        "model": model,
        "messages": _messages(prompt, KINDS if dialect.images else (), small=small),
        "stream": True,
        dialect.limit: prompt.max_tokens,
    }
    if dialect.usage:
        request["stream_options"] = {"include_usage": True}
    if small:
        # A small model's most likely token is its best; the rest is mostly noise. Without a
        # penalty, though, it repeats one sentence forever.
        request |= {"temperature": 0, "frequency_penalty": 0.4}
    elif prompt.tools:
        request["tools"] = [_tool(tool) for tool in prompt.tools]
    return encoded(request)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(prompt: Prompt, kinds: Collection[str], *, small: bool) -> list[dict[str, Any]]:
    """The system message and the conversation, in an order that the strictest server accepts.

    OpenAI accepts any order. But the chat templates of Mistral, Gemma and others, which vLLM and
    llama.cpp apply, fail unless user and assistant alternate, starting with the user. Mistral's own
    API requires an assistant message between a tool result and the next user message. So
    consecutive messages of one role are merged, and missing ones are filled in with a text in
    brackets.
    """
    system = prompt.system
    answered = bool(prompt.messages) and prompt.messages[-1].role is Role.TOOL
    wanted = small and not answered and plain.are_wanted(prompt.messages)
    if wanted and (tools := plain.describe(prompt.tools)):
        system = f"{system}\n\n{tools}".strip()
    sent: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    entry_of = _plain_entry if small else _entry
    last = "system"
    for message, pictures in shown(prompt.messages, kinds):
        entry = entry_of(message, pictures)
        if entry is None:
            continue
        role = entry["role"]
        if role == last and role != "tool" and "tool_calls" not in sent[-1]:
            _merge(sent[-1], entry)
            continue
        if role == "assistant" and last == "system":
            sent.append({"role": "user", "content": "[The beginning is left out.]"})
        elif role == "user" and last == "tool":
            sent.append({"role": "assistant", "content": "[I was interrupted.]"})
        sent.append(entry)
        last = role
    if small and answered:
        sent[-1]["content"] = plain.ask_for_words(sent[-1]["content"])
    return sent


def _merge(into: dict[str, Any], entry: dict[str, Any]) -> None:
    before = into["content"]
    after = entry["content"]
    into |= entry
    if isinstance(before, list) or isinstance(after, list):
        into["content"] = [*_parts(before), *_parts(after)]
    else:
        into["content"] = "\n\n".join(text for text in (before, after) if text)


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return cast("list[dict[str, Any]]", content)
    return [_part(content)] if content else []


def _entry(message: Message, pictures: _Pictures) -> dict[str, Any] | None:
    """The message in wire format, or None if it is empty."""
    if message.role is Role.TOOL:
        call_id = _sendable_id(message.tool_call_id or "")
        return {"role": "tool", "tool_call_id": call_id, "content": message.content}
    if not by_agent(message):
        return {"role": "user", "content": _as_user(message, pictures)}
    if message.tool_calls:
        calls = [_sent_call(call) for call in message.tool_calls]
        return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    return {"role": "assistant", "content": message.content} if message.content else None


def _plain_entry(message: Message, pictures: _Pictures) -> dict[str, Any] | None:
    """Like `_entry`, for a model that sees tools only as text."""
    if message.role is Role.TOOL:
        return {"role": "user", "content": plain.result_text(message.tool_name, message.content)}
    if not by_agent(message):
        return {"role": "user", "content": _as_user(message, pictures)}
    texts = [message.content, *(plain.call_text(call) for call in message.tool_calls)]
    said = "\n".join(text for text in texts if text)
    return {"role": "assistant", "content": said} if said else None


def _as_user(message: Message, pictures: _Pictures) -> str | list[dict[str, Any]]:
    """A plain string, which every server can read, or a list of parts if there are pictures."""
    parts = [part for part in (*pictures, as_user(message)) if part]
    if any(isinstance(part, Image) for part in parts):
        return [_part(part) for part in parts]
    return "\n\n".join(map(str, parts))


def _part(content: Image | str) -> dict[str, Any]:
    if isinstance(content, str):
        return {"type": "text", "text": content}
    url = f"data:{content.media_type};base64,{base64.b64encode(content.data).decode()}"
    return {"type": _IMAGE_URL, _IMAGE_URL: {"url": url}}


def _sent_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": _sendable_name(call.name), "arguments": _sendable(call.arguments)}
    return {"id": _sendable_id(call.id), "type": "function", "function": function}


def _sendable(arguments: str) -> str:
    """The arguments as written, or wrapped if they are not a JSON object. vLLM and llama.cpp parse
    them for their templates, and would otherwise reject every later request of the conversation."""
    arguments = whole(arguments)
    if not arguments.strip():
        return "{}"
    if is_object(arguments):
        return arguments
    return msgspec.json.encode({"invalid": arguments}).decode()


def _sendable_id(call_id: str) -> str:
    """Shorten the id: OpenAI accepts 40 characters, and ids of other providers may be longer."""
    if len(call_id) <= 40:
        return call_id
    return "call_" + hashlib.sha256(whole(call_id).encode()).hexdigest()[:32]


def _sendable_name(name: str) -> str:
    """Make the name valid. The model may have invented one that OpenAI does not accept back."""
    return _NOT_IN_NAME.sub("_", name)[:64] or "unknown"


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
                if begun or not left or (error.field == _IMAGE_URL and not said.images):
                    raise
                self._learned = dialect.without(error.field)
                self.images = self._learned.images

    async def _send(self, prompt: Prompt, dialect: ServerDialect) -> AsyncGenerator[Piece]:
        plain_calls = self.small and plain.are_wanted(prompt.messages)
        answer = _OpenAIAnswer({t.name for t in prompt.tools} if plain_calls else ())
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

    def _chunk(self, event: httpx2.ServerSentEvent) -> _OpenAIChunk:
        if not event.data.strip():
            return _OpenAIChunk()
        try:
            chunk = _CHUNKS.decode(event.data)
        except (msgspec.DecodeError, UnicodeError) as error:
            reason = f"it sent {event.data[:200]!r}, not a chunk"
            raise self._error(errors.ModelError, reason) from error
        if chunk.error or chunk.object == "error" or event.event == "error":
            raise self._in_stream(event.data)
        return chunk

    # Errors

    def _translate(self, refusal: Refusal) -> errors.ModelError | None:
        status = refusal.status
        body = refusal.body
        reason = _reason(refusal)
        fields = _error_fields(body)
        if status == 401 or fields.get("code") == "invalid_api_key":
            return self._error(errors.BadKey)
        if status == 402 or not _NO_CREDIT.isdisjoint((fields.get("code"), fields.get("type"))):
            return self._error(errors.NoCredit)
        if _NO_IMAGES.search(body):
            return self._error(UnknownField, reason, field=_IMAGE_URL)
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
        if error is None or (isinstance(error, UnknownField) and error.field != _IMAGE_URL):
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
