"""The list of commands for /help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

from segue.chat.render import cells
from segue.chat.render.screen import Screen, Style

_LEAST_SUMMARY = 30
"""Columns. With less room, a summary goes under its command instead of beside it."""
_INDENT = "  "


class Listed(Protocol):
    """The parts of a command that the list shows."""

    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def category(self) -> str: ...


def command_list(commands: Iterable[Listed], screen: Screen) -> list[str]:
    """Return each category with its commands, both in order of first appearance."""
    listed = list(commands)
    order = {command.category: n for n, command in reversed(list(enumerate(listed)))}
    listed.sort(key=lambda command: order[command.category])
    width = screen.readable
    column = max((cells.width(_usage(command)) for command in listed), default=0)
    beside = width - column - 2 * len(_INDENT) >= _LEAST_SUMMARY
    lines: list[str] = []
    for category, group in groupby(listed, key=lambda command: command.category):
        lines += [""] if lines else []
        lines.append(screen.paint(category, Style.BOLD))
        for command in group:
            lines += (
                _beside(command, column, width, screen)
                if beside
                else _under(command, width, screen)
            )
    return lines


def _usage(command: Listed) -> str:
    return f"/{command.name} {command.arguments}".rstrip()


def _beside(command: Listed, column: int, width: int, screen: Screen) -> Sequence[str]:
    first, *more = cells.wrap(command.summary, width - column - 2 * len(_INDENT))
    used = _painted(command, screen) + " " * (column - cells.width(_usage(command)))
    space = " " * column
    return [f"{_INDENT}{used}{_INDENT}{first}", *(f"{_INDENT}{space}{_INDENT}{m}" for m in more)]


def _under(command: Listed, width: int, screen: Screen) -> Sequence[str]:
    summary = cells.wrap(command.summary, width - 2 * len(_INDENT))
    used = [
        screen.paint(part, Style.CYAN) for part in cells.wrap(_usage(command), width - len(_INDENT))
    ]
    return [*(f"{_INDENT}{part}" for part in used), *(f"{_INDENT}{_INDENT}{s}" for s in summary)]


def _painted(command: Listed, screen: Screen) -> str:
    name, _, arguments = _usage(command).partition(" ")
    return f"{screen.paint(name, Style.CYAN)} {arguments}".rstrip()
