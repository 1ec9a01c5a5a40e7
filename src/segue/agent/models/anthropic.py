"""Anthropic's Messages API, with streaming: the events of an answer, the body of a request with its
cache breakpoints, and the client, with its errors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Struct

from segue.agent.models.base import (
    Call,
    End,
    Piece,
    Prompt,
    Stop,
    Text,
    ToolSpec,
    as_object,
    is_object,
)
from segue.agent.models.catalog import ApiFormat
from segue.agent.models.hosted import IMAGE, HostedModel, Refusal, encoded, passing, read_out
from segue.agent.models.messages import Json, Unlaid, by_turns, layout_of
from segue.core import errors
from segue.core.images import KINDS
from segue.core.session import Usage
from segue.core.transcript import Image, Message, ToolCall

EXTRAS = "anthropic"

_STOPS = {
    "tool_use": Stop.CALLS,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    # Only tools that run on Anthropic's servers pause, and we offer none. Treated as incomplete.
    "pause_turn": Stop.LENGTH,
    "refusal": Stop.REFUSED,
}


class _EventUsage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Start(Struct):
    usage: _EventUsage | None = None


class _Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str | None = None
    input: Any = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _BlockDelta(Struct):
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _AnthropicError(Struct):
    type: str = ""
    message: str = ""


class _Event(Struct):
    type: str = ""
    index: int = 0
    message: _Start | None = None
    content_block: _Block | None = None
    delta: _BlockDelta | None = None
    usage: _EventUsage | None = None
    error: _AnthropicError | None = None


_EVENTS = msgspec.json.Decoder(_Event)


class _Growing:
    """A content block that is still streaming."""

    def __init__(self, block: _Block) -> None:
        self.block = block
        self.parts: list[str] = []
        self.signature = block.signature or ""

    def take(self, delta: _BlockDelta) -> str:
        """Add the delta, and return its text for the user."""
        self.signature = delta.signature or self.signature
        self.parts.append(delta.text or delta.partial_json or delta.thinking or "")
        return self.parts[-1] if self.block.type == "text" else ""

    @property
    def whole(self) -> str:
        return "".join(self.parts)

    def call(self) -> ToolCall:
        given = msgspec.json.encode(self.block.input or {}).decode()
        return ToolCall(self.block.id, self.block.name, self.whole or given)


class _AnthropicAnswer:
    """An answer, assembled from its events."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Growing] = {}
        self._reason = ""
        self._tokens: dict[str, int] = {}

    def take(self, event: _Event) -> str:
        """Process the event, and return its text for the user."""
        self._count(event.usage or (event.message.usage if event.message else None))
        if (block := event.content_block) is not None:
            growing = self._blocks[event.index] = _Growing(block)
            return growing.take(_BlockDelta(text=block.text, thinking=block.thinking))
        if event.delta is None:
            return ""
        self._reason = event.delta.stop_reason or self._reason
        growing = self._blocks.get(event.index)
        return growing.take(event.delta) if growing and event.type.startswith("content") else ""

    def rest(self) -> Iterator[Piece]:
        """Yield the calls and the End. Only the end shows whether the last call was cut short or
        the whole answer was refused."""
        stop = _STOPS.get(self._reason, Stop.DONE)
        calls: list[ToolCall] = []
        if stop is not Stop.REFUSED:
            uses = (b.call() for b in self._blocks.values() if b.block.type == "tool_use")
            calls = [call for call in uses if stop is not Stop.LENGTH or is_object(call.arguments)]
        yield from map(Call, calls)
        layout = self._layout({call.id for call in calls})
        yield End(
            stop=Stop.CALLS if calls and stop is Stop.DONE else stop,
            usage=self._usage(),
            extras={EXTRAS: layout} if layout else {},
        )

    def _layout(self, calls: set[str]) -> list[Any]:
        """The layout of an answer with thinking, or an empty list without: thinking blocks
        verbatim, a length for each text, an id for each call."""
        layout: list[Any] = []
        for growing in self._blocks.values():
            match growing.block.type:
                case "text":
                    layout.append(len(growing.whole))
                case "tool_use" if growing.block.id in calls:
                    layout.append(growing.block.id)
                case "thinking" if growing.signature:
                    thought = {"thinking": growing.whole, "signature": growing.signature}
                    layout.append({"type": "thinking", **thought})
                case "redacted_thinking":
                    layout.append({"type": "redacted_thinking", "data": growing.block.data})
                case _:
                    pass
        return layout if any(isinstance(item, dict) for item in layout) else []

    def _count(self, tokens: _EventUsage | None) -> None:
        """Update the counts. They are totals, so later ones replace earlier ones."""
        if tokens is not None:
            counts = cast("dict[str, int | None]", msgspec.structs.asdict(tokens))
            self._tokens |= {key: n for key, n in counts.items() if n is not None}

    def _usage(self) -> Usage:
        # Anthropic's input_tokens exclude tokens that were read from or written to the cache.
        count = self._tokens.get
        cached = count("cache_read_input_tokens", 0)
        written = count("cache_creation_input_tokens", 0)
        return Usage(
            input=count("input_tokens", 0) + written + cached,
            output=count("output_tokens", 0),
            cached=cached,
        )


_MARK = {"type": "ephemeral"}
_MARKED_MESSAGES = 3
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LIMIT = 64


