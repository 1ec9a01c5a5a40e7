"""Measure text in a platform's units, and pack atoms into parts that are as full as possible, cut
at the least harmful places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain, repeat
from typing import NamedTuple

from segue.core.text import one_line
from segue.platforms.base import Part, Unit

# Sizes

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
    piece = ""
    used = 0
    clusters = text if text.isascii() else _clusters(text)
    for cluster in clusters:
        is_too_large = measure(cluster) > most
        for whole in cluster if is_too_large else (cluster,):
            length = measure(whole)
            if piece and used + length > room:
                yield piece
                piece = ""
                used = 0
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


# Atoms, and the frames around them


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
        one = one.parent
        other = other.parent
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


# Parts

_STOP = "。！？；，、"  # noqa: RUF001 - the stops of Chinese and Japanese, which have no blanks
_WORD = re.compile(rf"[^\s{_STOP}]*[{_STOP}]+[」』”）]*\s*|[^\s{_STOP}]+\s*|\s+")  # noqa: RUF001
_SENTENCE_END = re.compile(r"[.!?…:;。！？；][\"'”’)\]」』）]*\s*$")  # noqa: RUF001
_FULL_ENOUGH = 3
"""A part less than this fraction full is not ended just because the place is good."""
_GROUPS = 64
"""Groups of words per part, when sentences are long."""
_PIECES = 16
"""Pieces per part of an endless word."""
_SPARE = 8
"""Units by which escaping can lengthen a single character."""


class _Fill(NamedTuple):
    """The used size of a part, before its frames are closed."""

    text: int
    plain: int
    frame: Frame
    begun: bool = False

    def closed(self) -> int:
        return max(self.text + self.frame.text_closing, self.plain + self.frame.plain_closing)


def split(atoms: Iterable[Atom], limit: int, last: int, measure: Ruler) -> list[Part]:
    """Return the parts, each with at most `limit` units, and the last one with at most `last`."""
    rows = _visible(_rows(atoms, limit, measure))
    if rows and _size(rows[-1], measure) > last:
        rows += _shortened(rows.pop(), limit, last, measure)
    return [_part(row) for row in rows]


# Choosing atoms


def _rows(atoms: Iterable[Atom], limit: int, measure: Ruler) -> Iterator[list[Atom]]:
    """The atoms of each part."""
    # In reverse order, because popping and appending at the end is cheap.
    ahead = list(atoms)[::-1]
    while ahead:
        yield _take(ahead, limit, measure)


def _shortened(row: list[Atom], limit: int, last: int, measure: Ruler) -> list[list[Atom]]:
    """Divide the atoms of the last part, so that its end has at most `last` units. What comes
    before the end is one part, if it still fits."""
    pieces = list(_rows(row, last, measure))
    while len(pieces) > 1 and not _is_visible(_trimmed(pieces[-1])):
        pieces.pop()
    end = pieces.pop()
    before = list(chain.from_iterable(pieces))
    if _size(before, measure) <= limit:
        pieces = [before]
    return _visible([*pieces, end])


def _take(ahead: list[Atom], limit: int, measure: Ruler) -> list[Atom]:
    """Remove the atoms of the next part from `ahead` and return them."""
    row: list[Atom] = []
    fills = [_Fill(0, 0, ROOT)]
    """The fill before each atom of `row`, and after the last."""
    while ahead:
        atom = ahead.pop()
        grown = _grown(fills[-1], atom, measure)
        if grown.closed() <= limit:
            row.append(atom)
            fills.append(grown)
        elif not atom.word:
            ahead += _words(atom, limit)[::-1]
        elif cut := _before_word([*row, atom], fills, limit, measure):
            ahead += [atom, *row[cut:][::-1]]
            return row[:cut]
        elif len(pieces := _pieces(atom, limit, measure)) > 1:
            ahead += pieces[::-1]
        elif cut := _best([*row, atom], fills, 0):
            ahead += [atom, *row[cut:][::-1]]
            return row[:cut]
        else:
            return [*row, atom]
    return row


def _grown(fill: _Fill, atom: Atom, measure: Ruler) -> _Fill:
    text = measure(atom.escape(atom.raw))
    plain = measure(atom.raw)
    frame = atom.frame
    if fill.frame is not frame or not fill.begun:
        both = shared(fill.frame, frame)
        text += fill.frame.text_closing - both.text_closing
        text += frame.text_opening - both.text_opening
        plain += fill.frame.plain_closing - both.plain_closing
        plain += frame.plain_opening - both.plain_opening
    if fill.begun:
        text += measure(atom.text_gap)
        plain += measure(atom.plain_gap)
    return _Fill(fill.text + text, fill.plain + plain, frame, begun=True)


def _before_word(row: Sequence[Atom], fills: Sequence[_Fill], limit: int, measure: Ruler) -> int:
    """Where to cut so that the last word of `row` stays whole; 0 to divide it instead. A part may
    be nearly empty only if the word fits into the next one."""
    if cut := _best(row, fills, limit // _FULL_ENOUGH):
        return cut
    cut = _best(row, fills, 0)
    fill = _Fill(0, 0, ROOT)
    for atom in row[cut:]:
        fill = _grown(fill, atom, measure)
    return cut if fill.closed() <= limit else 0


def _best(row: Sequence[Atom], fills: Sequence[_Fill], least: int) -> int:
    """The cut with the best rank, as late as possible, with at least `least` units before it; 0 if
    there is none."""
    best = 0
    rank = Rank.NEVER
    for n in range(len(row) - 1, 0, -1):
        if fills[n].closed() < least:
            break
        if row[n].rank < rank:
            best = n
            rank = row[n].rank
    return best


# Dividing


def _words(atom: Atom, limit: int) -> list[Atom]:
    """Divide an atom into sentences, and long sentences into groups of words."""
    groups: list[tuple[str, int]] = []
    start = 0
    rank = atom.rank
    for word in _WORD.finditer(atom.raw):
        end = word.end()
        ended = _SENTENCE_END.search(word[0])
        if ended or end - start > limit // _GROUPS or end == len(atom.raw):
            groups.append((atom.raw[start:end], rank))
            rank = Rank.SENTENCE if ended else Rank.WORD
            if atom.linked:
                rank = Rank.INSIDE
            start = end
    return _divided(atom, groups)


def _pieces(atom: Atom, limit: int, measure: Ruler) -> list[Atom]:
    """Divide an atom between clusters: a last resort."""
    pieces = chop(atom.raw, limit // _PIECES, limit // 2 - _SPARE, measure)
    ranks = chain((atom.rank,), repeat(Rank.INSIDE))
    return _divided(atom, zip(pieces, ranks, strict=False))


def _divided(atom: Atom, pieces: Iterable[tuple[str, int]]) -> list[Atom]:
    """Divide an atom into adjacent ones. Only the first keeps the gap before it."""
    (raw, rank), *more = list(pieces) or [(atom.raw, atom.rank)]
    divided = [atom._replace(raw=raw, rank=rank, word=True)]
    for raw, rank in more:
        divided.append(
            Atom(atom.frame, rank, raw, atom.escape, "", "", atom.exact, atom.linked, word=True)
        )
    return divided


# Writing


def _part(row: Sequence[Atom]) -> Part:
    return Part(
        _written(row, lambda frame: frame.text, lambda a: (a.text_gap, a.escape(a.raw))),
        _plain(row),
    )


def _plain(row: Sequence[Atom]) -> str:
    return _written(row, lambda frame: frame.plain, lambda a: (a.plain_gap, a.raw))


def _size(row: Sequence[Atom], measure: Ruler) -> int:
    part = _part(row)
    return max(measure(part.text), measure(part.plain))


def _visible(rows: Iterable[list[Atom]]) -> list[list[Atom]]:
    """The rows that show something, without whitespace at their ends."""
    trimmed = [_trimmed(row) for row in rows]
    return [row for row in trimmed if _is_visible(row)]


def _is_visible(row: Sequence[Atom]) -> bool:
    """Whether the part shows anything. One of combining marks only does not: they belong to the
    letter before it."""
    return bool(row and one_line(_plain(row)))


def _trimmed(row: list[Atom]) -> list[Atom]:
    """Strip whitespace at both ends: it is invisible, and undoes bold in some dialects."""
    first = next((n for n, atom in enumerate(row) if not _is_blank(atom)), len(row))
    row = row[first:]
    while row and _is_blank(row[-1]):
        row.pop()
    if row and not row[0].exact:
        row[0] = row[0]._replace(raw=row[0].raw.lstrip())
    if row and not row[-1].exact:
        row[-1] = row[-1]._replace(raw=row[-1].raw.rstrip())
    return row


def _is_blank(atom: Atom) -> bool:
    return not (atom.exact or atom.raw.strip())


def _written(
    row: Sequence[Atom],
    wrap: Callable[[Frame], Wrap],
    content: Callable[[Atom], tuple[str, str]],
) -> str:
    """The atoms with the gaps between them and the markup of their frames."""
    out: list[str] = []
    open_ = ROOT
    for n, atom in enumerate(row):
        gap, text = content(atom)
        both = shared(open_, atom.frame)
        if both is not open_:
            out += [wrap(frame).close for frame in _inside(open_, both)]
        if n:
            out.append(gap)
        if both is not atom.frame:
            out += [wrap(frame).open for frame in _inside(atom.frame, both)][::-1]
        out.append(text)
        open_ = atom.frame
    out += [wrap(frame).close for frame in _inside(open_, ROOT)]
    return "".join(out)


def _inside(frame: Frame, outer: Frame) -> Iterator[Frame]:
    """`frame` and its outer frames that lie within `outer`, innermost first."""
    while frame.depth > outer.depth and frame.parent:
        yield frame
        frame = frame.parent
