"""Recognises the Markdown markers at the start of a line, and the blocks they start or end.

Tabs must be expanded before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CODE = 4
"""A line indented by this many blanks is code."""

_HEADING = re.compile(r"#{1,6}(?: |$)")
_RULE = re.compile(r"([-*_]) *(?:\1 *){2,}")
_UNDERLINE = re.compile(r"(?:-+|=+) *")
_FENCE = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>.*)")
_MARKER = re.compile(r"(?P<number>[0-9]{1,9})?(?P<sign>(?(number)[.)]|[-*+]))(?P<gap> +|$)")
_MAY_BE_MARKER = re.compile(r"[-*+0-9]")
_CONTAINERS = re.compile(r"(?: *(?:>|(?:[-*+]|[0-9]{1,9}[.)])(?= |$)))* *")
_DELIMITERS = re.compile(r"(?!- )[-:|][-:| ]+")
_DELIMITER = re.compile(r":?-+:?")
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or the beginning of one, with its indentation."""

    text: str
    body: str
    indent: int

    @classmethod
    def of(cls, text: str) -> Line:
        body = text.lstrip(" ")
        return cls(text, body, len(text) - len(body))

    @property
    def is_blank(self) -> bool:
        return not self.body

    @property
    def is_indented(self) -> bool:
        return self.indent >= CODE

    @property
    def is_quote(self) -> bool:
        return not self.is_indented and self.body.startswith(">")

    @property
    def is_one_line_block(self) -> bool:
        """Whether it is a heading or a horizontal rule."""
        return not self.is_indented and bool(
            _HEADING.match(self.body) or _RULE.fullmatch(self.body)
        )

    @property
    def is_underline(self) -> bool:
        """Whether it makes the paragraph above it a heading."""
        return not self.is_indented and bool(_UNDERLINE.fullmatch(self.body))

    @property
    def may_be_marker(self) -> bool:
        """Whether it may become a list item or a rule when the rest of the line arrives."""
        return bool(_MAY_BE_MARKER.match(self.body))

    def interrupts(self, *, paragraph: bool = False) -> bool:
        """Return whether a block starts here without a blank line before it."""
        if self.is_indented:
            return False
        if self.is_quote or self.is_one_line_block or fence(self):
            return True
        marker = _MARKER.match(self.body)
        if not marker or not paragraph:
            return bool(marker)
        # Otherwise a number at the start of a line would split a paragraph.
        filled = marker.end() < len(self.body.rstrip(" "))
        return filled and (marker["number"] is None or int(marker["number"]) == 1)

    @property
    def inside(self) -> Line:
        """The line without the markers of quotes and lists."""
        return Line.of(_CONTAINERS.sub("", self.text, count=1))

    @property
    def leaves_paragraph_open(self) -> bool:
        """Whether the next line may continue its text without repeating its markers."""
        inside = self.inside
        return not (inside.is_blank or inside.is_one_line_block or fence(inside))


@dataclass(frozen=True, slots=True)
class Fence:
    """The opening line of a code block."""

    mark: str
    indent: int
    info: str

    def is_closed_by(self, line: Line) -> bool:
        body = line.body.rstrip(" ")
        return (
            not line.is_indented
            and len(body) >= len(self.mark)
            and body == self.mark[0] * len(body)
        )

    def may_be_closed_by(self, beginning: str) -> bool:
        return not beginning.strip(" " + self.mark[0])


def fence(line: Line) -> Fence | None:
    found = None if line.is_indented else _FENCE.fullmatch(line.body)
    if not found or (found["mark"][0] == "`" and "`" in found["info"]):
        return None
    return Fence(found["mark"], line.indent, found["info"].strip())


@dataclass(frozen=True, slots=True)
class Item:
    """A list item."""

    sign: str
    number: int | None
    offset: int
    """Lines indented at least this far belong to it."""
    is_empty: bool
    """Whether its first line is only the marker."""
    joined: bool = False
    """Whether it continues a list."""


def item(line: Line, before: Item | None) -> Item | None:
    """Return the list item that starts on this line, continuing `before` if possible, or None."""
    marker = None if line.is_indented else _MARKER.match(line.body)
    if not marker:
        return None
    sign, gap = marker["sign"], len(marker["gap"])
    is_empty = marker.end() == len(line.body)
    offset = line.indent + marker.start("gap") + (1 if is_empty or gap > CODE else gap)
    number = int(marker["number"]) if marker["number"] else None
    if before is None or before.sign != sign:
        return Item(sign, number, offset, is_empty)
    following = None if before.number is None else before.number + 1
    return Item(sign, following, offset, is_empty, joined=True)


def is_table(header: str, below: Line) -> bool:
    """Return whether `below` is the delimiter row of a table with this header."""
    above = Line.of(header)
    if "|" not in header or above.is_indented or not _DELIMITERS.fullmatch(below.body):
        return False
    delimiters = list(_cells(below.body.split("|")))
    return (
        not below.is_indented
        and bool(delimiters)
        and all(map(_DELIMITER.fullmatch, delimiters))
        and len(list(_cells(_PIPE.split(above.body.rstrip(" "))))) == len(delimiters)
    )


def _cells(parts: Sequence[str]) -> Iterator[str]:
    for n, part in enumerate(parts):
        if part.strip(" ") or 0 < n < len(parts) - 1:
            yield part.strip(" ")
