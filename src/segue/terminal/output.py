"""Output of the commands: wrapped lines for a screen, plain lines for a pipe.

All output of commands goes through here. A terminal interprets what it receives, so `say`, `notice`
and `print_lines` remove everything it would interpret or hide, and every secret that a server sent
back. They also write the shell commands in our texts so that they can be pasted.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from segue.core.secret import redacted
from segue.core.text import is_hidden
from segue.terminal.render import cells
from segue.terminal.render.cells import pasteable
from segue.terminal.render.clean import clean
from segue.terminal.render.screen import NARROWEST, READABLE

_GAP = 2
_HALF = "\0"
"""Stands for the second column of a wide character."""
_JOINT = "\x1f"
"""Stands for a blank at which a line must not break."""
_CODE = re.compile(r"`[^`]*`")
_PERHAPS_UNSEEN = re.compile(r"[^\x20-\x7e]")


def screen() -> int | None:
    """Return the screen's width in columns, or None if the output is not a terminal."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, NARROWEST)


def is_interactive() -> bool:
    """Return whether the user can be asked: both input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def say(text: str = "") -> None:
    click.echo(harmless(pasteable(text)))  # noqa: TID251


def print_lines(lines: Sequence[str]) -> None:
    say("\n".join(lines))


def notice(text: str) -> None:
    """Print a message about the output, to stderr."""
    click.echo(harmless(pasteable(text)), err=True)  # noqa: TID251


def draw(lines: Sequence[str]) -> None:
    """Print our own drawing, including colours."""
    click.echo("\n".join(lines))  # noqa: TID251


def harmless(text: str) -> str:
    """Return text from any source, made safe to print. Tabs stay, because they separate columns."""
    return "\t".join(clean(part) for part in redacted(text).split("\t"))


def print_json(value: object) -> None:
    """Print one line of JSON."""
    click.echo(json_line(value))  # noqa: TID251


def print_result(value: object, lines: Sequence[str], *, as_json: bool) -> None:
    """Print the result of a command: `value` as JSON, or `lines`."""
    if as_json:
        print_json(value)
    else:
        print_lines(lines)


def picked(value: object, *names: str) -> dict[str, Any]:
    """Return these attributes of `value`, for JSON."""
    return {name: getattr(value, name) for name in names}


def json_line(value: object) -> str:
    """Return `value` as one line of JSON that a screen cannot interpret."""
    import msgspec  # noqa: PLC0415 - only what is used

    return visible_json(redacted(msgspec.json.encode(value).decode()))


def visible_json(encoded: str) -> str:
    """Return the JSON with characters that a screen would interpret or hide as `\\uXXXX`."""
    return _PERHAPS_UNSEEN.sub(_escaped, encoded)


def _escaped(match: re.Match[str]) -> str:
    is_seen = match[0] == "\n" or not is_hidden(match[0])
    return match[0] if is_seen else json.dumps(match[0])[1:-1]


def folded(text: str, width: int | None, indent: str = "", first: str | None = None) -> str:
    """Wrap `text` to `width` columns, or return one line if `width` is None.

    Code in backticks and links stay on one line, so that they can be pasted. `first` replaces
    `indent` on the first line.
    """
    initial = indent if first is None else first
    text = pasteable(text)
    if width is None:
        return initial + text
    room = max(min(width, READABLE), len(indent) + NARROWEST)
    long = room - max(len(initial), len(indent))
    joined = _CODE.sub(_joined, text if text.isascii() else _padded(text))
    lines = textwrap.fill(
        joined,
        room,
        initial_indent=initial,
        subsequent_indent=indent,
        break_long_words=any("https://" not in it for it in joined.split() if len(it) > long),
        break_on_hyphens=False,
    )
    return lines.replace(_HALF, "").replace(_JOINT, " ")


def _joined(code: re.Match[str]) -> str:
    return code[0].replace(" ", _JOINT)


def _padded(text: str) -> str:
    """Return `text` with as many characters as it takes columns on a screen."""
    # Before the character, so that a line break between the two makes the line too short, not too
    # long.
    return "".join(_HALF * (cells.width(c) - 1) + c for c in text)


def fields(pairs: Sequence[tuple[str, str]], width: int | None, indent: str = "  ") -> list[str]:
    """Return one line per pair of name and text, with the texts aligned."""
    room = max((len(name) for name, _ in pairs), default=0) + len(indent) + _GAP
    return [folded(text, width, " " * room, f"{indent}{name}".ljust(room)) for name, text in pairs]


class Column(NamedTuple):
    heading: str
    least: int
    """Minimum width."""
    keeps_end: bool = False
    """Cut the beginning instead of the end if it does not fit, as for paths."""
    number: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the heading and the `rows` in aligned columns, within `width` if possible.

    If the table is too wide, the widest column shrinks first.
    """
    lines = [[column.heading for column in columns], *rows]
    sizes = [max(map(cells.width, column)) for column in zip(*lines, strict=True)]
    excess = sum(sizes) + _GAP * (len(sizes) - 1) - width
    for _ in range(excess):
        spare = [i for i, column in enumerate(columns) if sizes[i] > column.least]
        if not spare:
            break
        sizes[max(spare, key=lambda i: sizes[i])] -= 1
    return [(" " * _GAP).join(map(_cut, line, sizes, columns)).rstrip() for line in lines]


def _cut(text: str, width: int, column: Column) -> str:
    """Return `text` in exactly `width` columns of the screen. An ellipsis marks a cut."""
    if cells.width(text) <= width and column.number:
        return text.rjust(width)
    if cells.width(text) > width and column.keeps_end:
        while cells.width(text) >= width:
            text = text[1:]
        text = f"…{text}"
    return cells.pad(cells.fit(text, width), width)
