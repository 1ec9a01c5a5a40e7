"""Splits Markdown into blocks while it is still being written, so that each is rendered only once.

The parser decides where a block ends: when a line arrives, the unfinished block is parsed again.
Every block before the last one is finished, because Markdown never reopens a closed block. A list
is finished item by item, and a long code block is emitted in parts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

logger = logging.getLogger(__name__)

LONGEST = 20_000
"""Maximum characters of one block.

A longer block is data, such as a table of a thousand rows, and would freeze the prompt for seconds,
so it is shown as written.
"""
_SHORT = 32
"""A block with more lines is parsed again only when it has grown by half, so that the work stays in
proportion to the text."""
_MAY_BEGIN_BLOCK = re.compile(r" *[-+*_=#>`~|:0-9]")
"""A line that begins in another way starts no block, except after a blank line, so it is not parsed
at once."""
_PART = 24
"""A code block this long is emitted in parts, cut at a blank line if possible."""
_FEW = 8
_BEGINNING = 64
_MARKERS = "-*+0123456789"
"""A line that begins like this may become a list item when the rest of it arrives."""
_LISTS = ("bullet_list_open", "ordered_list_open")
_ONE_LINE = ("heading_open", "hr")
_GO_ON_AFTER_BLANK = (*_LISTS, "fence", "code_block")
_HEADS = {"table_open": 2, **dict.fromkeys(_LISTS, 1)}
"""How many of its first lines every piece of such a block needs to be parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A finished piece of the text."""

    lines: tuple[str, ...]
    joined: bool = False
    """Whether it continues the previous block without a blank line: more of a list or of code."""
    number: int | None = None
    """The position of an item in a numbered list, which may differ from the number in the text."""
    language: str | None = None
    """The info string of the fence if the lines are code; None if they are Markdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A block or a list item, as the parser found it."""

    token: Token
    """The token that opens the block. For an item it is that of the list."""
    start: int
    end: int
    joined: bool = False
    number: int | None = None


@dataclass(frozen=True, slots=True)
class _Fence:
    """The opening line of a code block."""

    mark: str
    indent: int
    info: str

    def is_closed_by(self, line: str) -> bool:
        body = line.strip(" ")
        is_long_enough = len(body) >= len(self.mark) and not line.startswith("    ")
        return is_long_enough and self.may_be_closed_by(body)

    def may_be_closed_by(self, beginning: str) -> bool:
        return not beginning.strip(" " + self.mark[0])


class Splitter:
    """Takes clean text in pieces, and returns blocks as they are finished."""

    def __init__(self) -> None:
        self._partial: list[str] = []
        self._done: list[Block] = []
        self._failed = False
        """Whether the parser failed. From then on, a block ends at a blank line."""
        self._reset()

    def _reset(self) -> None:
        self._lines: list[str] = []
        """The complete lines of the unfinished block, or of the open code block."""
        self._parsed = 0
        """How many of them were there at the last parse."""
        self._size = 0
        """Their length in characters, with line ends."""
        self._piece: _Piece | None = None
        """The unfinished block at the last parse."""
        self._fence: _Fence | None = None
        """The open code block at the top level, in which nothing is parsed."""
        self._parts = 0
        """How many parts of the open code block were emitted."""

    def feed(self, text: str) -> list[Block]:
        """Add text, and return the blocks that are finished now."""
        first, *more = text.split("\n")
        self._partial.append(first)
        for piece in more:
            line = "".join(self._partial)
            self._partial = [piece]
            self._take(line)
        self._look_ahead()
        return self._given()

    def end(self) -> list[Block]:
        """End the text, and return the remaining blocks."""
        line = "".join(self._partial)
        self._partial = []
        if line.strip(" "):
            self._take(line)
        self._finish()
        return self._given()

    def rest(self, limit: int) -> Block | None:
        """Return the unfinished block, cut to its last `limit` characters."""
        partial = "".join(self._partial)[-limit:]
        if self._fence and self._fence.may_be_closed_by(partial):
            partial = ""
        lines = [*self._lines, partial] if partial else self._lines
        if not any(lines):
            return None
        if sum(map(len, lines)) > limit:
            head = _HEADS.get(self._piece.token.type, 0) if self._piece and not self._fence else 0
            lines = [*lines[:head], *_end_of(lines[head:], limit)]
        return self._block(lines, self._piece)

    def _given(self) -> list[Block]:
        given = self._done
        self._done = []
        return given

    def _take(self, line: str) -> None:
        """Add a complete line."""
        if self._fence:
            self._take_code(line, self._fence)
        elif self._lines or not _is_blank(line):
            is_due = self._is_due(line)
            self._lines.append(line)
            self._size += len(line) + 1
            if self._failed or self._size > LONGEST:
                if _is_blank(line):
                    self._finish()
            elif is_due:
                self._parse()

    def _is_due(self, line: str) -> bool:
        """Return whether this line may finish a block, and parsing it is worth its cost."""
        kind = self._piece.token.type if self._piece else ""
        if _is_blank(line) and kind and kind not in _GO_ON_AFTER_BLANK:
            return True
        if _SHORT < len(self._lines) < 3 * self._parsed // 2:
            return False
        if kind == "table_open" and line.startswith("|"):
            return False
        after_blank = bool(self._lines) and _is_blank(self._lines[-1])
        return after_blank or _is_blank(line) or bool(_MAY_BEGIN_BLOCK.match(line))

    def _look_ahead(self) -> None:
        """Finish a list or indented code when the line after a blank one cannot continue it."""
        if self._fence or not self._lines or not _is_blank(self._lines[-1]):
            return
        beginning = "".join(self._partial[:_BEGINNING])
        body = beginning.lstrip(" ")
        if body and not beginning.startswith("  ") and body[0] not in _MARKERS:
            self._finish()

    def _parse(self, *, is_over: bool = False) -> None:
        """Emit all blocks but the last, and the last one, too, if nothing can continue it."""
        try:
            *finished, last = _pieces(self._lines, self._piece)
        except Exception:
            # An answer must be shown even if it triggers a bug in the parser.
            logger.exception("markdown not split lines=%d", len(self._lines))
            self._failed = True
            return
        kind = last.token.type
        ends_here = _is_blank(self._lines[-1]) and kind not in _GO_ON_AFTER_BLANK
        is_over = is_over or ends_here or kind in _ONE_LINE
        for piece in [*finished, last] if is_over else finished:
            self._give(self._lines[piece.start : piece.end], piece)
        if is_over:
            self._reset()
            return
        self._lines = self._lines[last.start :]
        self._piece = last
        self._parsed = len(self._lines)
        self._size = sum(len(line) + 1 for line in self._lines)
        if kind == "fence":
            self._open_code(last.token)

    def _block(self, lines: Sequence[str], piece: _Piece | None) -> Block:
        if self._fence:
            joined = self._parts > 0
            return Block(lines=tuple(lines), joined=joined, language=self._fence.info)
        if piece is None:
            return Block(lines=tuple(lines))
        return Block(lines=tuple(lines), joined=piece.joined, number=piece.number)

    def _finish(self) -> None:
        if self._fence:
            self._give_code(len(self._lines))
        elif self._lines and not self._failed and self._size <= LONGEST:
            self._parse(is_over=True)
        if self._lines and not self._fence:
            self._give(self._lines, self._piece)
        self._reset()

    def _give(self, lines: list[str], piece: _Piece | None) -> None:
        """Emit a block without the blank lines at its end."""
        while _is_blank(lines[-1]):
            lines.pop()
        self._done.append(self._block(lines, piece))

    # Code at the top level

    def _open_code(self, token: Token) -> None:
        first, *others = self._lines
        self._reset()
        self._fence = _Fence(token.markup, len(first) - len(first.lstrip(" ")), token.info.strip())
        for line in others:
            self._take(line)

    def _take_code(self, line: str, fence: _Fence) -> None:
        if fence.is_closed_by(line):
            self._finish()
            return
        indent = len(line) - len(line.lstrip(" "))
        self._lines.append(line[min(indent, fence.indent) :])
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
        lines = self._lines[:count]
        self._lines = self._lines[count:]
        if lines:
            self._done.append(self._block(lines, None))
            self._parts += 1


def _pieces(lines: Sequence[str], before: _Piece | None) -> Iterator[_Piece]:
    """Yield the blocks in these lines, and each list item separately.

    The first one continues `before`, as it was found when there were fewer lines.
    """
    from segue.terminal.render import markdown  # noqa: PLC0415 - only when there is something

    joined = before is not None and before.joined
    number = before.number if before else None
    opened: Token | None = None
    for token in markdown.parse_blocks("\n".join(lines)):
        start, end = token.map or (0, 0)
        if token.level == 0 and token.nesting >= 0:
            opened = token
            if token.type == "ordered_list_open":
                number = int(token.attrs.get("start", 1)) if number is None else number
            if token.type not in _LISTS:
                yield _Piece(token=token, start=start, end=end)
        elif token.level == 1 and token.type == "list_item_open" and opened:
            yield _Piece(token=opened, start=start, end=end, joined=joined, number=number)
            joined = True
            number = None if number is None else number + 1
        elif token.level == 0:
            joined = False
            number = None


def _is_blank(line: str) -> bool:
    return not line.strip(" ")


def _end_of(lines: Sequence[str], limit: int) -> list[str]:
    size = 0
    for n, line in enumerate(reversed(lines)):
        size += len(line) + 1
        if size > limit:
            return list(lines[len(lines) - n :]) or [lines[-1][-limit:]]
    return list(lines)
