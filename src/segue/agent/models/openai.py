"""OpenAI's chat completions, as OpenAI and everybody compatible with it serve them: OpenRouter,
Ollama, LM Studio, vLLM, llama.cpp and more."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from segue.agent.models import plain
from segue.agent.models.base import Call, End, Piece, Prompt, Stop, Text, ToolSpec
from segue.agent.models.http import RETRIED, Client, Endpoint, Patience, Refusal
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelCutOff,
    ModelError,
    ModelOffline,
    ModelRefused,
    ModelStalled,
    NoCredit,
    UnknownModel,
)
from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Role, ToolCall

_PROVIDERS = {
    "api.openai.com": "OpenAI",
    "openrouter.ai": "OpenRouter",
    "api.groq.com": "Groq",
    "api.mistral.ai": "Mistral",
    "api.deepseek.com": "DeepSeek",
}
_PATIENCE = Patience()
_LINGER = 0.25
"""Seconds that a server may take to end the response after its last event."""


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
        patience: Patience = _PATIENCE,
        reuse: bool = True,
    ) -> None:
        self.name = name
        self.context = context
        self.small = small
        self.images = not small if images is None else images
        self._model = model
        self._key = (key or "").strip()
        host = urlsplit(base_url).hostname or ""
        self._faults = _Faults(
            provider=_PROVIDERS.get(host) or name.partition("/")[0],
            name=name,
            model=model,
            base_url=base_url,
            setting=setting,
        )
        self._dialect = _Dialect(limit=_limit(host))
        self._client = Client(
            Endpoint(
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

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        if not (self._key.isascii() and self._key.isprintable()):
            raise BadKey(provider=self._faults.provider, setting=self._faults.setting)
        for _ in range(_Dialect.LESSONS):
            dialect = self._dialect
            try:
                async with contextlib.aclosing(self._ask(prompt, dialect)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except _UnknownField as error:
                self._dialect = dialect.without(error.field)
        async with contextlib.aclosing(self._ask(prompt, self._dialect)) as pieces:
            async for piece in pieces:
                yield piece

    async def _ask(self, prompt: Prompt, dialect: _Dialect) -> AsyncGenerator[Piece]:
        answer = _Answer({t.name for t in prompt.tools} if self.small else ())
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
            # A response that was read to its end leaves a connection that can be used again.
            with contextlib.suppress(TimeoutError, ModelError):
                async with asyncio.timeout(_LINGER):
                    async for _ in events:
                        pass
        if not answer.finished:
            raise ModelCutOff(provider=self._faults.provider)
        yield answer.end()

    def _chunk(self, event: httpx2.ServerSentEvent) -> _Chunk:
        if not event.data.strip():
            return _Chunk()
        try:
            chunk = _CHUNKS.decode(event.data)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self._faults.failed(f"it sent {event.data[:200]!r}, not a chunk") from error
        if chunk.error or chunk.object == "error" or event.event == "error":
            raise self._faults.in_stream(event.data)
        return chunk


# What we send


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialect:
    """The few fields about which compatible servers disagree."""

    LESSONS = 2

    limit: str
    usage: bool = True

    def without(self, field: str) -> _Dialect:
        if field == "stream_options":
            return replace(self, usage=False)
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
        return replace(self, limit=other[field])


def _limit(host: str) -> str:
    """OpenAI's newer models refuse `max_tokens`; Ollama and many other servers know nothing else,
    and would leave the answer without a limit rather than complain."""
    ours = host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))
    return "max_completion_tokens" if ours else "max_tokens"


def build(prompt: Prompt, *, model: str, dialect: _Dialect, small: bool = False) -> bytes:
    """The body of the request."""
    request: dict[str, Any] = {
        "model": model,
        "messages": _messages(prompt, small=small),
        "stream": True,
        dialect.limit: prompt.max_tokens,
    }
    if dialect.usage:
        request["stream_options"] = {"include_usage": True}
    if small:
        # What a small model thinks most likely is its best; the rest is mostly noise.
        request["temperature"] = 0
    elif prompt.tools:
        request["tools"] = [_tool(tool) for tool in prompt.tools]
    return msgspec.json.encode(request)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _messages(prompt: Prompt, *, small: bool) -> list[dict[str, Any]]:
    """The system's message, then what was said, in an order that the strictest server takes.

    OpenAI takes any order. But the chat templates of Mistral, Gemma and others, which vLLM and
    llama.cpp apply, fail unless user and assistant take turns, beginning with the user; and
    Mistral's own API wants the assistant's word between a tool's result and the user's next one.
    So neighbours of one role become one message, and what is missing is said in brackets.
    """
    system = prompt.system
    answered = bool(prompt.messages) and prompt.messages[-1].role is Role.TOOL
    if small and not answered and (tools := plain.describe(prompt.tools)):
        system = f"{system}\n\n{tools}".strip()
    sent: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    entry_of = _plain_entry if small else _entry
    last = "system"
    for message in prompt.messages:
        entry = entry_of(message)
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
    texts = (into["content"], entry["content"])
    into |= entry
    into["content"] = "\n\n".join(text for text in texts if text)


def _entry(message: Message) -> dict[str, Any] | None:
    """A message on the wire; None for one that says nothing."""
    if message.role is Role.TOOL:
        call_id = _sendable_id(message.tool_call_id or "")
        return {"role": "tool", "tool_call_id": call_id, "content": message.content}
    if not _by_assistant(message):
        return {"role": "user", "content": _as_user(message)}
    if message.tool_calls:
        calls = [_sent_call(call) for call in message.tool_calls]
        return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    return {"role": "assistant", "content": message.content} if message.content else None


def _plain_entry(message: Message) -> dict[str, Any] | None:
    """The same for a model that knows tools only as text."""
    if message.role is Role.TOOL:
        return {"role": "user", "content": plain.result_text(message.tool_name, message.content)}
    if not _by_assistant(message):
        return {"role": "user", "content": _as_user(message)}
    texts = [message.content, *(plain.call_text(call) for call in message.tool_calls)]
    said = "\n".join(text for text in texts if text)
    return {"role": "assistant", "content": said} if said else None


def _by_assistant(message: Message) -> bool:
    return message.role is Role.ASSISTANT and (
        message.kind is Kind.SAID or bool(message.tool_calls)
    )


def _as_user(message: Message) -> str:
    if message.kind is Kind.SUMMARY:
        return f"[A summary of our conversation up to here:]\n\n{message.content}"
    return message.content


def _sent_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": _sendable_name(call.name), "arguments": _sendable(call.arguments)}
    return {"id": _sendable_id(call.id), "type": "function", "function": function}


def _sendable(arguments: str) -> str:
    """Arguments as written; wrapped when they are no JSON object, which vLLM and llama.cpp, who
    parse them for their templates, would refuse for the rest of the conversation."""
    if not arguments.strip():
        return "{}"
    if _is_object(arguments):
        return arguments
    return msgspec.json.encode({"invalid": arguments}).decode()


def _sendable_id(call_id: str) -> str:
    """OpenAI takes 40 characters; other providers' ids may be longer."""
    if len(call_id) <= 40:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode()).hexdigest()[:32]


