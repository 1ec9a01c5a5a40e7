"""The list of commands for /help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from segue.terminal.render import cells
from segue.terminal.render.screen import Screen, Style

if TYPE_CHECKING:
    from segue.commands.base import Command

_LEAST_SUMMARY = 30
"""Columns. With less room, a summary goes under its command instead of beside it."""
_INDENT = "  "


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
    gap, space = " " * (column - cells.width(command.usage)), " " * column
    lines = [f"{used}{gap}{_INDENT}{first}", *(f"{space}{_INDENT}{line}" for line in more)]
    return [f"{_INDENT}{line}" for line in lines]


def _under(command: Command, screen: Screen) -> Sequence[str]:
    summary = cells.wrap(command.summary, screen.readable - 2 * len(_INDENT))
    usage = cells.wrap(command.usage, screen.readable - len(_INDENT))
    used = [f"{_INDENT}{screen.paint(part, Style.CYAN)}" for part in usage]
    return used + [f"{_INDENT}{_INDENT}{part}" for part in summary]
