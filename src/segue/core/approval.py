"""What the agent may do without asking, and how a question about a tool call is shown.

A call is shown in the terminal, in chats and on the page as an excerpt of its description. Every
character is visible, and no part can push the others out of sight. The head of the description
comes first, and only a line that would fill the space alone is cut, in the middle. What is left of
the space is for the rest: runs of blanks are counted, long lines are cut in the middle, and of many
lines the first and the last are shown. A count marks each place where something was left out.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import cast
from unicodedata import east_asian_width

import msgspec
from msgspec import Struct

from segue.core.text import count, is_empty, visible
from segue.core.transcript import ToolCall


class Policy(StrEnum):
    """How much the agent may do without asking."""

    ASK = "ask"
    ALLOW_LIST = "allow-list"
    AUTO = "auto"


class Answer(StrEnum):
    """The user's answer to a tool call."""

    ONCE = "once"
    SESSION = "session"
    """Allow this exact call for the rest of the session."""
    NEVER = "never"
    MISSING = "missing"
    """There was no user to ask, or no answer in time. Nothing runs. Never stored."""


class Description(Struct, frozen=True):
    """What a call will do, in words for the user, escaped with `visible`."""

    head: str
    """What the user must see whatever else the call says: its kind, its target, and what it
    permits, in lines in this order. The model decides nothing about their number or order."""
    rest: str = ""

    @classmethod
    def of(cls, text: str) -> Description:
        """A description whose first line is its head."""
        head, _, rest = text.partition("\n")
        return cls(head, rest)

    def __str__(self) -> str:
        return f"{self.head}\n{self.rest}" if self.rest else self.head


Approve = Callable[[ToolCall, Description, str], Awaitable[Answer]]
"""Asks the user to approve one exact call.

Takes the call, a description of what it will do, and its fingerprint, which also covers the file
that the call is bound to. The answer applies to that fingerprint only.
"""


def plain_words(command: str) -> list[str]:
    """Split a command that consists only of plain words. Return an empty list if the shell would
    interpret any of it, as in `git status; rm -r .`, or if the user could not see all of it."""
    if not command.isprintable() or any(c in command for c in ";&|<>`$(){}*?[]~!#\\"):
        return []
    try:
        return shlex.split(command)
    except ValueError:  # an unclosed quotation mark
        return []


# Excerpts


ROWS = 20
COLUMNS = 36
"""The space that a question takes in a chat. A phone shows so much at once."""
LEAST_ROWS = 8
LEAST_COLUMNS = 38
"""The least space for a question: what a terminal of 12 rows and 40 columns has inside the frame.
"""
_HEAD_ROWS = 6
"""The most rows that one line of a head takes."""
_TAB = 4
_BLANK_LINES = 3
"""This many blank lines in a row, or more, are counted instead of shown."""
_SPACES = re.compile(" {32,}")
_IDENTIFYING = ("command", "url", "path", "pattern", "words", "to")
"""The arguments that identify a call. A call without them is shown with all its arguments."""


class Excerpt(Struct, frozen=True):
    text: str
    lines: int
    """The number of lines in the whole call."""
    is_whole: bool
    """True if nothing was left out, except runs of blanks, which are counted. Only then may the
    user allow the call. Otherwise they see all of it first."""


class _Line(Struct, frozen=True):
    text: str
    stands_for: int = 1


