"""Text by the columns that it takes: letters of China and Japan and emoji take two, accents none.

What is measured here is clean already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def width(text: str) -> int:
    """How many columns `text` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only for who needs it

    return cell_len(text)


def fit(text: str, columns: int, more: str = "…") -> str:
    """`text`, or as much of its beginning as fits and `more`; never wider than `columns`."""
    if width(text) <= columns:
        return text
    if width(more) >= columns:
        return _chop(more, columns)[0] if columns > 0 else ""
    return _chop(text, columns - width(more))[0].rstrip() + more


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width(text))


def fold(text: str, columns: int) -> list[str]:
    """One line of text, cut wherever it is full: all of it is kept, blanks too."""
    return [text] if width(text) <= columns else _chop(text, columns)


def fold_lines(lines: Iterable[str], columns: int) -> list[str]:
    """Text as it was written, each line cut wherever it is full."""
    return [part for line in lines for part in fold(line, columns)]


def wrap(text: str, columns: int) -> list[str]:
    """One line of text, cut between its words where that is possible."""
    lines = [""]
    for word in _words(text, columns):
        if not lines[-1]:
            lines[-1] = word
        elif width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _words(text: str, columns: int) -> Iterator[str]:
    for word in text.split():
        yield from fold(word, columns)


def _chop(text: str, columns: int) -> list[str]:
    if text.isascii():
        return [text[i : i + columns] for i in range(0, len(text), columns)]
    from rich.cells import chop_cells  # noqa: PLC0415

    return chop_cells(text, columns)
