"""The screen that lines are made for: its size and capabilities."""

from __future__ import annotations

import codecs
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

NARROWEST = 20
"""Columns. For a narrower screen, lines are made this wide and the terminal wraps them."""
READABLE = 100
"""Columns. Longer lines of prose are hard to read, however wide the screen."""


class Style(enum.StrEnum):
    """ANSI styles. Only colours that themes keep readable on both dark and light backgrounds."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    YELLOW = "33"
    CYAN = "36"
    WARNING = "1;33"


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The symbols that Segue draws itself."""

    prompt: str = "❯"
    tool: str = "⏺"
    failed: str = "✗"
    stopped: str = "■"
    bar: str = "│"
    folded: str = "┊"
    """Replaces the bar where an overlong line continues."""
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
    """The screen on which lines are shown."""

    width: int = 80
    height: int = 24
    styled: bool = True
    """Whether styles such as colours are shown. Without them, Markdown stays as written."""
    unicode: bool = True
    """Whether it can show characters beyond ASCII."""

    @property
    def columns(self) -> int:
        return max(self.width, NARROWEST)

    @property
    def readable(self) -> int:
        """Columns for lines of prose."""
        return min(self.columns, READABLE)

    @property
    def glyphs(self) -> Glyphs:
        return _UNICODE if self.unicode else _ASCII

    def paint(self, text: str, style: Style) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.styled and text else text


def screen(output: TextIO, environ: Mapping[str, str], width: int) -> Screen:
    """Return the capabilities of `output`.

    Output is plain for pipes, for terminals that support nothing else, and if NO_COLOR is set.
    """
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM", "dumb") in ("", "dumb")
    return Screen(
        width=width, styled=output.isatty() and not plain, unicode=_is_utf(output.encoding)
    )


def _is_utf(encoding: str | None) -> bool:
    try:
        return codecs.lookup(encoding or "ascii").name.startswith("utf")
    except LookupError:
        return False
