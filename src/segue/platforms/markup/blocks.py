"""The parsed Markdown: blocks, and the spans of text in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class MarkKind(Enum):
    BOLD = auto()
    ITALIC = auto()
    STRIKE = auto()
    CODE = auto()
    LINK = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """Formatting of a stretch of text. Compared by identity: equal marks are not the same."""

    kind: MarkKind
    href: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    marks: tuple[Mark, ...] = ()
    """Outermost first, at most one of each kind."""


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    pass


@dataclass(frozen=True, slots=True)
class Table:
    rows: tuple[tuple[str, ...], ...]
    """All of the same length; the first is the header."""
    right: tuple[bool, ...]
    """Which columns are right-aligned."""


@dataclass(frozen=True, slots=True)
class QuoteBlock:
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class ListItem:
    blocks: tuple[Block, ...]
    done: bool | None = None
    """Whether a task is done; None if the item is not a task."""


@dataclass(frozen=True, slots=True)
class Listing:
    items: tuple[ListItem, ...]
    start: int | None
    """The number of the first item; None for a bulleted list."""


Block = Paragraph | Heading | Code | Rule | Table | QuoteBlock | Listing


def written_out(href: str) -> str:
    """The URL as it is shown after a link's text."""
    return f" ({href.removeprefix('mailto:')})"
