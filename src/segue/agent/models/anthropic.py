"""Anthropic's Messages API, streaming."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

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
    as_user,
    by_agent,
)
from segue.agent.models.http import Client, Endpoint, Patience, Refusal, encoded
from segue.agent.models.pictures import shown
from segue.agent.models.refused import IMAGE, carried, conceding
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelCutOff,
    ModelError,
    ModelRefused,
    NoCredit,
    UnknownModel,
)
from segue.core.images import KINDS
from segue.core.session import Usage
from segue.core.transcript import Image, Message, Role, ToolCall

PROVIDER = "Anthropic"
BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"

OPENING = "(The beginning of this conversation is not shown.)"
"""Said for the person when the window begins with the assistant: the first word is a user's."""
ONWARD = "(Go on.)"
"""Said for the person when the window ends with the assistant: newer models do not go on from
their own words."""

_EXTRAS = "anthropic"
_THINKING = "thinking"
_MARK = {"type": "ephemeral"}
_MARKED_MESSAGES = 3
_LAST_BYTES = 1.0
"""Seconds that the end of a stream may take after the end of the answer."""
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LIMIT = 64
_STOPS = {
    "end_turn": Stop.DONE,
    "stop_sequence": Stop.DONE,
    "tool_use": Stop.CALLS,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    # Only tools that run at Anthropic's pause, and we offer none: whatever it was, it is not whole.
    "pause_turn": Stop.LENGTH,
    "refusal": Stop.REFUSED,
}
_NO_CREDIT = ("credit balance", "api usage limits")
_TOO_LONG = ("prompt is too long", "exceed context limit", "context window")

_Json = dict[str, Any]


class AnthropicModel:
    """A model at Anthropic, or behind anything that speaks its Messages API."""

    def __init__(
        self,
        *,
        name: str,
        model: str,
        key: str,
        setting: str,
        context: int,
        base_url: str = BASE_URL,
        small: bool = False,
        images: bool = True,
        patience: Patience | None = None,
    ) -> None:
        """`setting` is where the person put the key: a bad one is reported with it."""
        self.name = name
        self._model = model
        self._setting = setting
        self.context = context
        self.small = small
        self.images = images
        self._client = Client(
            Endpoint(
                provider=PROVIDER,
                base_url=base_url,
                headers={"x-api-key": key, "anthropic-version": VERSION},
                explain=self._explain,
                patience=patience or Patience(),
            )
        )

    async def close(self) -> None:
        await self._client.close()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """The answer, piece by piece, ending with End; or a ModelError.

        Thinking that came with earlier answers goes back as it came. Newer models refuse it when
        anything before it has changed (a summary, a trimmed output, another system prompt); then
        the same is asked once more without any of it. So it is with pictures.
        """

        def ask(included: frozenset[str]) -> AsyncGenerator[Piece]:
            kinds = KINDS if IMAGE in included else ()
            thinking = _THINKING in included
            return self._ask(request(self._model, prompt, thinking=thinking, kinds=kinds))

        included = carried(prompt, images=self.images, extras={_EXTRAS: _THINKING})
        async with aclosing(conceding(ask, included)) as pieces:
            async for piece in pieces:
                yield piece

    async def _ask(self, asked: _Json) -> AsyncGenerator[Piece]:
        answer = _Answer()
        async with aclosing(self._client.events("/v1/messages", encoded(asked))) as events:
            async for event in events:
                news = _read(event.data)
                if news.type == "message_stop":
                    await _read_out(events)
                    break
                if news.error is not None:
                    raise self._told(0, news.error)
                if text := answer.take(news):
                    yield Text(text)
            else:
                raise ModelCutOff(provider=PROVIDER)
        for piece in answer.rest():
            yield piece

    def _explain(self, refusal: Refusal) -> ModelError | None:
        try:
            error = _REFUSAL.decode(refusal.body).error
        except msgspec.MsgspecError:
            return ContextTooLong(model=self._model) if refusal.status == 413 else None
        return self._told(refusal.status, error)

    def _told(self, status: int, error: _Error) -> ModelError:
        """What an error of the API means to the person. Inside a stream it has no status."""
        reason = error.message.strip().rstrip(".") or error.type
        said = reason.lower()
        match error.type, status:
            case ("authentication_error" | "permission_error", _) | (_, 401 | 403):
                return BadKey(provider=PROVIDER, setting=self._setting)
            case ("not_found_error", _):
                return UnknownModel(provider=PROVIDER, model=self._model)
            case ("billing_error", _) | (_, 402):
                return NoCredit(provider=PROVIDER)
            case ("request_too_large", _) | (_, 413):
                return ContextTooLong(model=self._model)
            case ("invalid_request_error", _):
                if any(words in said for words in _NO_CREDIT):
                    return NoCredit(provider=PROVIDER)
                if any(words in said for words in _TOO_LONG):
                    return ContextTooLong(model=self._model)
                return ModelRefused(provider=PROVIDER, reason=reason)
            case _:
                return ModelBusy(provider=PROVIDER, reason=reason)


