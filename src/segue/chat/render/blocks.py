"""Splits Markdown into blocks while it is still being written, so that each is rendered only once.

Later text cannot change a finished block. A paragraph, a quote or a table is finished at the blank
line after it, a heading at once, and a list item when the next item or another block begins. A long
code block is emitted in parts. The rules for what ends a block are those of the parser
(markdown-it), except for reference links, with which the last line could change the first. Each
line is examined once, however long the text is.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from segue.chat.render import marks
from segue.chat.render.marks import Line

_PART = 24
"""A code block this long is emitted in parts, cut at a blank line if possible."""
_FEW = 8
_NOWHERE = 1 << 30
_BEGINNING = 64


class _Kind(enum.Enum):
    NONE = enum.auto()
    PARAGRAPH = enum.auto()
    TABLE = enum.auto()
    QUOTE = enum.auto()
    ITEM = enum.auto()
    INDENTED = enum.auto()
    CODE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A finished part of the text."""

    lines: tuple[str, ...]
    joined: bool = False
    """Whether it continues the previous block without a blank line: more of a list or of code."""
    number: int | None = None
    """The position of an item in a numbered list, which may differ from the number in the text."""
    language: str | None = None
    """The info string of the fence if the lines are code; None if they are Markdown."""


class Splitter:
    """Takes clean text in pieces, and returns blocks as they are finished."""

    def __init__(self) -> None:
        self._partial: list[str] = []
        self._kind = _Kind.NONE
        self._lines: list[str] = []
        self._blank = False
        self._lazy = False
        """Whether the next line may be a lazy continuation of the last paragraph."""
        self._head = 0
        """How many of the first lines every part of the block needs to be parsed."""
        self._item: marks.Item | None = None
        """The last item, as long as the list can continue."""
        self._fence: marks.Fence | None = None
        """The open code block, perhaps within an item or a quote."""
        self._parts = 0
        """How many parts of the open code block were emitted."""
        self._done: list[Block] = []

    def feed(self, text: str) -> list[Block]:
        """Add text, and return the blocks that are finished now."""
        first, *more = text.split("\n")
        self._partial.append(first)
        for piece in more:
            line = "".join(self._partial)
            self._partial = [piece]
            self._take(Line.of(line))
        self._look_ahead()
        return self._given()

    def end(self) -> list[Block]:
        """End the text, and return the remaining blocks."""
        line = Line.of("".join(self._partial))
        self._partial = []
        if not line.is_blank:
            self._take(line)
        self._finish()
        return self._given()

    def rest(self, limit: int) -> Block | None:
        """Return the unfinished block, cut to its last `limit` characters."""
        partial = "".join(self._partial)[-limit:]
        if self._kind is _Kind.CODE and self._fence and self._fence.may_be_closed_by(partial):
            partial = ""
        lines = [*self._lines, partial] if partial else self._lines
        if not any(lines):
            return None
        if sum(map(len, lines)) > limit:
            lines = [*lines[: self._head], *_end_of(lines[self._head :], limit)]
        return self._block(lines)

    def _given(self) -> list[Block]:
        given, self._done = self._done, []
        return given

    # Complete lines

    def _take(self, line: Line) -> None:
        match self._kind:
            case _Kind.NONE:
                self._start(line)
            case _Kind.PARAGRAPH:
                self._take_in_paragraph(line)
            case _Kind.TABLE:
                row = not (line.is_blank or line.is_indented or line.interrupts())
                self._take_or_start(line, belongs=row)
            case _Kind.QUOTE:
                self._take_in_quote(line)
            case _Kind.ITEM if self._item:
                self._take_in_item(line, self._item)
            case _Kind.INDENTED:
                self._take_or_start(line, belongs=line.is_blank or line.is_indented)
            case _Kind.CODE if self._fence:
                self._take_code(line, self._fence)
            case _Kind.ITEM | _Kind.CODE:
                raise AssertionError(f"{self._kind} without its mark")

    def _start(self, line: Line) -> None:
        """Start a block."""
        if line.is_blank:
            return
        before, self._item = self._item, None
        if line.is_indented:
            self._open(_Kind.INDENTED, line)
        elif fence := marks.fence(line):
            self._kind, self._fence = _Kind.CODE, fence
        elif line.is_quote:
            self._open(_Kind.QUOTE, line)
            self._look_inside(line)
        elif line.is_one_line_block:
            self._open(_Kind.PARAGRAPH, line)
            self._finish()
        elif item := marks.item(line, before):
            self._item = item
            self._open(_Kind.ITEM, line, head=1)
            self._look_inside(line)
        else:
            self._open(_Kind.PARAGRAPH, line)

    def _take_or_start(self, line: Line, *, belongs: bool) -> None:
        if belongs:
            self._add(line)
        else:
            self._finish()
            self._start(line)

    def _take_in_paragraph(self, line: Line) -> None:
        if marks.is_table(self._lines[-1], line):
            self._kind, self._head = _Kind.TABLE, len(self._lines) + 1
            self._add(line)
        elif line.is_underline:
            self._add(line)
            self._finish()
        else:
            ends = line.is_blank or line.interrupts(paragraph=True)
            self._take_or_start(line, belongs=not ends)

    def _take_in_quote(self, line: Line) -> None:
        if line.body.startswith(">"):  # at any indentation
            self._add(line)
            self._look_inside(line)
        else:
            goes_on = self._lazy and not line.is_blank and not line.interrupts()
            self._take_or_start(line, belongs=goes_on)

    def _take_in_item(self, line: Line, item: marks.Item) -> None:
        if line.is_blank:
            if item.is_empty and len(self._lines) == 1:
                # An item that begins with a blank line is empty: no other line belongs to it.
                self._item = replace(item, offset=_NOWHERE)
            self._lazy = False
            self._add(line)
        elif line.indent >= item.offset:
            self._add(line)
            self._look_inside(line)
        else:
            self._take_or_start(line, belongs=self._lazy and not line.interrupts())

    def _look_inside(self, line: Line) -> None:
        """Update whether code or a paragraph is open inside an item or a quote.

        Code ends with the item or quote that contains it, even without a closing fence. A paragraph
        does not.
        """
        if self._lazy and not Line.of(line.body).interrupts(paragraph=True):
            return
        if self._fence is None:
            self._fence = marks.fence(line.inside)
        elif self._fence.is_closed_by(line.inside):
            self._fence = None
        code = self._item is not None and Line.of(line.text[self._item.offset :]).is_indented
        self._lazy = self._fence is None and line.leaves_paragraph_open and (self._lazy or not code)

    def _take_code(self, line: Line, fence: marks.Fence) -> None:
        if fence.is_closed_by(line):
            self._finish()
            return
        self._lines.append(line.text[min(line.indent, fence.indent) :])
        if len(self._lines) >= _PART:
            # Code between two blank lines can usually be highlighted separately.
            blank = max((n for n, text in enumerate(self._lines) if not text.strip()), default=0)
            if blank >= _FEW:
                self._give_code(blank)
            elif len(self._lines) >= 2 * _PART:
                self._give_code(len(self._lines))

    def _give_code(self, count: int) -> None:
        """Emit the first `count` lines of code.

        Blank lines at the end are kept back: they are not shown at the end of code.
        """
        while count and not self._lines[count - 1].strip():
            count -= 1
        lines, self._lines = self._lines[:count], self._lines[count:]
        if lines:
            self._done.append(self._block(lines))
            self._parts += 1

    # The open block

    def _open(self, kind: _Kind, line: Line, *, head: int = 0) -> None:
        self._kind, self._lines, self._blank, self._head = kind, [line.text], False, head

    def _add(self, line: Line) -> None:
        self._lines.append(line.text)
        self._blank = line.is_blank

    def _finish(self) -> None:
        if self._kind is _Kind.CODE:
            self._give_code(len(self._lines))
        elif self._kind is not _Kind.NONE:
            while not self._lines[-1].strip(" "):
                self._lines.pop()
            self._done.append(self._block(self._lines))
        self._kind, self._lines, self._head = _Kind.NONE, [], 0
        self._blank, self._lazy, self._fence, self._parts = False, False, None, 0

    def _block(self, lines: Sequence[str]) -> Block:
        block = Block(lines=tuple(lines))
        if self._kind is _Kind.ITEM and self._item:
            return replace(block, joined=self._item.joined, number=self._item.number)
        if self._kind is _Kind.CODE and self._fence:
            return replace(block, joined=self._parts > 0, language=self._fence.info)
        return block

    def _look_ahead(self) -> None:
        """Finish a block as soon as the line after a blank one cannot be part of it."""
        beginning = Line.of("".join(self._partial[:_BEGINNING])) if self._blank else None
        if beginning is None or beginning.is_blank:
            return
        if self._kind is _Kind.ITEM and self._item:
            over = beginning.indent < self._item.offset and not beginning.may_be_marker
        else:
            over = not beginning.is_indented
        if over:
            self._finish()


def _end_of(lines: Sequence[str], limit: int) -> list[str]:
    size = 0
    for n, line in enumerate(reversed(lines)):
        size += len(line) + 1
        if size > limit:
            return list(lines[len(lines) - n :]) or [lines[-1][-limit:]]
    return list(lines)
