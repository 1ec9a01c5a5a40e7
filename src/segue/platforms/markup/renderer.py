"""Render blocks as atoms of a dialect. A table becomes text: in columns where the platform has code
blocks, otherwise row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from segue.platforms.base import Dialect
from segue.platforms.markup import dialects
from segue.platforms.markup.blocks import (
    Block,
    Code,
    Heading,
    Line,
    Listing,
    ListItem,
    Mark,
    MarkKind,
    Paragraph,
    QuoteBlock,
    Rule,
    Span,
    Table,
    written_out,
)
from segue.platforms.markup.dialects import Marks, marks_of
from segue.platforms.markup.splitter import (
    NOTHING,
    ROOT,
    Atom,
    Frame,
    Nest,
    Rank,
    Ruler,
    Wrap,
    shared,
)

_WIDEST = 80
"""Width in characters. Wider tables are unreadable in columns on a phone."""
_PLAIN = marks_of(Dialect.PLAIN)
_BOXES = {True: "☑ ", False: "☐ "}


def write(blocks: Sequence[Block], dialect: Dialect, limit: int, measure: Ruler) -> list[Atom]:
    # Frames may take at most two fifths of a part.
    writer = _Writer(marks_of(dialect), Nest(limit * 2 // 5, measure))
    writer.blocks(blocks, _Place())
    return writer.atoms


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a block."""

    frame: Frame = ROOT
    bare: Frame = ROOT
    """The frame without the lists: code in an item is not indented, because where lists are
    indented with spaces, these would become part of the code."""
    depth: int = 0
    lists: int = 0
    quoted: bool = False


