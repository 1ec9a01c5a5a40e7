"""A tool call as the user sees it when asked to approve it, in the terminal, chats and the page.

Every character is visible, and no part can push the others out of sight: runs of blanks are
counted, long lines are cut in the middle, and of many lines the first and the last are shown. A
count marks each place where something was left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast
from unicodedata import east_asian_width

import msgspec
from msgspec import Struct

from segue.core.text import count, is_empty, visible
from segue.core.transcript import ToolCall

ROWS, COLUMNS = 24, 60
"""The space that a question takes in a chat."""
PAGE = 3000
"""Characters per page when the whole call is shown."""
_TAB = 4
_BLANK_LINES = 3
"""This many blank lines in a row, or more, are counted instead of shown."""
_SPACES = re.compile(" {32,}")
_TELLING = ("command", "url", "path", "pattern", "words", "to")
"""The arguments that identify a call. A call without them is shown with all its arguments."""


class Excerpt(Struct, frozen=True):
    text: str
    lines: int
    """The number of lines in the whole call."""
    is_whole: bool
    """True if nothing was left out or replaced by a count."""


class _Line(Struct, frozen=True):
    text: str
    stands_for: int = 1


def excerpt(what: str, *, rows: int = ROWS, columns: int = COLUMNS) -> Excerpt:
    """Return as much of `what` as fits into the given space: its beginning and its end."""
    lines = whole(what)
    longest = columns * max(1, rows // 4)
    cut = [_Line(_cut(line.text, longest), line.stands_for) for line in _folded(lines)]
    shown = [line.text for line in _ends(cut, rows, columns)]
    return Excerpt("\n".join(shown), len(lines), shown == lines)


def whole(what: str) -> list[str]:
    """Return every line of `what`, with hidden characters escaped."""
    return [line.expandtabs(_TAB) for line in visible(what).split("\n")]


def pages(what: str) -> list[str]:
    """Return all of `what` in pages. Only runs of blanks are replaced by a count."""
    made = [""]
    for line in _folded(whole(what)):
        for start in range(0, max(1, len(line.text)), PAGE):
            piece = line.text[start : start + PAGE]
            if made[-1] and len(made[-1]) + len(piece) > PAGE:
                made.append("")
            made[-1] += f"{piece}\n"
    return made


def _folded(lines: Iterable[str]) -> Iterator[_Line]:
    for blank, group in itertools.groupby(lines, is_empty):
        run = list(group)
        if blank and len(run) >= _BLANK_LINES:
            yield _Line(f"[{count(len(run), 'blank line')}]", len(run))
        else:
            yield from (_Line(_SPACES.sub(_counted, line)) for line in run)


def _counted(spaces: re.Match[str]) -> str:
    return f"[{count(len(spaces[0]), 'space')}]"


def _cut(line: str, longest: int) -> str:
    if _cells(line) <= longest:
        return line
    kept = longest // (2 if line.isascii() else 4)  # at either end
    return f"{line[:kept]}[{len(line) - 2 * kept:,} characters not shown]{line[-kept:]}"


def _ends(lines: Sequence[_Line], rows: int, columns: int) -> Sequence[_Line]:
    if sum(_rows(line, columns) for line in lines) <= rows:
        return lines
    first = _fitting(lines, rows // 2, columns)
    last = _fitting(lines[:first:-1], rows // 2, columns)
    hidden = sum(line.stands_for for line in lines[first : len(lines) - last])
    gap = _Line(f"[{count(hidden, 'line')} not shown]", hidden)
    return [*lines[:first], gap, *lines[len(lines) - last :]]


def _fitting(lines: Sequence[_Line], rows: int, columns: int) -> int:
    """Return how many of the lines fit, at least one."""
    used = itertools.accumulate(_rows(line, columns) for line in lines)
    return max(1, sum(1 for _ in itertools.takewhile(lambda total: total <= rows, used)))


def _rows(line: _Line, columns: int) -> int:
    return max(1, -(-_cells(line.text) // columns))


def _cells(line: str) -> int:
    """Return the most columns that the line can take."""
    if line.isascii():
        return len(line)
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in line)


def telling(call: ToolCall) -> list[str]:
    """The arguments that identify the call, for a line about it. Unlike an excerpt, it may leave
    out anything."""
    try:
        given: object = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return [call.arguments]
    arguments = cast("Mapping[str, object]", given)
    found = [_written(arguments[name]) for name in _TELLING if name in arguments]
    return found or ["  ".join(f"{name}: {_written(value)}" for name, value in arguments.items())]


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
