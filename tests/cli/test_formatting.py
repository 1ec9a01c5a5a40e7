"""Times, numbers, sizes, and lines that fit."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from segue.cli.common import ago, size
from segue.core.text import count
from segue.terminal.output import Column, fields, folded, table, visible_json

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("back", "expected"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=23, minutes=59), "23 hours ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=29), "29 days ago"),
        (timedelta(days=31), "2026-10-16"),
    ],
)
def test_elapsed_time_is_written_in_words(back: timedelta, expected: str):
    assert ago(NOW - back, NOW) == expected


def test_a_count_of_one_is_in_the_singular():
    assert [count(n, "message") for n in (0, 1, 2, 12345)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "12,345 messages",
    ]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (999_400, "999 kB"),
        (999_600, "1.0 MB"),
        (84 * 10**9, "84 GB"),
        (5_000 * 10**12, "5,000 TB"),
    ],
)
def test_sizes_have_a_fitting_unit(number: int, expected: str):
    assert size(number) == expected


@pytest.mark.parametrize(
    "text", ["word " * 40, "日本語のタイトル" * 9, "👋🏽 hello " * 20, "x" * 300, "e\u0301" * 90]
)
@pytest.mark.parametrize("width", [24, 40, 80])
def test_folded_text_fits_the_width_and_loses_nothing(text: str, width: int):
    lines = folded(text, width, "    ", "> ").splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "".join("".join(lines).split()) == ">" + "".join(text.split())


def test_text_is_not_folded_without_a_terminal():
    assert folded("word " * 40, None, "    ", "> ") == "> " + "word " * 40
    assert fields([("a", "x"), ("long", "y " * 99)], None) == ["  a     x", "  long  " + "y " * 99]


def test_a_table_shortens_its_widest_column():
    columns = [Column("A", 3), Column("B", 3, keeps_end=True), Column("N", 1, number=True)]
    rows = [("short", "/a/very/long/path", "7"), ("x", "/", "12")]
    assert table(columns, rows, 80) == [
        "A      B                   N",
        "short  /a/very/long/path   7",
        "x      /                  12",
    ]
    assert table(columns, rows, 20) == [
        "A      B           N",
        "short  …ong/path   7",
        "x      /          12",
    ]
    assert table(columns, rows, 1)[1] == "sh…  …th  7", "no further than it may shrink"


def test_json_escapes_control_characters():
    value = "a\x1b[2J \x7f \x9b31m \u202e ü 日本 👋 \U000e0041 \u2028"
    shown = visible_json(json.dumps(value, ensure_ascii=False))
    assert shown == ('"a\\u001b[2J \\u007f \\u009b31m \\u202e ü 日本 👋 \\udb40\\udc41 \\u2028"')
    assert json.loads(shown) == value


def test_a_link_stays_on_one_line_and_other_long_words_do_not():
    link = f"https://example.com/{'x' * 90}"
    assert link in folded(f"Open {link} now.", 60, "  ").splitlines()[1]
    assert max(map(len, folded(f"See {'x' * 90} at https://example.com", 60).splitlines())) <= 60
