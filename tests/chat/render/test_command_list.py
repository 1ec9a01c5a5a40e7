"""/help shows every command in the room that there is."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from segue.chat.render.command_list import command_list
from segue.chat.render.screen import Screen
from tests.chat.render.samples import plain


class Listed(NamedTuple):
    name: str
    arguments: str
    summary: str
    category: str


COMMANDS = (
    Listed("new", "[title]", "Begin another session here", "Session"),
    Listed("undo", "[n]", "Go back before your last message, as if it had never been said", "Talk"),
    Listed("handoff", "<platform>", "Move this session to another platform", "Session"),
    Listed("quit", "", "Leave", "Program"),
)


def test_commands_stand_in_columns_under_their_category():
    assert plain(command_list(COMMANDS, Screen(width=60))) == [
        "Session",
        "  /new [title]         Begin another session here",
        "  /handoff <platform>  Move this session to another platform",
        "",
        "Talk",
        "  /undo [n]            Go back before your last message, as",
        "                       if it had never been said",
        "",
        "Program",
        "  /quit                Leave",
    ]


def test_where_there_is_no_room_beside_a_command_its_summary_stands_under_it():
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


def test_without_commands_there_is_nothing():
    assert command_list((), Screen()) == []
