"""The status line shows the most important fields in one line, on any width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.session import Usage
from segue.terminal.render import cells
from segue.terminal.render.prompt import status_line
from segue.terminal.render.screen import Screen
from tests.terminal.render.test_clean import FORBIDDEN, text

TITLE = "Fix the flaky tests of the store"


def line(width: int, title: str = TITLE, where: str = "terminal", spent: int = 122_345) -> str:
    return status_line(
        title=title,
        model="anthropic/claude-x",
        usage=Usage(input=spent),
        where=where,
        screen=Screen(width=width),
    )


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (100, "Fix the flaky tests of the store · anthropic/claude-x · 122k tokens · terminal"),
        (70, "Fix the flaky tests of… · anthropic/claude-x · 122k tokens · terminal"),
        (60, "Fix the flaky t… · anthropic/claude-x · terminal"),
        (40, "Fix the flaky t… · claude-x · terminal"),
        (30, "Fix the flaky t… · claude-x"),
        (20, "Fix the flaky tests…"),
    ],
)
def test_the_least_important_fields_are_dropped_first(width: int, expected: str):
    assert line(width) == expected


def test_unknown_fields_are_left_out():
    assert line(80, where="", spent=0) == "Fix the flaky tests of the store · anthropic/claude-x"
    assert line(20, title="") == "claude-x · terminal"


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        (999, "999"), (1000, "1.0k"), (9949, "9.9k"), (9950, "10k"), (999_499, "999k"),
        (999_500, "1.0M"), (12_345_678, "12M"),
    ],
)  # fmt: skip
def test_tokens_are_shown_in_few_digits(spent: int, expected: str):
    assert f" {expected} tokens " in line(100, spent=spent)


@given(text, text, st.integers(0, 120))
def test_the_status_line_never_wraps(title: str, where: str, width: int):
    output = line(width, title, where)
    assert cells.width(output) <= max(width, 20)
    assert not FORBIDDEN.search(output)
    assert "\n" not in output
