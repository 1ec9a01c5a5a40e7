"""Things that tests say and places where they say them."""

from __future__ import annotations

from datetime import UTC, datetime

from segue.core.address import Address, ChatType, Platform
from segue.core.transcript import Message, Role, ToolCall

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOPIC = Address(
    platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="-100200", thread_id="7"
)
DM = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")


def said(text: str, *, tokens: int = 1) -> Message:
    return Message(Role.USER, text, AT, tokens=tokens)


def answered(text: str, *, tokens: int = 1) -> Message:
    return Message(Role.ASSISTANT, text, AT, tokens=tokens)


def called(*names: str) -> Message:
    calls = tuple(ToolCall(f"call_{i}_{name}", name, "{}") for i, name in enumerate(names))
    return Message(Role.ASSISTANT, "", AT, tool_calls=calls, tokens=1)


def result(call: ToolCall, text: str = "done") -> Message:
    return Message(Role.TOOL, text, AT, tool_call_id=call.id, tool_name=call.name, tokens=1)
