"""What one line of Markdown can be: the marks at its beginning, and what they begin or end.

Tabs have become blanks before a line comes here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CODE = 4
"""So many blanks before a line make it code."""

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
    """One line, or the beginning of one, and how far to the right it stands."""

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
        """A heading or a rule across the page."""
        return not self.is_indented and bool(
            _HEADING.match(self.body) or _RULE.fullmatch(self.body)
        )

    @property
    def is_underline(self) -> bool:
        """What makes the paragraph above it a heading."""
        return not self.is_indented and bool(_UNDERLINE.fullmatch(self.body))

    @property
    def may_be_marker(self) -> bool:
        """Whether it may become an item of a list, or a rule, when more of it has come."""
        return bool(_MAY_BE_MARKER.match(self.body))

    def interrupts(self, *, paragraph: bool = False) -> bool:
        """Whether a block begins here without a blank line before it."""
        if self.is_indented:
            return False
        if self.is_quote or self.is_one_line_block or fence(self):
            return True
        marker = _MARKER.match(self.body)
        if not marker or not paragraph:
            return bool(marker)
        # Else a number at the beginning of a line would tear a paragraph apart.
        filled = marker.end() < len(self.body.rstrip(" "))
        return filled and (marker["number"] is None or int(marker["number"]) == 1)

    @property
    def inside(self) -> Line:
        """What is left of it without the marks of quotations and lists."""
        return Line.of(_CONTAINERS.sub("", self.text, count=1))

    @property
    def leaves_paragraph_open(self) -> bool:
        """Whether the next line may go on with its text without repeating its marks."""
        inside = self.inside
        return not (inside.is_blank or inside.is_one_line_block or fence(inside))


@dataclass(frozen=True, slots=True)
class Fence:
    """The line before some code."""

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
    """An item of a list."""

    sign: str
    number: int | None
    offset: int
    """Lines that stand this far to the right belong to it."""
    is_empty: bool
    """Nothing but the marker is on its line."""
    joined: bool = False
    """Whether the list began before it."""


def item(line: Line, before: Item | None) -> Item | None:
    """What the list goes on with, or begins with."""
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
    """Whether `below` makes a table of the line before it."""
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
