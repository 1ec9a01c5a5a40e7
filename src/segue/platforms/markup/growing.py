"""Markdown that is still being written: its beginning and its end, short enough to be rendered
often. Adding a piece costs the same however long the text is."""

from __future__ import annotations

import re
from typing import NamedTuple

_LEFT_OUT = "…\n\n"
_FENCE = re.compile(r"[\s>]{0,40}(?P<fence>`{3,}|~{3,})(?P<info>[^`]{0,100})$")
_DELIMITERS = re.compile(r"[\s>]{0,40}\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$")


class GrowingText:
    """The text of one message, while it grows."""

    def __init__(self, most: int) -> None:
        """`most` is the number of characters that `head` and `tail` have at most."""
        self._most = most
        self._pieces: list[str] = []
        self._head = ""
        self._tail = ""
        self._new: list[str] = []
        """The pieces that are not in the tail yet."""

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._new.append(piece)
        if len(self._head) < self._most:
            self._head = (self._head + piece)[: self._most]

    @property
    def whole(self) -> str:
        """All of the text."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def head(self) -> str:
        """The beginning."""
        return self._head

    @property
    def tail(self) -> str:
        """The end. If it begins in a table or in code, the table's header or the fence is repeated,
        so that it reads as in the whole text."""
        self._tail += "".join(self._new)
        self._new.clear()
        if len(self._tail) > self._most:
            # Half of it, so that most redraws only add to the text before.
            self._tail = _end(self._tail, self._most // 2)
        return self._tail


class _Cut(NamedTuple):
    at: int
    opening: str
    """The lines to repeat before it."""


def _end(text: str, length: int) -> str:
    """About the last `length` characters, from the beginning of a block or at least of a line."""
    cut = _cut(text, len(text) - length)
    opening = cut.opening if len(cut.opening) <= length // 2 else ""
    return f"{_LEFT_OUT}{opening}{text[cut.at :]}"


def _cut(text: str, least: int) -> _Cut:
    """Where to cut: the first block that begins in the first half of what comes after `least`,
    otherwise the first line, otherwise `least`."""
    latest = (least + len(text)) // 2
    in_line: _Cut | None = None
    fence = ""
    opening = ""
    before = ""
    at = 0
    for line in text.splitlines(keepends=True):
        is_blank = not line.strip()
        if at >= least:
            if not opening and not before.strip():
                return _Cut(at, "")
            in_line = in_line or _Cut(at, opening)
            if at >= latest:
                return in_line
        bare = line.rstrip("\r\n")
        if fence:
            closing = bare.strip("\t >")
            if closing.startswith(fence) and not closing.strip(fence[0]):
                fence = ""
                opening = ""
        elif marks := _FENCE.match(bare):
            fence = marks["fence"]
            opening = line
        elif is_blank:
            opening = ""
        elif not opening and "|" in before and _DELIMITERS.match(bare):
            opening = before + line
        before = line
        at += len(line)
    unclosed = opening if fence else ""
    return in_line or _Cut(least, unclosed)
