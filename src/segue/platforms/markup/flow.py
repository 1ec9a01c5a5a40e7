"""Atoms, and the frames around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from segue.platforms.markup.sizes import Ruler


class Rank(IntEnum):
    """How good a place is for starting a new part; lower is better."""

    BLOCK = 0
    """Plus one for each enclosing list or quote, up to INNERMOST."""
    INNERMOST = 9
    LINE = 10
    SENTENCE = 11
    WORD = 12
    INSIDE = 13
    """Within a word or a link."""
    NEVER = 14
    """Between a list item's bullet and its text."""


class Wrap(NamedTuple):
    """The markup around a frame's content."""

    open: str = ""
    close: str = ""
    line: str = ""
    """Prefix of each further line."""


NOTHING = Wrap()


class Frame(NamedTuple):
    """A container such as a quote or bold, in the platform's markup and in plain text. Frames with
    the same key are one frame, which stays open from one atom to the next."""

    parent: Frame | None
    key: object
    text: Wrap
    plain: Wrap
    depth: int
    text_line: str
    """The prefix of every line, including those of all outer frames."""
    plain_line: str
    text_opening: int
    """The size of opening this frame and all outer frames."""
    plain_opening: int
    text_closing: int
    plain_closing: int


ROOT = Frame(None, None, NOTHING, NOTHING, 0, "", "", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Nest:
    """Creates frames, nested only as deep as fits in a part."""

    room: int
    measure: Ruler

    def enter(self, parent: Frame, key: object, text: Wrap, plain: Wrap) -> Frame:
        """A frame inside `parent`, or `parent` itself if there is no room for another."""
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
    """The innermost frame that both are in, as part of `other`."""
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
    """A stretch of text within one line and one frame. Dividing an atom is slow, so it is done only
    where a part ends. A tuple, because there are many of them."""

    frame: Frame
    rank: int
    """How good a place it is for starting a part."""
    raw: str
    escape: Callable[[str], str]
    """Converts `raw` to the platform's text."""
    text_gap: str = ""
    """Text between this atom and the previous one; omitted at the start of a part."""
    plain_gap: str = ""
    exact: bool = False
    """Whether leading and trailing whitespace counts, as in code."""
    linked: bool = False
    """Whether it is part of a link, and better not divided."""
    word: bool = False
    """Whether it is already a word or a few; dividing it further cuts between clusters."""
