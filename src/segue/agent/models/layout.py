"""Layouts: the structure of an answer, stored in its extras so that it can be sent back unchanged.

A layout lists the parts of the answer in order. The texts and the calls are stored only in the
message, not repeated here. Other details of a part are meaningful only to the provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from segue.core.transcript import Message

C = TypeVar("C")


def of(message: Message, provider: str) -> list[Any]:
    """The layout that `provider` stored for this message, or an empty list."""
    layout: Any = message.extras.get(provider) if message.extras else None
    return cast("list[Any]", layout) if isinstance(layout, list) else []


class Unlaid(Generic[C]):
    """The text and calls of a message that are still to be matched with its layout."""

    def __init__(self, message: Message, calls: Sequence[C]) -> None:
        """`calls` are the calls of the message in wire format, in the same order."""
        self._text = message.content
        self._ids = [call.id for call in message.tool_calls]
        self._calls = calls
        self._at = self._called = 0

    def text(self, length: int) -> str:
        """The next `length` characters of the text."""
        begin, self._at = self._at, self._at + length
        return self._text[begin : self._at]

    def call(self, call_id: str) -> C | None:
        """The next call in wire format, or None if its id is not `call_id`."""
        if self._called == len(self._calls) or self._ids[self._called] != call_id:
            return None
        self._called += 1
        return self._calls[self._called - 1]

    @property
    def is_nothing(self) -> bool:
        """True if the layout covered the whole message.

        Otherwise it belongs to a different message.
        """
        return self._at == len(self._text) and self._called == len(self._calls)
