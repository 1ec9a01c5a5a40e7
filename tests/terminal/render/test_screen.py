"""Capabilities of a screen, and the width of text in columns."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.terminal.render import cells
from segue.terminal.render.screen import Screen, Style, screen

line = st.text("ab 漢é🙂\u0301-")


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def terminal(encoding: str = "utf-8") -> Terminal:
    return Terminal(io.BytesIO(), encoding=encoding)


def test_a_terminal_has_colours():
    assert screen(terminal(), {"TERM": "xterm"}, 80) == Screen(width=80)


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": ""}, {}])
def test_a_dumb_terminal_is_plain(environ: dict[str, str]):
    assert not screen(terminal(), environ, 80).styled


@pytest.mark.parametrize(("value", "coloured"), [("1", False), ("", True)])
def test_no_color_removes_colours_and_nothing_else(value: str, coloured: bool):
    made = screen(terminal(), {"TERM": "xterm", "NO_COLOR": value}, 80)
    assert made == Screen(width=80, coloured=coloured)


@pytest.mark.parametrize(
    ("environ", "rewraps"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "tmux-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "linux"}, False),
    ],
)
def test_terminals_that_rewrap_their_lines_are_recognised(environ: dict[str, str], rewraps: bool):
    assert screen(terminal(), environ, 80).rewraps is rewraps


def test_a_pipe_is_plain():
    assert not screen(io.TextIOWrapper(io.BytesIO(), "utf-8"), {"TERM": "xterm"}, 80).styled


@pytest.mark.parametrize(
    ("encoding", "unicode"), [("utf-8", True), ("UTF8", True), ("ascii", False), ("latin-1", False)]
)
def test_an_output_that_is_not_utf_8_gets_ascii(encoding: str, unicode: bool):
    made = screen(terminal(encoding), {"TERM": "xterm"}, 80)
    assert made.unicode is unicode
    assert made.glyphs.more.isascii() is not unicode


def test_paint_closes_its_style_and_does_nothing_on_plain_screens():
    assert Screen().paint("x", Style.RED) == "\x1b[31mx\x1b[0m"
    assert Screen().paint("", Style.RED) == ""
    assert Screen(styled=False).paint("x", Style.RED) == "x"


def test_paint_without_colours_keeps_bold_and_dim():
    without = Screen(coloured=False)
    painted = [without.paint("x", style) for style in (Style.BOLD, Style.WARNING, Style.RED)]
    assert painted == ["\x1b[1mx\x1b[0m", "\x1b[1mx\x1b[0m", "x"]


def test_a_screen_of_width_zero_counts_as_narrow():
    assert Screen(width=0).columns == 20


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("👩\u200d🚀", 2)]
)
def test_width_is_in_columns(text: str, columns: int):
    assert cells.width(text) == columns


@given(line, st.integers(0, 12))
def test_fitted_text_fits_and_shows_that_it_was_cut(text: str, columns: int):
    fitted = cells.fit(text, columns)
    assert cells.width(fitted) <= columns
    assert fitted == text or not fitted or fitted.endswith("…")


@given(line, st.integers(2, 12))
def test_folding_loses_no_text(text: str, columns: int):
    parts = cells.fold(text, columns)
    assert "".join(parts) == text
    assert all(cells.width(part) <= columns for part in parts)


@given(line, st.integers(2, 12))
def test_wrapping_loses_only_spaces(text: str, columns: int):
    lines = cells.wrap(text, columns)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cells.width(each) <= columns for each in lines)


@given(line, st.integers(2, 30))
def test_wrapping_a_table_row_loses_only_spaces(text: str, columns: int):
    lines = cells.wrap_aligned(text, columns)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cells.width(each) <= columns for each in lines)


def test_a_row_of_a_table_continues_under_its_last_column():
    row = "read_file    runs at once   Read a part of a file"
    assert cells.wrap_aligned(row, 49) == [row]
    assert cells.wrap_aligned(row, 48) == [
        "read_file    runs at once   Read a part of a",
        " " * 28 + "file",
    ]
    assert cells.wrap_aligned(row, 40) == [
        "read_file    runs at once Read a part of",
        " " * 13 + "a file",
    ]
    assert cells.wrap_aligned("one two", 5) == ["one", "two"]


def test_words_are_not_split_if_they_fit():
    assert cells.wrap("one two  three", 7) == ["one two", "three"]
    assert cells.wrap("", 7) == [""]
