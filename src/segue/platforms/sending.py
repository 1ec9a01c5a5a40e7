"""Prepare messages: check limits, arrange buttons, shorten names, and follow chats that move.

The checks raise Refused, so that they fail like a call that the platform rejects.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from segue.core.address import Address
from segue.core.text import is_empty, one_line
from segue.platforms.base import (
    BUTTON_LIMIT,
    Attachment,
    Button,
    Capabilities,
    MenuEntry,
    Part,
    Unit,
    Upload,
)
from segue.platforms.errors import Failures, Refused
from segue.platforms.markup.splitter import chop, ruler, size

T = TypeVar("T")

_ROW = 32
"""Buttons whose labels have at most this many characters in total fit side by side on a phone."""
_FILE_NAME = 128
_UNTITLED = "Handoff"


def check(part: Part, capabilities: Capabilities, buttons: Sequence[Button] = ()) -> None:
    """Refuse a message that the platform would not take."""
    _check_length(part, capabilities.longest(buttons=bool(buttons)), capabilities.unit)
    if is_empty(part.plain):
        raise Refused(400, "there is nothing in the message to see")
    if buttons and not capabilities.buttons:
        raise Refused(400, "it has no buttons")
    if any(len(button.data.encode()) > BUTTON_LIMIT for button in buttons):
        raise Refused(400, f"a button holds at most {BUTTON_LIMIT} bytes")


def _check_length(part: Part, limit: int, unit: Unit) -> None:
    length = size(part.plain, unit)
    if length > limit:
        raise Refused(413, f"the message has {length:,} characters, and at most {limit:,} fit")


def rows(buttons: Sequence[Button], most: int = 1_000) -> list[list[Button]]:
    """Arrange buttons side by side if they are short, else below each other. At most `most` fit in
    a row, and as many rows below each other."""
    is_short = sum(len(button.label) for button in buttons) <= _ROW
    width = most if is_short or len(buttons) > most else 1
    arranged = [list(buttons[at : at + width]) for at in range(0, len(buttons), width)]
    return arranged[:most]


def short_key(*parts: str, length: int) -> str:
    """An idempotency key for a platform that limits its length."""
    whole = "\n".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(whole).hexdigest()[:length]


# Files


def check_file(file: Upload, part: Part, capabilities: Capabilities) -> None:
    """Refuse a file that is too large to send, or has too long a text."""
    _check_length(part, capabilities.length, capabilities.unit)
    length = len(file.data)
    limit = capabilities.upload_bytes
    if length > limit:
        raise Refused(413, f"the file has {length:,} bytes; at most {limit:,} fit")


def check_attachment(attachment: Attachment, capabilities: Capabilities) -> None:
    """Refuse to fetch a file that is too large."""
    length = attachment.size
    limit = capabilities.attachment_bytes
    if length > limit:
        raise Refused(413, f"the file has {length:,} bytes; at most {limit:,} can be fetched")


def file_name(file: Upload) -> str:
    return one_line(file.name, _FILE_NAME) or "file"


# Chats and threads


def number(text: str, reason: str) -> int:
    """An id of a platform that numbers everything. Refuse one of another platform."""
    try:
        return int(text)
    except ValueError as error:
        raise Refused(400, reason) from error


class Moves:
    """Chats whose id changed, with their new ids."""

    def __init__(self) -> None:
        self._moved: dict[str, str] = {}

    def add(self, old: Address, chat_id: object) -> None:
        self._moved[old.chat_id] = str(chat_id)

    def now(self, at: Address) -> Address:
        """The chat's current address."""
        return replace(at, chat_id=self._moved.get(at.chat_id, at.chat_id))

    async def follow(self, to: Address, call: Callable[[Address], Awaitable[T]]) -> T:
        """Call with the chat's current address. If the platform refuses because it moved, call
        again. Not for edits: after a move, message ids are gone or belong to other messages."""
        try:
            return await call(self.now(to))
        except Refused as refused:  # it had no effect
            if refused.moved_to is None:
                raise
            self.add(to, refused.moved_to)
        return await call(self.now(to))


async def check_thread(
    to: Address, sent_to: object, take_back: Callable[[], Awaitable[bool]], failures: Failures
) -> None:
    """If a message landed outside of its thread, because that was deleted, delete the message with
    `take_back` and raise DeliveryFailed."""
    if to.thread_id is None or str(sent_to) == to.thread_id:
        return
    try:
        is_deleted = await take_back()
    except failures.all:
        is_deleted = False
    raise failures.undelivered(failures.thread_gone, arrived=not is_deleted)


# Names


def title(text: str, limit: int, unit: Unit = Unit.CHARACTERS) -> str:
    """A thread's name, cut between characters."""
    line = one_line(text) or _UNTITLED
    measure = ruler(unit)
    if measure(line) <= limit:
        return line
    return next(chop(line, limit - 1, limit - 1, measure)).rstrip() + "…"


def menu(
    entries: Iterable[MenuEntry], *, name: re.Pattern[str], help_length: int, most: int = 100
) -> list[MenuEntry]:
    """The commands that the platform accepts. One bad entry would make it reject the whole menu."""
    accepted: list[MenuEntry] = []
    for entry in entries:
        command = entry.name.lower()
        if name.fullmatch(command):
            accepted.append(MenuEntry(command, one_line(entry.help, help_length) or command))
    return accepted[:most]
