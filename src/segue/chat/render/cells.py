"""Text measured in columns: Chinese and Japanese characters and emoji take two, accents none.

All text here must be clean already.
"""

from __future__ import annotations

from collections.abc import Iterable


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
    """Wrap one line between words where possible."""
    lines = [""]
    for word in fold_lines(text.split(), columns):
        if not lines[-1]:
            lines[-1] = word
        elif width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _chop(text: str, columns: int) -> list[str]:
    if text.isascii():
        return [text[i : i + columns] for i in range(0, len(text), columns)]
    from rich.cells import chop_cells  # noqa: PLC0415

    return chop_cells(text, columns)
