"""What the agent wrote, parsed: blocks, and the spans of text in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    BOLD = auto()
    ITALIC = auto()
    STRIKE = auto()
    CODE = auto()
    LINK = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """Something that lies on a stretch of text. Two that look the same are still two."""

    kind: Kind
    href: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    marks: tuple[Mark, ...] = ()
    """From the outermost; at most one of a kind."""


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
    """All of one length; the first is the header."""
    right: tuple[bool, ...]
    """Which columns are set to the right."""


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Item:
    blocks: tuple[Block, ...]
    done: bool | None = None
    """Of a task; None when it is none."""


@dataclass(frozen=True, slots=True)
class Listing:
    items: tuple[Item, ...]
    start: int | None
    """The number of the first; None when they have no numbers."""


Block = Paragraph | Heading | Code | Rule | Table | Quote | Listing
