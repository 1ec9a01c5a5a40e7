"""Measure text in a platform's units, and cut it where no better place is left."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from segue.platforms.base import Unit

Ruler = Callable[[str], int]

_ZWJ, _ZWNJ = "\u200d", "\u200c"
_FIRST_MARK = "\u0300"
_VIRAMA = 9
"""Combining class of the sign that joins two consonants into one letter."""
_BEFORE_A_LETTER = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"
    "\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f\U00011941\U00011a3a\U00011d46\U00011f02"
)
"""Signs that are written before the letter or number they belong to."""
# Unicode classifies these as letters or symbols, but they belong to the character before them.
_AFTER_A_LETTER = (
    ("\u0e33", "\u0e33"),  # Thai and Lao sara am
    ("\u0eb3", "\u0eb3"),
    ("\u1160", "\u11ff"),  # vowels and finals of Korean syllables
    ("\ud7b0", "\ud7fb"),
    ("\uff9e", "\uff9f"),  # voicing marks of halfwidth kana
    ("\U0001f3fb", "\U0001f3ff"),  # skin tones
    ("\U000e0020", "\U000e007f"),  # tags that name a region's flag
)
_KOREAN_STARTS = (("\u1100", "\u115f"), ("\ua960", "\ua97c"))
_KOREAN = (*_KOREAN_STARTS, ("\uac00", "\ud7a3"))
_FLAG_LETTERS = (("\U0001f1e6", "\U0001f1ff"),)


def size(text: str, unit: Unit) -> int:
    """The size of `text` in the unit of a platform's limit."""
    return ruler(unit)(text)


def ruler(unit: Unit) -> Ruler:
    """The function that measures in `unit`."""
    return _RULERS[unit]


def clusters(text: str) -> Iterator[str]:
    """Yield what users see as single characters: a letter with its accents, an emoji with its skin
    tone.

    Never splits where Unicode does not. In rare scripts it keeps a little more together.
    """
    start = 0
    for i in range(1, len(text)):
        if not _belongs(text, start, i):
            yield text[start:i]
            start = i
    if text:
        yield text[start:]


def chop(text: str, room: int, most: int, measure: Ruler) -> Iterator[str]:
    """Yield `text` in pieces of up to `room`. A single cluster may be larger, but a cluster larger
    than `most` is split too: accents piled on accents, not real text."""
    piece, used = "", 0
    for cluster in text if text.isascii() else clusters(text):
        for whole in (cluster,) if (length := measure(cluster)) <= most else cluster:
            length = measure(whole)
            if piece and used + length > room:
                yield piece
                piece, used = "", 0
            piece += whole
            used += length
    if piece:
        yield piece


def _belongs(text: str, start: int, i: int) -> bool:
    """Whether the character at `i` is part of the cluster that starts at `start`."""
    before, c = text[i - 1], text[i]
    if _follows(c) or _leads(before):
        return True
    if not _binds(before):
        return False
    return (
        (_within(before, _KOREAN_STARTS) and _within(c, _KOREAN))
        or (unicodedata.combining(before) == _VIRAMA and unicodedata.category(c) == "Lo")
        or (_within(c, _FLAG_LETTERS) and _within(before, _FLAG_LETTERS) and (i - start) % 2 == 1)
    )


@lru_cache(4096)
def _follows(c: str) -> bool:
    """Whether it always belongs to the character before it."""
    return c >= _FIRST_MARK and (
        unicodedata.category(c)[0] == "M" or c in (_ZWJ, _ZWNJ) or _within(c, _AFTER_A_LETTER)
    )


@lru_cache(4096)
def _leads(c: str) -> bool:
    """Whether the character after it always belongs to it."""
    return c == _ZWJ or c in _BEFORE_A_LETTER


@lru_cache(4096)
def _binds(c: str) -> bool:
    """Whether some characters after it belong to it."""
    return unicodedata.combining(c) == _VIRAMA or _within(c, (*_KOREAN_STARTS, *_FLAG_LETTERS))


def _within(c: str, ranges: tuple[tuple[str, str], ...]) -> bool:
    return any(first <= c <= last for first, last in ranges)


def _utf16(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_RULERS: dict[Unit, Ruler] = {Unit.CHARACTERS: len, Unit.UTF16: _utf16, Unit.BYTES: _bytes}
