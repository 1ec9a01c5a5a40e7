"""An answer is printed while it streams, each part once, as the whole would be printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from segue.terminal.render import cells, markdown, stream
from segue.terminal.render.clean import clean
from segue.terminal.render.screen import Screen
from tests.harness.line_counts import growth
from tests.terminal.render.samples import answers, nonsense, plain, streamed
from tests.terminal.render.test_clean import FORBIDDEN

SCREEN = Screen(width=60)
PLAIN = Screen(width=60, styled=False)
ANSWER = (Path(__file__).parent / "answer.md").read_text()
# Bold, dim, italic, underlined, struck through, and six of the sixteen colours.
CALM = {"0", "1", "2", "3", "4", "9", "31", "32", "33", "34", "35", "36"}

slowly = settings(max_examples=settings().max_examples // 3)


@slowly
@given(answers | nonsense, st.integers(1, 30), st.sampled_from([20, 40, 200]))
@example("Intro:\n1. a\n1. b\n\n   more of b\n1. c\n- d\n* e", 1, 40)
@example("a\n***\nTitle\n===\nb\n# c\nd\n```\ne\n\n\n```\nf", 1, 40)
@example("- a\n  ```\n  b\n\n  c\n  ```\n- d\n\n\n- e\n\nf", 3, 40)
@example("> a\nlazy\n> b\n\n> c\n- d\nlazy\n2. e", 1, 40)
@example("x\n| a | b |\n|---|---|\n| 1 | 2 |\ny\n- z", 1, 40)
@example("1. a\n```sh\nunindented\n```\n2. b", 1, 40)
@example("1. a\n   ```\nunindented\n\n- ```\n- b", 1, 40)
@example("-\n\n  no item\n- b\n\n    - c\n\n        d", 1, 40)
@example("a\n    b\n\n    c\n\n\n    d\ne", 1, 40)
@example("[x]\n\n[x]: http://example.com", 4, 40)
@example("   \n|---|---|\n- a\n      ```\n===\n7. seven", 1, 40)
def test_the_streamed_parts_equal_the_whole_answer(text: str, step: int, width: int):
    screen = Screen(width=width)
    assert plain(streamed(text, screen, step)) == plain(markdown.render(clean(text), screen))


@slowly
@given(answers | nonsense, st.integers(1, 7), st.sampled_from([20, 79]), st.booleans())
def test_no_line_is_too_wide_or_has_control_characters(
    text: str, step: int, width: int, unicode: bool
):
    lines = streamed(text, Screen(width=width, unicode=unicode), step)
    asked = re.findall(r"\x1b\[([0-9;]*)m", "".join(lines))
    assert {part for parts in asked for part in parts.split(";")} <= CALM
    for line in plain(lines):
        assert cells.width(line) <= width
        assert not FORBIDDEN.search(line)
        assert "\n" not in line


@slowly
@given(answers | nonsense, st.integers(10, 60))
def test_the_live_part_fits_and_reading_it_changes_nothing(text: str, step: int):
    answer = stream.begin(SCREEN)
    lines: list[str] = []
    for start in range(0, len(text), step):
        lines += answer.feed(text[start : start + step])
        live = answer.live(5)
        assert len(live) <= 5
        assert answer.live(5) is live
        assert not FORBIDDEN.search("".join(plain(live)))
    assert lines + answer.end() == streamed(text, SCREEN, step)
    assert answer.live(5) == []


def test_a_paragraph_is_printed_at_the_blank_line_after_it():
    answer = stream.begin(SCREEN)
    assert answer.feed("One **wo") == []
    assert plain(answer.live(5)) == ["One **wo"]
    assert answer.feed("rd**\n") == []
    assert plain(answer.feed("\n")) == ["One word"]
    assert answer.feed("Two") == []
    assert answer.live(5) == ["", "Two"]
    assert answer.end() == ["", "Two"]


def test_a_heading_is_printed_at_once():
    assert plain(stream.begin(SCREEN).feed("# Title\n")) == ["Title"]


def test_a_list_item_is_printed_when_the_next_item_or_block_starts():
    answer = stream.begin(SCREEN)
    assert plain(answer.feed("1. one\n1. two\n")) == ["1. one"]
    assert plain(answer.live(5)) == ["2. two"]
    assert answer.feed("\n") == []
    assert plain(answer.feed("A")) == ["2. two"]
    assert plain(answer.feed("fter\n\n")) == ["", "After"]


def test_a_table_is_printed_when_it_is_complete():
    answer = stream.begin(SCREEN)
    assert answer.feed("| a | b |\n|---|---|\n| 1 | 2 |\n") == []
    assert plain(answer.live(9))[0].split() == ["a", "b"]
    assert plain(answer.feed("\n"))[2].split() == ["1", "2"]


def test_long_code_is_printed_in_parts_and_not_buffered():
    answer = stream.begin(SCREEN)
    printed = answer.feed("```python\n")
    for n in range(500):
        printed += answer.feed(f"x{n} = {n}\n")
        assert len(printed) >= n - 50
    printed += answer.feed("```\n")
    assert plain(printed) == [f"  x{n} = {n}" for n in range(500)]


def test_a_partial_closing_fence_is_not_shown_as_code():
    answer = stream.begin(SCREEN)
    answer.feed("```\ncode\n``")
    assert plain(answer.live(5)) == ["  code"]


def test_the_live_part_of_a_long_block_is_its_end():
    answer = stream.begin(SCREEN)
    answer.feed(" ".join(map(str, range(100_000))))
    live = answer.live(3)
    assert len(live) == 3
    assert live[-1].endswith("99998 99999")
    answer = stream.begin(SCREEN)
    answer.feed("| n | m |\n|---|---|\n" + "".join(f"| {n} | x |\n" for n in range(10_000)))
    assert plain(answer.live(3))[-1].split() == ["9999", "x"]


def test_after_a_resize_lines_have_the_new_width():
    answer = stream.begin(SCREEN)
    text = "word " * 30
    wide = answer.feed(text + "\n\n")
    answer.feed(text)
    answer.resize(Screen(width=25))
    assert max(map(len, wide)) > 50
    assert max(map(len, answer.live(20))) <= 25
    assert max(map(len, answer.end())) <= 25


def test_without_styles_the_text_is_unchanged():
    answer = stream.begin(PLAIN)
    assert answer.feed("# Ti\x1b[3") == []
    assert answer.live(5) == ["# Ti"]
    assert answer.feed("1mtle\n\n- **a**\r\n[b](c)") == ["# Title", "", "- **a**"]
    assert answer.end() == ["[b](c)"]


@slowly
@given(answers, st.integers(1, 9))
def test_plain_lines_together_are_the_clean_text(text: str, step: int):
    assert "\n".join(streamed(text, PLAIN, step)) == clean(text).removesuffix("\n")


def test_plain_live_lines_are_cut_to_the_screen():
    answer = stream.begin(PLAIN)
    answer.feed("x" * 1000)
    assert answer.live(2) == ["x" * 60] * 2


def test_an_answer_is_rendered_in_linear_time():
    stream.warm()
    assert growth(lambda size: streamed(ANSWER[:2000] * size, SCREEN, 40), 1) < 1.2


@pytest.mark.parametrize("sign", ["[", "![", "*a ", "**a", "`a``b", ">", "- ", "[a](", "_a", "|a"])
def test_adversarial_text_is_rendered_in_linear_time(sign: str):
    stream.warm()
    assert growth(lambda size: streamed(sign * (size // len(sign)), SCREEN, 4), 200) < 1.5


def test_text_that_cannot_be_rendered_is_shown_unchanged_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(source: str, screen: Screen, *, number: int | None) -> list[str]:
        raise ValueError

    monkeypatch.setattr(markdown, "render", broken)
    answer = stream.begin(SCREEN)
    lines = answer.feed("# *a*\n\n- b\n- c")
    assert answer.live(5) == ["", "- b", "- c"]
    assert [*lines, *answer.end()] == ["# *a*", "", "- b", "- c"]
    assert len(caplog.records) == 1
    assert "ValueError" in caplog.text


def test_heavy_modules_are_imported_only_when_needed():
    script = (
        "import sys\n"
        "from segue.terminal.render import events, prompt, stream\n"
        "from segue.terminal.render.screen import Screen\n"
        "answer = stream.begin(Screen())\n"
        "answer.feed('a paragraph')\n"
        "heavy = {'rich', 'pygments', 'markdown_it', 'prompt_toolkit'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "stream.warm()\n"
        "assert {'rich.text', 'pygments.lexers', 'markdown_it'} <= set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_block_that_cannot_be_parsed_is_shown_unchanged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(source: str) -> list[object]:
        raise ValueError

    monkeypatch.setattr(markdown, "parse_blocks", broken)
    answer = stream.begin(SCREEN)
    lines = answer.feed("- *a*\n\nb\nc\n\n")
    assert plain(lines) == ["• a", "", "b", "c"]
    assert answer.end() == []
    assert len(caplog.records) == 1


def test_an_item_too_long_to_render_ends_at_a_blank_line():
    item = "- a\n" + "  b\n" * 6000
    assert streamed(item + "\nAfter", SCREEN, 1000) == [*item.splitlines(), "", "After"]