class _Writer:
    def __init__(self, marks: Marks, nest: Nest) -> None:
        self.atoms: list[Atom] = []
        self._marks = marks
        self._nest = nest
        self._base = ROOT
        """The frame of the last line."""
        self._newlines = 0
        """Newlines pending before the next atom."""
        self._newline = marks.newline
        self._rank: int = Rank.BLOCK
        """Rank of the next atom."""

    # Blocks

    def blocks(self, blocks: Sequence[Block], place: _Place, *, close: bool = False) -> None:
        """Separate blocks with a blank line. In a list item (`close`), only paragraphs get one."""
        for n, block in enumerate(blocks):
            if n > 0:
                is_near = close and not isinstance(block, Paragraph)
                newlines = 1 if is_near else 2
                after_heading = isinstance(blocks[n - 1], Heading)
                rank = Rank.WORD if after_heading else _rank(place.depth)
                self._apart(newlines, rank)
            self._block(block, place)

    def _block(self, block: Block, place: _Place) -> None:
        match block:
            case Paragraph():
                self._lines(block.lines, self._paragraph(place))
            case Heading():
                self._heading(block, place)
            case Code():
                self._code(block, place)
            case Rule():
                self._add(place.frame, place.frame, _PLAIN.rule, lambda _: self._marks.rule)
            case Table():
                in_code = self._marks.fence is not None
                self.blocks(laid_out(block, in_code=in_code), place)
            case QuoteBlock():
                self._quote(block, place)
            case Listing():
                self._list(block, place)

    def _paragraph(self, place: _Place) -> Frame:
        # A paragraph element in a list item would add space around it.
        if not self._marks.tags or place.lists:
            return place.frame
        return self._nest.enter(place.frame, object(), self._marks.tags.paragraph, NOTHING)

    def _heading(self, heading: Heading, place: _Place) -> None:
        wrap = self._marks.heading(heading.level)
        if wrap is not None:
            frame = self._nest.enter(place.frame, object(), wrap, NOTHING)
            self._lines(heading.lines, frame)
            return
        bold = Mark(MarkKind.BOLD)
        lines = [tuple(_with(bold, span) for span in line) for line in heading.lines]
        self._lines(lines, place.frame)

    def _quote(self, quote: QuoteBlock, place: _Place) -> None:
        wrap = self._marks.inner_quote if place.quoted else self._marks.quote
        frame = self._nest.enter(place.frame, object(), wrap, _PLAIN.quote)
        bare = frame if self._marks.code_in_quote else place.bare
        self.blocks(quote.blocks, _Place(frame, bare, place.depth + 1, 0, quoted=True))

    def _code(self, code: Code, place: _Place) -> None:
        outer = place.frame if self._marks.tags else place.bare
        frame = self._fenced(outer, code.language)
        is_fenced = frame is not outer
        escape = self._marks.escape_code if is_fenced else self._marks.escape
        newline = "\n" if is_fenced else self._marks.newline
        for n, line in enumerate(code.text.split("\n")):
            if n > 0:
                self._apart(1, Rank.LINE, newline=newline)
            self._add(frame, frame, self._marks.still_code(line), escape, exact=True)

    def _fenced(self, outer: Frame, language: str) -> Frame:
        """The frame of a code fence. Without room, drop the language, then the fence."""
        make_fence = self._marks.fence
        if make_fence is None:
            return outer
        newline = f"\n{outer.text_line}"
        for named in (language, ""):
            fence = make_fence(named)
            wrap = Wrap(fence.open.replace("\n", newline), fence.close.replace("\n", newline))
            frame = self._nest.enter(outer, object(), wrap, NOTHING)
            if frame is not outer:
                return frame
        return outer

    # Lists

    def _list(self, listing: Listing, place: _Place) -> None:
        key = object()
        for n, item in enumerate(listing.items):
            if n:
                self._apart(1, _rank(place.depth + 1))
            number = None if listing.start is None else listing.start + n
            self._item(item, number, self._listed(number, key, place), place)

    def _listed(self, number: int | None, key: object, place: _Place) -> Frame:
        """The frame of the list element, if the dialect has one. A part that continues a list
        starts it at `number`."""
        if not self._marks.tags:
            return place.frame
        tags = self._marks.tags
        wrap = tags.bulleted if number is None else tags.numbered(number)
        return self._nest.enter(place.frame, key, wrap, NOTHING)

    def _item(self, item: ListItem, number: int | None, listed: Frame, place: _Place) -> None:
        frame = self._signed(number, listed, place)
        self._rank = Rank.NEVER
        if item.done is not None:
            self._add(frame, frame, _BOXES[item.done], dialects.same, exact=True)
            self._rank = Rank.NEVER
        inner = _Place(frame, place.bare, place.depth + 1, place.lists + 1, place.quoted)
        self.blocks(item.blocks, inner, close=True)

    def _signed(self, number: int | None, listed: Frame, place: _Place) -> Frame:
        """The frame of an item whose bullet has been written."""
        plain = _item_wrap(_PLAIN, number, place.lists)
        key = object()
        frame = listed
        tags = self._marks.tags
        text = _item_wrap(self._marks, number, place.lists) if tags is None else tags.item
        # Where lists are elements, an item cannot exist without its list.
        if tags is None or listed is not place.frame:
            frame = self._nest.enter(listed, key, text, plain)
        if frame is listed:
            self._add(place.frame, place.frame, plain.open, self._marks.escape, exact=True)
            return place.frame
        self._add(frame, frame, "", dialects.same, exact=True)
        # Further lines of the item are indented to match, in this part and the next.
        text = text._replace(open=text.line or text.open)
        return self._nest.enter(listed, key, text, plain._replace(open=plain.line))

    # Lines

    def _lines(self, lines: Sequence[Line], base: Frame) -> None:
        for n, line in enumerate(lines):
            if n:
                self._apart(1, Rank.LINE)
            self._line(line, base)

    def _line(self, line: Line, base: Frame) -> None:
        in_word = _within_words(line, parted=self._marks.parted)
        frames: dict[Mark, Frame] = {}
        for n, span in enumerate(line):
            outer = base
            frame = base
            for mark in span.marks:
                outer = frame
                if mark not in frames:
                    frames[mark] = self._marked(outer, mark, span, in_word)
                frame = frames[mark]
            is_code = bool(span.marks) and span.marks[-1].kind is MarkKind.CODE
            self._span(span, base, frame, as_code=is_code and frame is not outer)
            after = line[n + 1].marks if n + 1 < len(line) else ()
            for mark in span.marks:
                if mark.href and mark not in after and frames[mark].key is not mark:
                    self._add(base, base, written_out(mark.href), self._marks.escape)

    def _marked(self, outer: Frame, mark: Mark, span: Span, in_word: Collection[Mark]) -> Frame:
        """The frame for a mark, or `outer` if the mark cannot be shown there."""
        if mark.kind is MarkKind.LINK:
            plain = Wrap("", written_out(mark.href))
            return self._nest.enter(outer, mark, self._marks.link(mark.href), plain)
        if mark.kind is MarkKind.CODE:
            is_linked = any(one.kind is MarkKind.LINK for one in span.marks)
            is_possible = self._marks.code_in_link or not is_linked
            wrap = self._marks.span_code(span.text) if is_possible else None
        else:
            styles = self._marks.styles
            if mark in in_word and self._marks.styles_in_word is not None:
                styles = self._marks.styles_in_word
            wrap = styles.get(mark.kind)
        if wrap is None:
            return outer
        # A new key per line, so that a mark that spans several lines is closed in each.
        return self._nest.enter(outer, object(), wrap, NOTHING)

    def _span(self, span: Span, base: Frame, frame: Frame, *, as_code: bool) -> None:
        marks = self._marks
        raw = marks.still_code(span.text) if as_code else marks.still(span.text)
        escape = marks.escape_code if as_code else marks.escape
        linked = any(mark.kind is MarkKind.LINK for mark in span.marks)
        self._add(base, frame, raw, escape, linked=linked)

    # Atoms

    def _apart(self, newlines: int, rank: int, *, newline: str | None = None) -> None:
        """Put the next atom on another line."""
        self._rank = min(rank, self._rank) if self._newlines else rank
        self._newlines = min(self._newlines + newlines, 2)
        self._newline = newline or self._marks.newline

    def _add(
        self,
        base: Frame,
        frame: Frame,
        raw: str,
        escape: Callable[[str], str],
        *,
        exact: bool = False,
        linked: bool = False,
    ) -> None:
        """Append an atom. `base` is the frame of the line, `frame` the frame of the text in it."""
        text_gap = ""
        plain_gap = ""
        if self.atoms and self._newlines:
            text_gap, plain_gap = self._gap(base)
        rank = Rank.WORD if self._rank == Rank.INSIDE and raw[:1].isspace() else self._rank
        self.atoms.append(Atom(frame, rank, raw, escape, text_gap, plain_gap, exact, linked))
        self._base = base
        self._newlines = 0
        self._rank = Rank.WORD if raw[-1:].isspace() else Rank.INSIDE

    def _gap(self, base: Frame) -> tuple[str, str]:
        both = shared(self._base, base)
        plain = f"\n{both.plain_line}" * self._newlines
        # Elements are separated without line breaks.
        if self._marks.tags and self._base.key is not base.key:
            return "", plain
        return f"{self._newline}{both.text_line}" * self._newlines, plain


