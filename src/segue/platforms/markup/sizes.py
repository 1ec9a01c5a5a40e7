"""Measure text in a platform's units, and cut it where no better place is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from segue.platforms.base import Unit

Ruler = Callable[[str], int]


def size(text: str, unit: Unit) -> int:
    """The size of `text` in the unit of a platform's limit."""
    return _RULERS[unit](text)


def ruler(unit: Unit) -> Ruler:
    """The function that measures in `unit`."""
    return _RULERS[unit]


def chop(text: str, room: int, most: int, measure: Ruler) -> Iterator[str]:
    """Yield `text` in pieces of up to `room`, cut between what users see as single characters. One
    of these may be larger, but one that is larger than `most` is cut too: accents piled on accents,
    not real text."""
    piece, used = "", 0
    for cluster in text if text.isascii() else _clusters(text):
        for whole in (cluster,) if (length := measure(cluster)) <= most else cluster:
            length = measure(whole)
            if piece and used + length > room:
                yield piece
                piece, used = "", 0
            piece += whole
            used += length
    if piece:
        yield piece


def _clusters(text: str) -> Iterator[str]:
    from wcwidth import iter_graphemes  # noqa: PLC0415 - only for who needs it

    return iter_graphemes(text)


def _utf16(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_RULERS: dict[Unit, Ruler] = {Unit.CHARACTERS: len, Unit.UTF16: _utf16, Unit.BYTES: _bytes}
