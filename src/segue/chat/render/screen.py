"""What lines are made for: how wide it is, and what it can show."""

from __future__ import annotations

import codecs
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

NARROWEST = 20
"""Columns. On anything narrower lines are made for this, and wrapped by the terminal."""
_READABLE = 100
"""Columns. Longer lines of prose are hard to read, however wide the screen."""


class Style(enum.StrEnum):
    """How text stands out, in the words of ANSI: colours that a theme makes readable on dark and
    on light alike, and no others."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"
    WARNING = "1;33"


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The signs that we draw ourselves."""

    prompt: str = "❯"
    tool: str = "⏺"
    failed: str = "✗"
    stopped: str = "■"
    bar: str = "│"
    folded: str = "┊"
    """In place of the bar, where a line goes on that was too long."""
    corner_top: str = "╭"
    corner_bottom: str = "╰"
    rule: str = "─"
    bullet: str = "•"
    dot: str = "·"
    more: str = "…"


_UNICODE = Glyphs()
_ASCII = Glyphs(
    prompt=">", tool="*", failed="x", stopped="#", bar="|", folded=":", corner_top="+",
    corner_bottom="+", rule="-", bullet="-", dot="|", more="...",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where lines are shown."""

    width: int = 80
    height: int = 24
    styled: bool = True
    """Whether colours and the like are shown. Where they are not, Markdown stays as written."""
    unicode: bool = True
    """Whether more than ASCII can be shown."""

    @property
    def columns(self) -> int:
        return max(self.width, NARROWEST)

    @property
    def readable(self) -> int:
        """How wide lines of prose are made."""
        return min(self.columns, _READABLE)

    @property
    def glyphs(self) -> Glyphs:
        return _UNICODE if self.unicode else _ASCII

    def paint(self, text: str, style: Style) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.styled and text else text


def screen(output: TextIO, environ: Mapping[str, str], width: int) -> Screen:
    """What `output` is. Plain for a pipe, for a terminal that can do nothing else, and for a person
    who set NO_COLOR to anything."""
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM", "dumb") in ("", "dumb")
    return Screen(
        width=width, styled=output.isatty() and not plain, unicode=_is_utf(output.encoding)
    )


def _is_utf(encoding: str | None) -> bool:
    try:
        return codecs.lookup(encoding or "ascii").name.startswith("utf")
    except LookupError:
        return False
