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


_WITHOUT_COLOUR = {Style.BOLD, Style.DIM}


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

_CUTS = ("linux", "rxvt", "st-")
"""How TERM begins for terminals that cut off lines when they become narrower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The screen on which lines are shown."""

    width: int = 80
    height: int = 24
    styled: bool = True
    """Whether styles such as bold are shown. Without them, Markdown stays as written."""
    coloured: bool = True
    """Whether styles may have colours."""
    unicode: bool = True
    """Whether it can show characters beyond ASCII."""
    rewraps: bool = True
    """Whether lines that are too long for a new width continue in the next row."""

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
        codes = style.split(";")
        if not self.coloured:
            codes = [code for code in codes if code in _WITHOUT_COLOUR]
        painted = self.styled and text and codes
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if painted else text


def screen(output: TextIO, environ: Mapping[str, str], width: int) -> Screen:
    """Return the capabilities of `output`.

    Output is plain for pipes and for terminals that support nothing else. It has no colours if
    NO_COLOR is set.
    """
    return Screen(
        width=width,
        styled=output.isatty() and environ.get("TERM", "dumb") not in ("", "dumb"),
        coloured=not environ.get("NO_COLOR"),
        unicode=_is_utf(output.encoding),
        rewraps=_rewraps(environ),
    )


def _rewraps(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal rewraps its lines when it is resized, as most do."""
    return "XTERM_VERSION" not in environ and not environ.get("TERM", "").startswith(_CUTS)


def _is_utf(encoding: str | None) -> bool:
    try:
        return codecs.lookup(encoding or "ascii").name.startswith("utf")
    except LookupError:
        return False