def _sendable_name(name: str) -> str:
    """A model may have made up a name that OpenAI would not take back."""
    if _NAME.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def _is_object(text: str) -> bool:
    try:
        _OBJECTS.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OBJECTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


# What we get


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _Fragment(Struct):
    index: int | None = None
    id: str | int | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: Any = None
    refusal: str | None = None
    tool_calls: list[_Fragment] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None


class _Tokens(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _Tokens | None = None
    error: Any = None
    object: Any = None


_CHUNKS = msgspec.json.Decoder(_Chunk)
_STOPS = {
    "tool_calls": Stop.CALLS,
    "function_call": Stop.CALLS,
    "length": Stop.LENGTH,
    "content_filter": Stop.REFUSED,
}


class _Answer:
    """Puts the chunks of one answer together."""

    def __init__(self, plain_tools: Iterable[str]) -> None:
        self._reader = plain.Reader(frozenset(plain_tools))
        self._calls = _Calls()
        self._usage = Usage()
        self._stop: Stop | None = None
        self._refused = False

    @property
    def finished(self) -> bool:
        return self._stop is not None

    def read(self, chunk: _Chunk) -> Iterator[Piece]:
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

    def _delta(self, delta: _Delta) -> Iterator[Piece]:
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
            # Several servers say "stop" after calls, and some "tool_calls" after none.
            stop = Stop.CALLS if calls else Stop.REFUSED if self._refused else Stop.DONE
        self._stop = stop


@dataclass(slots=True)
class _Building:
    """A tool call of which fragments are still coming."""

    index: int | None
    id: str
    name: str
    arguments: list[str]


class _Calls:
    """Tool calls from their fragments. OpenAI numbers the calls and gives the id only with the
    first fragment. Others leave out the number or the id, repeat the id or the name in every
    fragment, or number every call 0."""

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
        """The calls. When the answer was cut short, one that may be half is left out."""
        taken: set[str] = set()
        for call in self._calls:
            arguments = "".join(call.arguments)
            if not whole and not _is_object(arguments):
                continue
            call_id = call.id if call.id and call.id not in taken else _new_id()
            taken.add(call_id)
            yield ToolCall(id=call_id, name=call.name, arguments=arguments.strip() or "{}")

    def _goes_on(self, index: int | None, call_id: str, name: str) -> _Building | None:
        """The call that a fragment belongs to; None when it begins a new one."""
        same = [c for c in self._calls if index is None or c.index == index]
        if call_id:
            known = [c for c in same if c.id == call_id]
            unnamed = [c for c in same[-1:] if not c.id and index is not None]
            return (known or unnamed or [None])[-1]
        if not same:
            return None
        last = same[-1]
        if name and last.name and (name != last.name or _is_object("".join(last.arguments))):
            return None
        return last


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _text(content: Any) -> str:
    """A delta's content: a string, or, from some servers, a list of parts."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = (cast("dict[str, Any]", p).get("text") for p in parts if isinstance(p, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _usage(tokens: _Tokens) -> Usage:
    details = tokens.prompt_tokens_details or _Details()
    return Usage(
        input=tokens.prompt_tokens or 0,
        output=tokens.completion_tokens or 0,
        cached=details.cached_tokens or 0,
    )


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


# What goes wrong


class _UnknownField(ModelRefused):
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
_FIELDS = ("stream_options", "max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Faults:
    """Reads what servers say when they will not answer."""

    provider: str
    name: str
    model: str
    base_url: str
    setting: str

    def explain(self, refusal: Refusal) -> ModelError | None:
        status, reason = refusal.status, _reason(refusal)
        told = _told(refusal.body)
        if status == 401 or told.get("code") == "invalid_api_key":
            return BadKey(provider=self.provider, setting=self.setting)
        if status == 402 or not _NO_CREDIT.isdisjoint((told.get("code"), told.get("type"))):
            return NoCredit(provider=self.provider)
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
        """An error that came as an event, after the response had begun."""
        code = str(_told(data).get("code"))
        refusal = Refusal(
            status=int(code) if re.fullmatch("[45][0-9]{2}", code) else 200, body=data
        )
        told = self.explain(refusal)
        if told is None or isinstance(told, _UnknownField):
            return self.failed(_reason(refusal))
        return told

    def failed(self, reason: str) -> ModelError:
        return ModelError(provider=self.provider, reason=reason)

    def _not_found(self, refusal: Refusal, reason: str) -> ModelError:
        if _NO_SUCH_MODEL.search(refusal.body) or self.model in refusal.body:
            return UnknownModel(provider=self.provider, model=self.model)
        if _told(refusal.body):
            return ModelRefused(provider=self.provider, reason=reason)
        return ModelOffline(
            provider=self.provider, url=self.base_url, reason="no such API is there (HTTP 404)"
        )

    def _refused(self, refusal: Refusal, reason: str) -> ModelError:
        # The field that is refused comes first, the one to use instead later.
        named = [(refusal.body.find(field), field) for field in _FIELDS]
        first = min((found for found in named if found[0] >= 0), default=None)
        if first and refusal.status in {400, 422} and _NO_SUCH_FIELD.search(refusal.body):
            return _UnknownField(provider=self.provider, field=first[1], reason=reason)
        return ModelRefused(provider=self.provider, reason=reason)


def _told(body: str) -> Mapping[str, Any]:
    """The error object of a body: `error`, or, from older vLLM, the body itself."""
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
    """One line, without the full stop that our own sentence adds."""
    told = _told(refusal.body)
    metadata = told.get("metadata")
    # OpenRouter's own message is only "Provider returned error".
    raw = cast("dict[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    said = raw or told.get("message") or refusal.body or f"HTTP {refusal.status}"
    return " ".join(str(said).split())[:300].rstrip(". ")
