"""Rendering takes work in proportion to the text: in a chat, in the terminal and on the page.

The tests of each renderer cover signs that are repeated, such as brackets and asterisks.

Work is counted in calls of functions, so that every machine gives the same answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from segue.platforms.base import Dialect, Unit
from segue.platforms.markup import parts
from segue.terminal.render.screen import Screen
from segue.web import render
from tests.platforms.markup_readers import capabilities
from tests.terminal.render.samples import streamed

SCREEN = Screen(width=80)
RENDERERS: dict[str, Callable[[str], object]] = {
    "chat": lambda text: parts(text, capabilities(Dialect.TELEGRAM, 400, Unit.UTF16)),
    "terminal": lambda text: streamed(text, SCREEN, 50),
    "page": render.html,
}
TEXTS: dict[str, Callable[[int], str]] = {
    "a long table": lambda n: "| a | b |\n|--|--|\n" + "| a | b |\n" * (n // 10),
    "a wide table": lambda n: "\n".join(f"|{c * (n // 10)}" for c in ("a|", "-|", *["b|"] * 3)),
    "quotes in a quote": lambda n: "> > ```\n> > x\n> b\n" * (n // 18),
    "lists in a quote": lambda n: "> - a\n>   > b\n> c\n" * (n // 19),
    "items": lambda n: "- a\n  1. b\n" * (n // 11),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("renderer", RENDERERS)
def test_four_times_the_text_takes_four_times_the_work(renderer: str, text: str):
    render, write = RENDERERS[renderer], TEXTS[text]
    render(write(100))  # imports and caches
    little, much = calls(render, write(500)), calls(render, write(2000))
    assert much < 5 * little


def test_a_table_of_208_kb_is_shown_unchanged_in_the_terminal():
    table = "| a | b |\n|--|--|\n" + "| a | b |\n" * 20_800
    streamed("warm", SCREEN, 50)
    assert streamed(table, SCREEN, 10_000) == table.splitlines()
    assert calls(lambda text: streamed(text, SCREEN, 10_000), table) < 10 * len(table)


def calls(work: Callable[[str], object], text: str) -> int:
    """The number of function calls and returns in `work(text)`."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        work(text)
    finally:
        sys.setprofile(None)
    return count
