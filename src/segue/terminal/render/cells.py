"""Text measured in columns: Chinese and Japanese characters and emoji take two, accents none.

All text here must be clean already. The program's own texts name shell commands as `segue …` in
backticks or quotes; they are shown as the user can type them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from segue import config

_GAP = re.compile("  +")
"""Separates the columns of a table."""
_LEAST_COLUMN = 20
"""Columns of the screen. With less room, text continues under an earlier column."""
_WORD = re.compile(r"(?:`[^`]*`|[^\s`])+|\S+")
_COMMAND = re.compile(r"(?<=[`'])segue(?=[ `'])")


def width(text: str) -> int:
    """Return how many columns `text` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only for who needs it

    return cell_len(text)


def fit(text: str, columns: int, more: str = "…") -> str:
    """Return `text`, or its beginning and `more`. Never wider than `columns`."""
    if width(text) <= columns:
        return text
    if width(more) >= columns:
        return _chop(more, columns)[0] if columns > 0 else ""
    return _chop(text, columns - width(more))[0].rstrip() + more


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width(text))


def fold(text: str, columns: int) -> list[str]:
    """Split one line at the column limit. Everything is kept, including blanks."""
    return [text] if width(text) <= columns else _chop(text, columns)


def fold_lines(lines: Iterable[str], columns: int) -> list[str]:
    """Split each line at the column limit."""
    return [part for line in lines for part in fold(line, columns)]


def wrap(text: str, columns: int) -> list[str]:
    """Wrap one line between words where possible. Code in backticks counts as one word."""
    lines = [""]
    for word in fold_lines(_WORD.findall(text), columns):
        if not lines[-1]:
            lines[-1] = word
        elif width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def wrap_aligned(text: str, columns: int) -> list[str]:
    """Wrap one line that may be a row of a table. What does not fit continues under its column."""
    if width(text) <= columns:
        return [text]
    starts = [gap.end() for gap in _GAP.finditer(text)]
    fitting = [at for at in starts if width(text[:at]) <= columns - _LEAST_COLUMN]
    start = fitting[-1] if fitting else 0
    head = text[:start]
    indent = " " * width(text[:start])
    first, *more = wrap(text[start:], columns - len(indent))
    return [head + first, *(indent + line for line in more)]


def _chop(text: str, columns: int) -> list[str]:
    if text.isascii():
        return [text[i : i + columns] for i in range(0, len(text), columns)]
    from rich.cells import chop_cells  # noqa: PLC0415

    return chop_cells(text, columns)


def pasteable(text: str) -> str:
    """Return `text` with its commands as the user can type them in a shell."""
    return _COMMAND.sub(lambda _: config.command_name(), text) if "segue" in text else text
