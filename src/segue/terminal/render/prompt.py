"""What belongs to the prompt: the line under it, with title, model, tokens used and place of the
conversation, and the list of commands for /help.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from segue.core.session import Usage
from segue.core.text import one_line
from segue.terminal.render import cells
from segue.terminal.render.screen import Screen, Style

if TYPE_CHECKING:
    from segue.commands.base import Command

_SHORT_TITLE = 16
"""Columns. A title is shortened to this width before anything else is left out."""
_THOUSAND = 1000
_LEAST_SUMMARY = 30
"""Columns. With less room, a summary goes under its command instead of beside it."""
_INDENT = "  "


def status_line(*, title: str, model: str, usage: Usage, where: str, screen: Screen) -> str:
    """Return one line without colours, never wider than the screen. Empty parts are left out.

    If the line is too long, first the title is shortened, then these are dropped in order: the
    tokens, the provider of the model, the place, the model.
    """
    title = one_line(title)
    model = one_line(model)
    where = one_line(where)
    spent = usage.input + usage.output
    tokens = f"{_short(spent)} tokens" if spent else ""
    between = f" {screen.glyphs.dot} "
    more = screen.glyphs.more
    brief = cells.fit(title, _SHORT_TITLE, more)

    def versions() -> Iterator[tuple[str, ...]]:
        yield title, model, tokens, where
        room = screen.columns - cells.width(between.join(filter(None, ("", model, tokens, where))))
        yield cells.fit(title, max(room - len(between), _SHORT_TITLE), more), model, tokens, where
        yield brief, model, where
        yield brief, _own_name(model), where
        yield brief, _own_name(model)

    for parts in versions():
        line = between.join(filter(None, parts))
        if cells.width(line) <= screen.columns:
            return line
    return cells.fit(title or model, screen.columns, more)


def _own_name(model: str) -> str:
    """Return the name without its provider."""
    return model.rpartition("/")[2]


def _short(count: int) -> str:
    """Return the count in about three digits: 950, 1.2k, 34k, 5.6M."""
    if count < _THOUSAND:
        return str(count)
    if count < 999_500:
        value = count / 1e3
        unit = "k"
    else:
        value = count / 1e6
        unit = "M"
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"


def command_list(commands: Iterable[Command], screen: Screen) -> list[str]:
    """Return each category with its commands, both in order of first appearance."""
    listed = list(commands)
    order = {command.category: n for n, command in reversed(list(enumerate(listed)))}
    listed.sort(key=lambda command: order[command.category])
    column = max((cells.width(command.usage) for command in listed), default=0)
    beside = screen.readable - column - 2 * len(_INDENT) >= _LEAST_SUMMARY
    lines: list[str] = []
    for category, group in groupby(listed, key=lambda command: command.category):
        lines += [""] if lines else []
        lines.append(screen.paint(category, Style.BOLD))
        for command in group:
            lines += _beside(command, column, screen) if beside else _under(command, screen)
    return lines


def _beside(command: Command, column: int, screen: Screen) -> Sequence[str]:
    first, *more = cells.wrap(command.summary, screen.readable - column - 2 * len(_INDENT))
    name, _, arguments = command.usage.partition(" ")
    used = f"{screen.paint(name, Style.CYAN)} {arguments}".rstrip()
    gap = " " * (column - cells.width(command.usage))
    space = " " * column
    lines = [f"{used}{gap}{_INDENT}{first}", *(f"{space}{_INDENT}{line}" for line in more)]
    return [f"{_INDENT}{line}" for line in lines]


def _under(command: Command, screen: Screen) -> Sequence[str]:
    summary = cells.wrap(command.summary, screen.readable - 2 * len(_INDENT))
    usage = cells.wrap(command.usage, screen.readable - len(_INDENT))
    used = [f"{_INDENT}{screen.paint(part, Style.CYAN)}" for part in usage]
    return used + [f"{_INDENT}{_INDENT}{part}" for part in summary]
