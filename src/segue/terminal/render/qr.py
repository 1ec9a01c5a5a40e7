"""QR codes on a terminal. Each line holds two rows of the code, so that it is square."""

from __future__ import annotations

import sys
from itertools import zip_longest

from segue import config
from segue.terminal.output import screen
from segue.web import endpoints

_BORDER = 2
_HALVES = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}
_BLACK_ON_WHITE = "\x1b[30;107m{}\x1b[0m"


def on_screen(link: str) -> list[str]:
    """Return the QR code of `link` for a phone's camera.

    Empty if the screen cannot show it, or if the link works on this machine only.
    """
    columns = screen()
    if endpoints.is_local(link) or columns is None or "utf" not in sys.stdout.encoding.lower():
        return []
    variables = config.terminal_variables()
    colours = "NO_COLOR" not in variables and variables.get("TERM", "dumb") != "dumb"
    lines = drawn(link, colours=colours)
    return lines if width(lines) <= columns else []


def drawn(text: str, *, colours: bool) -> list[str]:
    """Draw the QR code of `text`.

    Without `colours`, draw the light parts, because a terminal without them most likely has a dark
    background.
    """
    import segno  # noqa: PLC0415 - most who could draw a code never do

    rows = [list(row) for row in segno.make(text, micro=False).matrix_iter(border=_BORDER)]
    paper = [0] * len(rows[0])
    pairs = zip_longest(rows[::2], rows[1::2], fillvalue=paper)
    ink = 0 if colours else 1
    lines = [
        "".join(_HALVES[upper ^ ink, lower ^ ink] for upper, lower in zip(*pair, strict=True))
        for pair in pairs
    ]
    return [_BLACK_ON_WHITE.format(line) for line in lines] if colours else lines


def width(lines: list[str]) -> int:
    """Return how many columns the drawing takes."""
    return sum(c in _HALVES.values() for c in lines[0])
