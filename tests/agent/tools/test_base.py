"""The description of each tool for the model, and errors about arguments."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agent.tools.base import Tool, ToolFailed, Workplace, clean, shorten
from segue.agent.tools.files import EDIT, FILES, LIST, READ, SEARCH, WRITE
from segue.agent.tools.memory import remember, search_sessions
from segue.agent.tools.messages import send_message
from segue.agent.tools.shell import shell
from segue.agent.tools.web import FETCH
from segue.core.text import visible
from segue.core.transcript import ToolCall
from segue.jobs.tools import (
    NOTHING_TO_REPORT,
    JobContext,
    change_job,
    list_jobs,
    make_job,
)
from segue.jobs.values import LOCAL
from tests.agent.tools.calls import question


async def never(*_: object) -> Any:
    raise AssertionError("nobody asked for it to be done")


NO_STORE: Any = never
HERE = JobContext(
    store=NO_STORE,
    owner="me",
    origin=None,
    deliver=(LOCAL,),
    cwd=None,
    zone=str,
    now=datetime.now,
)
SHELL = shell({})
SEARCH_SESSIONS, REMEMBER = search_sessions(never), remember(never)
NO_CHANNELS: Any = never
SEND = send_message(NO_CHANNELS)
JOBS = (list_jobs(NO_STORE, "me"), make_job(HERE), change_job(HERE))
TOOLS: tuple[Tool[Any], ...] = (
    SHELL,
    *FILES,
    FETCH,
    SEARCH_SESSIONS,
    REMEMBER,
    SEND,
    *JOBS,
    NOTHING_TO_REPORT,
)
TYPES = {"string", "integer", "number", "boolean", "array", "object"}
REQUIRED = {
    "shell": ["command"],
    "read_file": ["path"],
    "write_file": ["path", "content"],
    "edit_file": ["path", "old", "new"],
    "list_files": [],
    "search_files": ["pattern"],
    "fetch_page": ["url"],
    "search_sessions": ["words"],
    "remember": ["text"],
    "send_message": ["to", "text"],
    "list_jobs": [],
    "make_job": ["prompt"],
    "change_job": ["number"],
    "nothing_to_report": [],
}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_schema_is_a_plain_object_that_describes_each_argument(tool: Tool[Any]) -> None:
    schema = tool.spec.parameters
    assert schema["type"] == "object"
    assert schema["required"] == REQUIRED[tool.name]
    assert schema["additionalProperties"] is False
    for argument in schema["properties"].values():
        assert argument["type"] in TYPES
        assert argument["description"]
    whole = msgspec.json.encode(schema)
    assert b"$ref" not in whole
    assert b"anyOf" not in whole


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_provider_accepts_the_name_and_description_of_a_tool(tool: Tool[Any]) -> None:
    assert tool.spec.name == tool.name
    assert tool.name.isidentifier()
    assert tool.spec.description.endswith(".")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("{}", "missing required field `command`"),
        ("", "missing required field `command`"),
        ('{"command": 5}', "Expected `str`, got `int` - at `$.command`"),
        ('{"command": ""}', "length >= 1"),
        ('{"command": "ls", "seconds": 0}', "Expected `int` >= 1 - at `$.seconds`"),
        ('{"command": "ls", "seconds": 601}', "Expected `int` <= 600 - at `$.seconds`"),
        ('{"command": "ls", "cwd": "/"}', "unknown field `cwd`"),
        ('{"command": "ls"', "truncated"),
        ('["ls"]', "Expected `object`, got `array`"),
        ("null", "Expected `object`, got `null`"),
        ('{"command": "\ud800"}', "surrogates"),
        ('{"command": ' + "[" * 100_000, "Expected `str`"),
    ],
)
def test_invalid_arguments_are_refused_with_the_reason(arguments: str, complaint: str) -> None:
    with pytest.raises(ToolFailed) as failure:
        SHELL.parse(ToolCall("1", "shell", arguments))
    assert "do not fit shell" in str(failure.value)
    assert complaint in str(failure.value)


def test_the_middle_of_long_text_is_cut_and_counted() -> None:
    text = "a" * 60 + "b" * 1000 + "c" * 60
    short = shorten(text, 100)
    assert short == "a" * 50 + "\n[… 1,020 characters left out …]\n" + "c" * 50
    assert shorten(text, len(text)) == text


def test_control_and_hidden_characters_are_escaped() -> None:
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("ls\x1b[2K\rrm") == r"ls\x1b[2K\rrm"
    assert visible("\u202egnp.exe\u200b") == r"\u202egnp.exe\u200b"
    assert visible("ä 漢 🙂") == "ä 漢 🙂"


def test_a_lone_surrogate_is_replaced() -> None:
    assert clean("bad\udcff.txt") == "bad\ufffd.txt"


def test_the_user_is_shown_exactly_what_will_be_done(tmp_path: Path) -> None:
    place = Workplace(cwd=tmp_path)
    assert question(SHELL, place, command="ls\x1b[8m; rm x") == (
        f"run in {tmp_path}:\nls\\x1b[8m; rm x"
    )
    assert question(WRITE, place, path="a", content="1\n2") == f"write {tmp_path}/a:\n1\n2"
    assert question(EDIT, place, path="a", old="1", new="2") == (
        f"change {tmp_path}/a\nfrom:\n1\nto:\n2"
    )
    assert question(READ, place, path="a") == f"read {tmp_path}/a"
    assert question(LIST, place, pattern="*.py") == f"list {tmp_path}\n*.py"
    assert question(SEARCH, place, pattern="x+") == f"search {tmp_path} for\nx+"
    assert question(FETCH, place, url="http://a/\u202e") == r"fetch http://a/\u202e"
    assert question(SEARCH_SESSIONS, place, words="roses\x1b") == (
        r"search earlier sessions for roses\x1b"
    )
    assert question(REMEMBER, place, text="likes tea") == (
        "remember about you in every session:\nlikes tea"
    )
