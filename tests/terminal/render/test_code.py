"""Code is highlighted in its language, also when it arrives in parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from rich.console import Console
from rich.text import Text

from segue.terminal.render.markdown import Highlighter
from tests.terminal.render.samples import code_lines

_CONSOLE = Console()
PYTHON = '''\
"""A module.

def not_code(): it is text
    return 'and stays text'

for as many lines as it takes.
"""

import os


def first() -> str:
    """One."""
    return 'a'  # why


def second() -> int:
    text = """

unindented, but still text
if it were not, this would be code

"""
    return len(text)


class Third:
    number = 3
'''


def colours(lines: list[Text]) -> list[list[str]]:
    """The style of each character."""
    return [
        [str(line.get_style_at_offset(_CONSOLE, n)) for n in range(len(line))] for line in lines
    ]


@pytest.mark.parametrize("size", [1, 3, 7, 12])
def test_code_highlighted_in_parts_has_the_colours_of_the_whole(size: int):
    lines = tuple(PYTHON.split("\n"))
    parts = Highlighter("python")
    seen = [
        line
        for start in range(0, len(lines), size)
        for line in parts.take(lines[start : start + size])
    ]
    assert colours(seen) == colours(Highlighter("python").take(lines))


def test_the_context_kept_for_the_next_part_stays_short():
    highlighter = Highlighter("python")
    for n in range(300):
        highlighter.take((f"def f{n}():", f"    return {n}", "", ""))
    assert len(highlighter._before) < 500
    for _ in range(40):
        highlighter.take(("x = '''",) + ("y" * 20,) * 24)
    assert len(highlighter._before) < 2000


def test_peeking_at_the_next_lines_changes_nothing():
    looked, other = Highlighter("python"), Highlighter("python")
    for each in (looked, other):
        each.take(('x = """',))
    assert colours(looked.peek(("text",))) == [["green"] * 4]
    assert colours(looked.take(("text",))) == colours(other.take(("text",)))


@pytest.mark.parametrize("language", ["", "nonsense", "{.foo}", "../../x", "console"])
def test_code_in_an_unknown_language_has_no_colours(language: str):
    (line,) = Highlighter(language).take(("import os",))
    assert line.plain == "import os"
    assert set(*colours([line])) == {"none"}


@pytest.mark.parametrize("language", ["Python", "python title=x", "{.python}", "py3"])
def test_a_language_is_recognised_in_any_spelling(language: str):
    assert colours(Highlighter(language).take(("import os",)))[0][0] == "magenta"


def test_a_very_long_line_is_shown_without_colours():
    lines = Highlighter("json").take(('"' + "x" * 3000 + '"',))
    assert set(*colours(lines)) == {"none"}


@settings(max_examples=20)
@given(code_lines, code_lines)
def test_highlighting_does_not_change_the_text(first: list[str], second: list[str]):
    highlighter = Highlighter("python")
    seen = [*highlighter.take(tuple(first)), *highlighter.take(tuple(second))]
    assert [line.plain for line in seen] == [*first, *second]
