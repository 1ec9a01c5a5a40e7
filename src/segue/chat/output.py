"""How the commands print: lines that fit a screen for a person, plain ones for a program.

All that a command prints goes through here. A terminal obeys what it is sent, so `say`, `notice`
and `print_lines` take out what it would obey or hide, and every secret that a server sent back.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import click

from segue.chat.render.clean import clean
from segue.core.redaction import redacted

WIDEST = 100
"""Prose in longer lines is hard to read, however wide the screen."""
_NARROWEST = 20
_GAP = 2
_HALF = "\0"
"""Stands for the other half of a wide character."""
_PERHAPS_UNSEEN = re.compile(r"[^\x20-\x7e]")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def screen() -> int | None:
    """How many columns the person's screen has; None when a program reads instead."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _NARROWEST)


def say(text: str = "") -> None:
    click.echo(harmless(text))  # noqa: TID251


def print_lines(lines: Sequence[str]) -> None:
    say("\n".join(lines))


def notice(text: str) -> None:
    """Something about the output that is no part of it."""
    click.echo(harmless(text), err=True)  # noqa: TID251


def draw(lines: Sequence[str]) -> None:
    """Print a drawing of our own, colours included."""
    click.echo("\n".join(lines))  # noqa: TID251


def harmless(text: str) -> str:
    """`text` from anywhere, made safe to print. Tabs, which separate columns, stay."""
    return "\t".join(clean(part) for part in redacted(text).split("\t"))


def print_json(value: object) -> None:
    """One line of JSON."""
    click.echo(json_line(value))  # noqa: TID251


def json_line(value: object) -> str:
    """`value` as JSON on one line, in which a screen finds nothing to obey."""
    import msgspec  # noqa: PLC0415 - only what is used

    return visible_json(redacted(msgspec.json.encode(value).decode()))


def visible_json(encoded: str) -> str:
    """The same JSON, with what a screen would obey and not show written as `\\uXXXX`."""
    return _PERHAPS_UNSEEN.sub(_escaped, encoded)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\n" or unicodedata.category(character) not in _UNSEEN:
        return character
    utf_16 = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{utf_16[i]:02x}{utf_16[i + 1]:02x}" for i in range(0, len(utf_16), 2))


def folded(text: str, width: int | None, indent: str = "", first: str | None = None) -> str:
    """`text` in lines that fit `width`, all but the `first` indented; one line when it is None."""
    initial = indent if first is None else first
    if width is None:
        return initial + text
    lines = textwrap.fill(
        text if text.isascii() else _padded(text),
        max(min(width, WIDEST), len(indent) + _NARROWEST),
        initial_indent=initial,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return lines.replace(_HALF, "")


def _padded(text: str) -> str:
    """`text` with as many characters as it takes columns of a screen."""
    from rich.cells import cell_len  # noqa: PLC0415 - only for a screen

    # Before the character, so that a line which ends between the two is too short, not too long.
    return "".join(_HALF * (cell_len(c) - 1) + c for c in text)


def fields(pairs: Sequence[tuple[str, str]], width: int | None, indent: str = "  ") -> list[str]:
    """A name and what it is per line, the second ones below each other."""
    room = max((len(name) for name, _ in pairs), default=0) + len(indent) + _GAP
    return [folded(told, width, " " * room, f"{indent}{name}".ljust(room)) for name, told in pairs]


class Column(NamedTuple):
    heading: str
    least: int
    """How far it may shrink."""
    keeps_end: bool = False
    """What does not fit loses its beginning, as a path should."""
    number: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A heading and the `rows`, below each other, no line longer than `width` if that can be.

    Where it is too wide, the widest column gives first.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - only for a screen

    lines = [[column.heading for column in columns], *rows]
    sizes = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    excess = sum(sizes) + _GAP * (len(sizes) - 1) - width
    for _ in range(excess):
        spare = [i for i, column in enumerate(columns) if sizes[i] > column.least]
        if not spare:
            break
        sizes[max(spare, key=lambda i: sizes[i])] -= 1
    return [(" " * _GAP).join(map(_cut, line, sizes, columns)).rstrip() for line in lines]


def _cut(text: str, width: int, column: Column) -> str:
    """`text` in exactly `width` columns of the screen; an ellipsis stands for what is left out."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415

    if cell_len(text) <= width:
        return text.rjust(width) if column.number else set_cell_size(text, width)
    if not column.keeps_end:
        return set_cell_size(set_cell_size(text, width - 1).rstrip() + "…", width)
    while cell_len(text) >= width:
        text = text[1:]
    return set_cell_size("…" + text, width)
