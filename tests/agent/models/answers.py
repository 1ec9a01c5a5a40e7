"""Send prompts to a model and collect the answers, for the tests of all models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec

from segue.agent.models.base import Call, End, Model, Piece, Prompt, Text, ToolSpec
from segue.agent.models.hosted import Timeouts
from segue.core.transcript import Message, Role, ToolCall

AT = datetime(2026, 11, 1, tzinfo=UTC)
HASTE = Timeouts(connect=5, silence=5, tries=3, first_pause=0.001, longest_pause=0.01)
ONCE = Timeouts(connect=5, silence=5, tries=1)
RUN = ToolSpec(
    name="run",
    description="Run a command.",
    parameters={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
)


def user(words: str = "hi", **more: Any) -> Message:
    return Message(Role.USER, words, AT, **more)


def assistant(words: str = "", *calls: ToolCall, **more: Any) -> Message:
    return Message(Role.ASSISTANT, words, AT, tool_calls=calls, **more)


def result(call: ToolCall, words: str = "ok") -> Message:
    return Message(Role.TOOL, words, AT, tool_call_id=call.id, tool_name=call.name)


def ask(
    *messages: Message, tools: Sequence[ToolSpec] = (RUN,), system: str = "Be brief.", **more: Any
) -> Prompt:
    return Prompt(system=system, messages=messages or (user(),), tools=tuple(tools), **more)


async def heard(model: Model, prompt: Prompt | None = None) -> list[Piece]:
    async with asyncio.timeout(20), aclosing(model.stream(prompt or ask())) as pieces:
        return [piece async for piece in pieces]


def joined(pieces: list[Piece]) -> tuple[str, list[ToolCall], End]:
    """The complete answer, joined from its pieces."""
    end = pieces[-1]
    assert isinstance(end, End)
    words = "".join(piece.text for piece in pieces if isinstance(piece, Text))
    return words, [piece.call for piece in pieces if isinstance(piece, Call)], end


def kept(pieces: list[Piece]) -> Message:
    """The answer as a transcript message, after a round trip through the store's encoding."""
    words, calls, end = joined(pieces)
    stored = msgspec.json.encode(assistant(words, *calls, extras=end.extras or None))
    return msgspec.json.decode(stored, type=Message)


def places(stream: bytes, seed: int) -> list[int]:
    """Offsets at which to cut the stream: around the end of every event, and at every 24th byte.

    The `seed` shifts the latter.
    """
    ends = [m.end() for m in re.finditer(rb"\r?\n\r?\n", stream)]
    around = {end + by for end in ends for by in range(-5, 2)}
    return sorted(
        at for at in {*around, *range(1 + seed % 24, len(stream), 24)} if 0 < at < len(stream)
    )
