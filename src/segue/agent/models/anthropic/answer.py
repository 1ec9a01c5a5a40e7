"""Parses the response: assembles the events into the pieces of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from segue.agent.models.base import Call, End, Piece, Stop, is_object
from segue.core.session import Usage
from segue.core.transcript import ToolCall

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


class AnthropicError(Struct):
    type: str = ""
    message: str = ""


class StreamEvent(Struct):
    type: str = ""
    index: int = 0
    message: _Start | None = None
    content_block: _Block | None = None
    delta: _BlockDelta | None = None
    usage: _EventUsage | None = None
    error: AnthropicError | None = None


EVENTS = msgspec.json.Decoder(StreamEvent)


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


class AnthropicAnswer:
    """An answer, assembled from its events."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Growing] = {}
        self._reason = ""
        self._tokens: dict[str, int] = {}

    def take(self, event: StreamEvent) -> str:
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