def excerpt(what: Description, *, rows: int = ROWS, columns: int = COLUMNS) -> Excerpt:
    """Return as much of `what` as fits into the given space: its head, and the beginning and the
    end of the rest."""
    head = _lines(what.head)
    rest = _lines(what.rest) if what.rest else []
    least = max(1, rows // 8) if rest else 0
    shown_head = _head(head, rows - least, columns)
    left = max(1, rows - sum(_rows(line, columns) for line in shown_head))
    shown = [*shown_head, *_ends(rest, left, columns)]
    return Excerpt(
        text="\n".join(line.text for line in shown),
        lines=sum(line.stands_for for line in (*head, *rest)),
        is_whole=shown == [*head, *rest],
    )


def fits_anywhere(head: Sequence[str], *, more: int = 0) -> bool:
    """Whether these lines of a head are shown uncut in the least space, above `more` others that
    may be cut, and the rest."""
    used = sum(_rows(_Line(line), LEAST_COLUMNS) for line in head)
    return used + more < LEAST_ROWS


def whole_lines(what: Description) -> list[str]:
    """Return every line of `what`, with hidden characters escaped."""
    return _escaped(str(what))


def full_text(what: str) -> str:
    """Return all of `what`. Only runs of blanks are replaced by a count."""
    return "\n".join(line.text for line in _lines(what))


def _escaped(text: str) -> list[str]:
    return [line.expandtabs(_TAB) for line in visible(text).split("\n")]


def _lines(text: str) -> list[_Line]:
    return list(_folded(_escaped(text)))


def _head(lines: Sequence[_Line], rows: int, columns: int) -> list[_Line]:
    """The lines of a head. The first ones take what they need, and leave a row to each of those
    after them."""
    shown: list[_Line] = []
    left = rows
    for after, line in zip(reversed(range(len(lines))), lines, strict=True):
        most = max(1, min(left - after, _HEAD_ROWS))
        if _rows(line, columns) > most:
            line = _Line(_short(line.text, columns * most), line.stands_for)
        shown.append(line)
        left -= _rows(line, columns)
    return shown


def _short(line: str, longest: int) -> str:
    """The line, cut to the length `longest`. Its beginning says more than its end."""
    mark = f"[{len(line):,} hidden]"
    room = max(0, longest - len(mark)) // (1 if line.isascii() else 2)
    end = room // 3
    start = room - end
    hidden = len(line) - start - end
    return f"{line[:start]}[{hidden:,} hidden]{line[len(line) - end :]}"


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
    kept = max(0, longest) // (2 if line.isascii() else 4)  # at either end
    end = line[len(line) - kept :]
    return f"{line[:kept]}[{len(line) - 2 * kept:,} characters not shown]{end}"


def _ends(lines: Sequence[_Line], rows: int, columns: int) -> Sequence[_Line]:
    """Those of the lines that fit. If not all do, long ones are cut, and if that is not enough,
    the first and the last are shown, with the number of the others."""
    if sum(_rows(line, columns) for line in lines) <= rows:
        return lines
    longest = columns * max(1, rows // 4)
    lines = [_Line(_cut(line.text, longest), line.stands_for) for line in lines]
    if sum(_rows(line, columns) for line in lines) <= rows:
        return lines
    room = rows - 1
    last = _fitting(lines[::-1], room // 2, columns)
    used = sum(_rows(line, columns) for line in lines[len(lines) - last :])
    first = _fitting(lines, room - used, columns)
    hidden = sum(line.stands_for for line in lines[first : len(lines) - last])
    gap = _Line(f"[{count(hidden, 'line')} not shown]", hidden)
    return [*lines[:first], gap, *lines[len(lines) - last :]]


def _fitting(lines: Sequence[_Line], rows: int, columns: int) -> int:
    """Return how many of the lines fit."""
    used = itertools.accumulate(_rows(line, columns) for line in lines)
    return sum(1 for _ in itertools.takewhile(lambda total: total <= rows, used))


def _rows(line: _Line, columns: int) -> int:
    return max(1, -(-_cells(line.text) // columns))


def _cells(line: str) -> int:
    """Return the most columns that the line can take."""
    if line.isascii():
        return len(line)
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in line)


def identifying_arguments(call: ToolCall) -> list[str]:
    """The arguments that identify the call, for a line about it. Unlike an excerpt, it may leave
    out anything."""
    try:
        given: object = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return [call.arguments]
    arguments = cast("Mapping[str, object]", given)
    found = [_written(arguments[name]) for name in _IDENTIFYING if name in arguments]
    return found or ["  ".join(f"{name}: {_written(value)}" for name, value in arguments.items())]


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