def _rank(depth: int) -> int:
    return min(Rank.BLOCK + depth, Rank.INNERMOST)


def _item_wrap(marks: Marks, number: int | None, depth: int) -> Wrap:
    bullet = marks.bullets[min(depth, len(marks.bullets) - 1)]
    sign = f"{bullet} " if number is None else f"{number}. "
    return Wrap(sign, "", " " * len(sign))


def _with(mark: Mark, span: Span) -> Span:
    """`span` with `mark` around it, in place of any mark of the same kind."""
    marks = tuple(one for one in span.marks if one.kind is not mark.kind)
    return Span(span.text, (mark, *marks))


def _within_words(line: Line, *, parted: bool) -> set[Mark]:
    """The marks that start or end in the middle of a word. With `parted`, not where one ends and
    another starts, because there is a markup character in between."""
    found: set[Mark] = set()
    for one, other in pairwise(line):
        if one.text[-1:].isalnum() and other.text[:1].isalnum():
            ended = set(one.marks) - set(other.marks)
            begun = set(other.marks) - set(one.marks)
            if not (parted and ended and begun):
                found |= ended | begun
    return found


# Tables


def laid_out(table: Table, *, in_code: bool) -> tuple[Block, ...]:
    """The table as other blocks."""
    widths = [max(map(_width, column)) for column in zip(*table.rows, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > _WIDEST:
        return tuple(_record(table.rows[0], row) for row in table.rows[1:] or table.rows)
    if not in_code:
        return (Paragraph(tuple((Span(" | ".join(row)),) for row in table.rows)),)
    header, *rows = (_row(row, widths, table.right) for row in table.rows)
    rule = "  ".join("─" * width for width in widths)
    return (Code("\n".join((header, rule, *rows))),)


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded: list[str] = []
    for cell, width, at_right in zip(cells, widths, right, strict=True):
        blanks = " " * (width - _width(cell))
        padded.append(blanks + cell if at_right else cell + blanks)
    return "  ".join(padded).rstrip()


def _record(names: Sequence[str], values: Sequence[str]) -> Paragraph:
    """`Name: value` on a line each; empty values are left out."""
    if values is names:
        return Paragraph(tuple((Span(name),) for name in names if name))
    pairs = zip(names, values, strict=True)
    return Paragraph(tuple(_entry(name, value) for name, value in pairs if value))


def _entry(name: str, value: str) -> Line:
    if not name:
        return (Span(value),)
    return (Span(f"{name}:", (Mark(MarkKind.BOLD),)), Span(f" {value}"))


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only for who needs it

    return cell_len(text)
