"""How an answer was built, kept beside it in the extras, so that it goes back as it came.

A layout is a list that names the answer's parts in their order. The texts and the calls themselves
stand in the message, and nowhere twice; what is more to a part only its provider understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from segue.core.transcript import Message

C = TypeVar("C")


def of(message: Message, provider: str) -> list[Any]:
    """The layout that `provider` gave for this message; empty when there is none."""
    layout: Any = message.extras.get(provider) if message.extras else None
    return cast("list[Any]", layout) if isinstance(layout, list) else []


class Unlaid(Generic[C]):
    """What of a message has not been laid out yet: the rest of its text, and of its calls as they
    are sent."""

    def __init__(self, message: Message, calls: Sequence[C]) -> None:
        """`calls` are those of the message, in their order."""
        self._text = message.content
        self._ids = [call.id for call in message.tool_calls]
        self._calls = calls
        self._at = self._called = 0

    def text(self, length: int) -> str:
        """The next piece of the text."""
        begin, self._at = self._at, self._at + length
        return self._text[begin : self._at]

    def call(self, call_id: str) -> C | None:
        """The next call, if it is the one of this id."""
        if self._called == len(self._calls) or self._ids[self._called] != call_id:
            return None
        self._called += 1
        return self._calls[self._called - 1]

    @property
    def is_nothing(self) -> bool:
        """Whether the layout was the whole message: otherwise it describes another one."""
        return self._at == len(self._text) and self._called == len(self._calls)