def build(model: str, prompt: Prompt, *, thinking: bool, kinds: Collection[str] = KINDS) -> Json:
    """Build the request body. `thinking` includes the thinking of earlier answers, and `kinds` are
    the media types of the pictures to include."""
    messages = by_turns(prompt.messages, _Blocks(thinking=thinking), kinds)
    body: Json = {
        "model": model,
        "max_tokens": prompt.max_tokens,
        "stream": True,
        "messages": messages,
    }
    if prompt.tools:
        body["tools"] = [_tool(spec) for spec in prompt.tools]
    elif names := _names_used(prompt.messages):
        # A conversation with tool calls must declare tools, even if none may be called now.
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        body["tool_choice"] = {"type": "none"}
    if prompt.system.strip():
        body["system"] = [{"type": "text", "text": prompt.system}]
    _mark(body)
    return body


def _mark(body: Json) -> None:
    """Set cache breakpoints, at most four: one after the tools and the system prompt, and the
    others at the end of the last user messages, where the previous requests ended."""
    if fixed := body.get("system") or body.get("tools"):
        fixed[-1]["cache_control"] = _MARK
    users = [m for m in body["messages"][-2 * _MARKED_MESSAGES :] if m["role"] == "user"]
    for message in users[-_MARKED_MESSAGES:]:
        message["content"][-1]["cache_control"] = _MARK


def _tool(spec: ToolSpec) -> Json:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _names_used(messages: Sequence[Message]) -> list[str]:
    return sorted({_tool_name(call.name) for m in messages for call in m.tool_calls})


def _text(words: str) -> list[Json]:
    return [{"type": "text", "text": words}] if words.strip() else []


class _Blocks:
    """Messages as content blocks."""

    role: ClassVar[str] = "assistant"
    parts: ClassVar[str] = "content"
    text = staticmethod(_text)

    def __init__(self, *, thinking: bool) -> None:
        self._thinking = thinking
        self._ids = _Ids()

    def picture(self, picture: Image) -> Json:
        source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
        return {"type": "image", "source": source}

    def answer(self, message: Message) -> list[Json]:
        calls = [self._use(call) for call in message.tool_calls]
        kept = layout_of(message, EXTRAS) if self._thinking else []
        laid_out = _laid_out(kept, message, calls) if kept else None
        return laid_out or _text(message.content) + calls

    def result(self, message: Message) -> Json:
        call_id = self._ids.of_result(message.tool_call_id or "")
        block: Json = {"type": "tool_result", "tool_use_id": call_id}
        if message.content.strip():
            block["content"] = message.content
        return block

    def _use(self, call: ToolCall) -> Json:
        return {
            "type": "tool_use",
            "id": self._ids.of_call(call.id),
            "name": _tool_name(call.name),
            "input": as_object(call),
        }


def _laid_out(kept: list[Any], message: Message, calls: list[Json]) -> list[Json] | None:
    """The blocks in their original order, or None if the layout no longer matches the message."""
    blocks: list[Json] = []
    left = Unlaid(message, calls)
    for item in kept:
        if isinstance(item, int):
            blocks += _text(left.text(item))
        elif isinstance(item, str) and (call := left.call(item)):
            blocks.append(call)
        elif isinstance(item, dict):
            blocks.append(cast("Json", item))
        else:
            return None
    whole = blocks and left.is_nothing
    return blocks if whole and "thinking" not in blocks[-1]["type"] else None


def _tool_name(name: str) -> str:
    """Make the name valid. A model of another provider may have invented it."""
    return _NOT_IN_NAME.sub("_", name)[:_NAME_LIMIT] or "_"


class _Ids:
    """Tool call ids that the API accepts: letters, digits, _ and -, each id used only once.

    Other providers have other rules, and some count from 0 in every answer. The same conversation
    always gets the same ids.
    """

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._times: dict[str, int] = {}
        self._waiting: list[tuple[str, str]] = []

    def of_call(self, raw: str) -> str:
        base = raw
        if not _ID.fullmatch(raw):
            base = "call_" + hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:24]
        given = base
        while given in self._given:
            self._times[base] = self._times.get(base, 0) + 1
            given = f"{base}_{self._times[base]}"
        self._given.add(given)
        self._waiting.append((raw, given))
        return given

    def of_result(self, raw: str) -> str:
        """The id of the oldest call named `raw` that has no result yet."""
        for i, (waiting, given) in enumerate(self._waiting):
            if waiting == raw:
                del self._waiting[i]
                return given
        return self.of_call(raw)


_THINKING = "thinking"
_LAST_BYTES = 1.0
"""Seconds to wait for the end of the stream after the end of the answer."""
_NO_CREDIT = ("credit balance", "api usage limits")
_TOO_LONG = ("prompt is too long", "exceed context limit", "context window")


class _AnthropicRefusal(Struct):
    error: _AnthropicError


_REFUSAL = msgspec.json.Decoder(_AnthropicRefusal)


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
        answer = _AnthropicAnswer()
        async with aclosing(self._client.events("/v1/messages", encoded(asked))) as events:
            async for event in events:
                news = self._read(event.data, _EVENTS)
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
        return self._fault(refusal.status, _REFUSAL.decode(refusal.body).error)

    def _fault(self, status: int, error: _AnthropicError) -> errors.ModelError:
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