# What we send


def request(model: str, prompt: Prompt, *, thinking: bool, kinds: Collection[str] = KINDS) -> _Json:
    """The body of one request, with or without the thinking of earlier answers, and with pictures
    of these kinds."""
    messages = _messages(shown(prompt.messages, kinds), thinking=thinking)
    body: _Json = {
        "model": model,
        "max_tokens": prompt.max_tokens,
        "stream": True,
        "messages": messages,
    }
    if prompt.tools:
        body["tools"] = [_tool(spec) for spec in prompt.tools]
    elif names := _names_used(prompt.messages):
        # A conversation with tool calls must declare tools, even where none may be called now.
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        body["tool_choice"] = {"type": "none"}
    if prompt.system.strip():
        body["system"] = [{"type": "text", "text": prompt.system}]
    _mark(body)
    return body


def _mark(body: _Json) -> None:
    """Where the provider may keep what it has read: after the tools and the system prompt, and at
    the end of the last user messages, which are where the last requests ended. Four at most."""
    if fixed := body.get("system") or body.get("tools"):
        fixed[-1]["cache_control"] = _MARK
    users = [m for m in body["messages"][-2 * _MARKED_MESSAGES :] if m["role"] == "user"]
    for message in users[-_MARKED_MESSAGES:]:
        message["content"][-1]["cache_control"] = _MARK


def _tool(spec: ToolSpec) -> _Json:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _names_used(messages: Sequence[Message]) -> list[str]:
    return sorted({_tool_name(call.name) for m in messages for call in m.tool_calls})


def _messages(
    told: Iterable[tuple[Message, Sequence[Image | str]]], *, thinking: bool
) -> list[_Json]:
    """Users and the assistant by turns, from a user to a user."""
    turns: list[_Json] = []
    ids = _Ids()

    def say(role: str, blocks: list[_Json]) -> None:
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        elif blocks:
            turns.append({"role": role, "content": blocks})

    for message, pictures in told:
        if message.role is Role.TOOL:
            say("user", [_result(message, ids)])
        elif by_agent(message):
            if not turns:
                say("user", _text(OPENING))
            say("assistant", _assistant(message, ids, thinking=thinking))
        else:
            say("user", [*map(_picture, pictures), *_text(as_user(message))])
    if not turns or turns[-1]["role"] == "assistant":
        say("user", _text(ONWARD if turns else OPENING))
    return turns


def _text(text: str) -> list[_Json]:
    """One block, or none: blank ones are refused."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _picture(picture: Image | str) -> _Json:
    if isinstance(picture, str):
        return {"type": "text", "text": picture}
    source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
    return {"type": "image", "source": source}


def _assistant(message: Message, ids: _Ids, *, thinking: bool) -> list[_Json]:
    calls = [_use(call, ids) for call in message.tool_calls]
    if thinking and message.extras and (layout := message.extras.get(_EXTRAS)):
        names = [call.id for call in message.tool_calls]
        if blocks := _laid_out(layout, message.content, names, calls):
            return blocks
    return _text(message.content) + calls


def _laid_out(layout: Any, text: str, ids: list[str], calls: list[_Json]) -> list[_Json] | None:
    """The blocks in the order in which they came (see _Answer.layout); None when the message is no
    longer what the layout describes."""
    blocks: list[_Json] = []
    at = called = 0
    for item in cast("list[Any]", layout) if isinstance(layout, list) else ():
        if isinstance(item, int):
            blocks += _text(text[at : at + item])
            at += item
        elif isinstance(item, str) and called < len(ids) and item == ids[called]:
            blocks.append(calls[called])
            called += 1
        elif isinstance(item, dict):
            blocks.append(cast("_Json", item))
        else:
            return None
    whole = at == len(text) and called == len(calls)
    return blocks if whole and blocks and "thinking" not in blocks[-1]["type"] else None


def _use(call: ToolCall, ids: _Ids) -> _Json:
    return {
        "type": "tool_use",
        "id": ids.of_call(call.id),
        "name": _tool_name(call.name),
        "input": arguments(call),
    }


def _result(message: Message, ids: _Ids) -> _Json:
    block: _Json = {"type": "tool_result", "tool_use_id": ids.of_result(message.tool_call_id or "")}
    if message.content.strip():
        block["content"] = message.content
    return block


def arguments(call: ToolCall) -> _Json:
    """The arguments as an object. What is none, as small models write it, goes under one name."""
    try:
        return _OBJECT.decode(call.arguments or "{}")
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return {"arguments": call.arguments}


def _tool_name(name: str) -> str:
    """A name that is accepted: other providers' models may have made one up."""
    return _NOT_IN_NAME.sub("_", name)[:_NAME_LIMIT] or "_"


