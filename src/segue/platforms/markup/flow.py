"""A row of atoms, and the frames that they stand in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from segue.platforms.markup.sizes import Ruler


class Rank(IntEnum):
    """How good a place to begin a new part is; the lower the better."""

    BLOCK = 0
    """And one more for each list or quote around it, up to the next."""
    INNERMOST = 9
    LINE = 10
    SENTENCE = 11
    WORD = 12
    INSIDE = 13
    """Within a word or a link."""
    NEVER = 14
    """Between a list item's sign and its text."""


class Wrap(NamedTuple):
    """What a frame writes around its content."""

    open: str = ""
    close: str = ""
    line: str = ""
    """At the beginning of each further line."""


NOTHING = Wrap()


class Frame(NamedTuple):
    """Something that content stands in, such as a quote or bold, in a platform's markup and in
    plain text. Those with one key are the same frame: it stays open from one to the next."""

    parent: Frame | None
    key: object
    text: Wrap
    plain: Wrap
    depth: int
    text_line: str
    """What every line in it begins with, of its own and of all frames around it."""
    plain_line: str
    text_opening: int
    """How much it takes to open it and all frames around it."""
    plain_opening: int
    text_closing: int
    plain_closing: int


ROOT = Frame(None, None, NOTHING, NOTHING, 0, "", "", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Nest:
    """Makes frames, as many within each other as there is room for in a part."""

    room: int
    measure: Ruler

    def enter(self, parent: Frame, key: object, text: Wrap, plain: Wrap) -> Frame:
        """A frame in `parent`; or `parent` itself, when there is no room for one more."""
        frame = Frame(
            parent,
            key,
            text,
            plain,
            parent.depth + 1,
            parent.text_line + text.line,
            parent.plain_line + plain.line,
            parent.text_opening + self._size(text.open),
            parent.plain_opening + self._size(plain.open),
            parent.text_closing + self._size(text.close),
            parent.plain_closing + self._size(plain.close),
        )
        takes = max(
            frame.text_opening + frame.text_closing,
            frame.plain_opening + frame.plain_closing,
            self._size(frame.text_line),
            self._size(frame.plain_line),
        )
        return frame if takes <= self.room else parent

    def _size(self, text: str) -> int:
        return self.measure(text) if text else 0


def shared(one: Frame, other: Frame) -> Frame:
    """The innermost frame of `other` that is one of `one` too."""
    if one is other:
        return other
    while one.depth > other.depth and one.parent:
        one = one.parent
    while other.depth > one.depth and other.parent:
        other = other.parent
    while one.key is not other.key and one.parent and other.parent:
        one, other = one.parent, other.parent
    return other


class Atom(NamedTuple):
    """A stretch of text within one line and one frame. It can be divided, which costs time, so it
    is done where a part ends and nowhere else. A tuple, because there are many."""

    frame: Frame
    rank: int
    """How good it is to begin a part with it."""
    raw: str
    escape: Callable[[str], str]
    """From raw to the platform's text."""
    text_gap: str = ""
    """What stands between it and the atom before, unless a part begins here."""
    plain_gap: str = ""
    exact: bool = False
    """Blanks at its ends count, as in code."""
    linked: bool = False
    """It is a link, and better not divided."""
    word: bool = False
    """It is a single one; divided, it falls into clusters."""
