"""What adapters do before and while they send: check limits, fall back to plain text, arrange
buttons, split off a caption.

The checks raise Refused, so that they fail like a call that the platform rejects.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.core.text import is_empty, one_line, whole
from segue.platforms.base import (
    BUTTON_LIMIT,
    Button,
    Capabilities,
    MenuEntry,
    Part,
    Receipt,
    Unit,
    Upload,
)
from segue.platforms.errors import Failures, Refused
from segue.platforms.markup.sizes import chop, ruler, size

T = TypeVar("T")

_ROW = 32
"""Buttons whose labels have at most this many characters in total fit side by side on a phone."""
_FILE_NAME = 128
_UNTITLED = "Handoff"
_NOTHING = Part("", "")


def check(part: Part, capabilities: Capabilities, buttons: Sequence[Button] = ()) -> None:
    """Refuse a message that the platform would not take."""
    _check_length(part, capabilities)
    if is_empty(part.plain):
        raise Refused(400, "there is nothing in the message to see")
    if any(len(button.data.encode()) > BUTTON_LIMIT for button in buttons):
        raise Refused(400, f"a button holds at most {BUTTON_LIMIT} bytes")


def _check_length(part: Part, capabilities: Capabilities) -> None:
    length, limit = size(part.plain, capabilities.unit), capabilities.length
    if length > limit:
        raise Refused(413, f"the message has {length:,} characters, and at most {limit:,} fit")


async def in_markup(
    part: Part,
    deliver: Callable[[str, bool], Awaitable[T]],
    *,
    rejected: Callable[[Refused], bool],
) -> T:
    """Call `deliver` with the text and True for markup. If the platform rejected the markup, call
    it again with plain text and False."""
    try:
        return await deliver(whole(part.text), True)
    except Refused as refused:
        if not rejected(refused):
            raise
    return await deliver(whole(part.plain), False)


def rows(buttons: Sequence[Button]) -> list[list[Button]]:
    """Arrange buttons side by side if they are short, else below each other."""
    if sum(len(button.label) for button in buttons) <= _ROW:
        return [list(buttons)] if buttons else []
    return [[button] for button in buttons]


# Files


def check_file(file: Upload, part: Part, capabilities: Capabilities) -> None:
    """Refuse a file that is too large to send, or has too long a text."""
    _check_length(part, capabilities)
    length, limit = len(file.data), capabilities.upload_bytes
    if length > limit:
        raise Refused(413, f"the file has {length:,} bytes; at most {limit:,} fit")


def file_name(file: Upload) -> str:
    return one_line(file.name, _FILE_NAME) or "file"


async def with_caption(
    part: Part,
    limit: int,
    unit: Unit,
    send_file: Callable[[Part], Awaitable[Receipt]],
    send_text: Callable[[Part], Awaitable[Receipt]],
    failures: Failures,
) -> Receipt:
    """Send a file with its caption. A text that is too long for one follows as a separate message.
    The receipt is then that message's, because it is what may be edited."""
    if size(part.plain, unit) <= limit:
        return await send_file(part)
    await send_file(_NOTHING)
    try:
        with failures.delivering():
            return await send_text(part)
    except (DeliveryFailed, ConnectFailed) as error:
        # The file has arrived and must not be sent again.
        reason = f"the file arrived without its text ({error})"
        raise failures.undelivered(reason, arrived=True) from error


# Names


def title(text: str, limit: int, unit: Unit = Unit.CHARACTERS) -> str:
    """A thread's name, cut between characters."""
    line, measure = one_line(text) or _UNTITLED, ruler(unit)
    if measure(line) <= limit:
        return line
    return next(chop(line, limit - 1, limit - 1, measure)).rstrip() + "…"


def menu(
    entries: Iterable[MenuEntry], *, name: re.Pattern[str], help_length: int, most: int
) -> list[MenuEntry]:
    """The commands that the platform accepts. One bad entry would make it reject the whole menu."""
    named = ((entry.name.lower(), one_line(entry.help, help_length)) for entry in entries)
    return [MenuEntry(n, text or n) for n, text in named if name.fullmatch(n)][:most]