class _Ids:
    """Tool call ids that are accepted: of letters, digits, _ and -, each only once.

    Other providers have other rules, and some count from 0 in every answer. The same conversation
    gets the same ids every time.
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
        """The id of the oldest call that still waits for a result by this name."""
        for i, (waiting, given) in enumerate(self._waiting):
            if waiting == raw:
                del self._waiting[i]
                return given
        return self.of_call(raw)


# What comes back


class _Error(Struct):
    type: str = ""
    message: str = ""


class _Refused(Struct):
    error: _Error


class _Tokens(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Start(Struct):
    usage: _Tokens | None = None


class _Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str | None = None
    input: Any = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Delta(Struct):
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    message: _Start | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Tokens | None = None
    error: _Error | None = None


_EVENT = msgspec.json.Decoder(_Event)
_REFUSAL = msgspec.json.Decoder(_Refused)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


async def _read_out(events: AsyncGenerator[object]) -> None:
    """Let the stream come to its end, which is due: only then can the connection be used again.
    Whatever happens, the answer is whole already."""
    with suppress(TimeoutError, ModelError):
        async with asyncio.timeout(_LAST_BYTES):
            async for _ in events:
                pass


def _read(data: str) -> _Event:
    try:
        return _EVENT.decode(data)
    except msgspec.MsgspecError as error:
        raise ModelError(provider=PROVIDER, reason="a stream that cannot be read") from error


class _Growing:
    """A content block while it streams."""

    def __init__(self, block: _Block) -> None:
        self.block = block
        self.parts: list[str] = []
        self.signature = block.signature or ""

    def take(self, delta: _Delta) -> str:
        """The text for the person that this adds."""
        self.signature = delta.signature or self.signature
        self.parts.append(delta.text or delta.partial_json or delta.thinking or "")
        return self.parts[-1] if self.block.type == "text" else ""

    @property
    def whole(self) -> str:
        return "".join(self.parts)

    def call(self) -> ToolCall:
        given = msgspec.json.encode(self.block.input or {}).decode()
        return ToolCall(self.block.id, self.block.name, self.whole or given)


class _Answer:
    """An answer, put together from its events."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Growing] = {}
        self._reason = ""
        self._tokens: dict[str, int] = {}

    def take(self, event: _Event) -> str:
        """The text for the person that this event brings, if any."""
        self._count(event.usage or (event.message.usage if event.message else None))
        if event.content_block is not None:
            growing = self._blocks[event.index] = _Growing(event.content_block)
            begun = _Delta(text=event.content_block.text, thinking=event.content_block.thinking)
            return growing.take(begun)
        if event.delta is None:
            return ""
        self._reason = event.delta.stop_reason or self._reason
        growing = self._blocks.get(event.index)
        return growing.take(event.delta) if growing and event.type.startswith("content") else ""

    def rest(self) -> Iterator[Piece]:
        """The calls and the end. Calls come only now: before the end nobody knows whether the last
        one was cut short, or the whole answer taken back."""
        stop = _STOPS.get(self._reason, Stop.DONE)
        calls: list[ToolCall] = []
        if stop is not Stop.REFUSED:
            uses = (b.call() for b in self._blocks.values() if b.block.type == "tool_use")
            calls = [call for call in uses if stop is not Stop.LENGTH or _complete(call)]
        yield from map(Call, calls)
        layout = self._layout({call.id for call in calls})
        yield End(
            stop=Stop.CALLS if calls and stop is Stop.DONE else stop,
            usage=self._usage(),
            extras={_EXTRAS: layout} if layout else {},
        )

    def _layout(self, calls: set[str]) -> list[Any]:
        """How the answer was built, when there was thinking in it: the thinking verbatim, for a
        text its length, for a call its id."""
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

    def _count(self, tokens: _Tokens | None) -> None:
        """Later counts replace earlier ones: they are totals."""
        if tokens is not None:
            told = cast("dict[str, int | None]", msgspec.structs.asdict(tokens))
            self._tokens |= {key: n for key, n in told.items() if n is not None}

    def _usage(self) -> Usage:
        # Their input_tokens are only those that have nothing to do with the cache.
        count = self._tokens.get
        cached = count("cache_read_input_tokens", 0)
        written = count("cache_creation_input_tokens", 0)
        return Usage(
            input=count("input_tokens", 0) + written + cached,
            output=count("output_tokens", 0),
            cached=cached,
        )


def _complete(call: ToolCall) -> bool:
    try:
        _OBJECT.decode(call.arguments)
    except msgspec.MsgspecError:
        return False
    return True
