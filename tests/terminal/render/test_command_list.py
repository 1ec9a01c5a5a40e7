"""/help shows every command in the available width."""

from __future__ import annotations

import pytest

from segue.commands.base import Category, Command, CommandContext
from segue.terminal.render.prompt import command_list
from segue.terminal.render.screen import Screen
from tests.terminal.render.samples import plain


async def _run(scene: CommandContext, arguments: str) -> None: ...


_LONG = "Go back before your last message, as if it had never been said"
COMMANDS = (
    Command("new", Category.SESSION, "Begin another session here", _run, "[title]"),
    Command("undo", Category.CONVERSATION, _LONG, _run, "[n]"),
    Command("handoff", Category.SESSION, "Move this session", _run, "<platform>"),
    Command("quit", Category.PROGRAM, "Leave", _run),
)


def test_commands_are_listed_in_columns_under_their_category():
    assert plain(command_list(COMMANDS, Screen(width=60))) == [
        "Session",
        "  /new [title]         Begin another session here",
        "  /handoff <platform>  Move this session",
        "",
        "Conversation",
        "  /undo [n]            Go back before your last message, as",
        "                       if it had never been said",
        "",
        "Program",
        "  /quit                Leave",
    ]


def test_a_summary_goes_below_its_command_if_there_is_no_room_beside_it():
    assert plain(command_list(COMMANDS, Screen(width=24)))[:4] == [
        "Session",
        "  /new [title]",
        "    Begin another",
        "    session here",
    ]


@pytest.mark.parametrize("width", [0, 20, 45, 80, 200])
def test_no_line_is_too_wide_and_no_command_is_missing(width: int):
    lines = plain(command_list(COMMANDS, Screen(width=width)))
    assert max(map(len, lines)) <= min(max(width, 20), 100)
    assert all(any(f"/{command.name}" in line for line in lines) for command in COMMANDS)


def test_an_empty_command_list_prints_nothing():
    assert command_list((), Screen()) == []
