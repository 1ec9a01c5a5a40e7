"""Text that grows: its beginning and its end are bounded, and its end reads as in the whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from segue.platforms.base import Dialect, Unit
from segue.platforms.markup import parts
from segue.platforms.markup.growing import GrowingText
from tests.harness.line_counts import growth
from tests.platforms.markup_readers import capabilities

MOST = 400
TEXTS: dict[str, Callable[[int], str]] = {
    "a table": lambda n: "| a | b |\n|--|--|\n" + "| a | b |\n" * (n // 10),
    "a wide table": lambda n: "\n".join(f"|{c * (n // 10)}" for c in ("a|", "-|", *["b|"] * 3)),
    "code": lambda n: "```python\n" + "x = f(1)\n" * (n // 9),
    "one line": lambda n: "word " * (n // 5),
    "one word": lambda n: "x" * n,
    "paragraphs": lambda n: "Some words.\n\n" * (n // 13),
    "quotes": lambda n: "> " * (n // 2),
    "nested lists": lambda n: "".join("  " * (i % 50) + "- a\n" for i in range(n // 50)),
    "blank lines": lambda n: "\n" * n,
    "fences": lambda n: "```\n" * (n // 4),
}


def grown(text: str, size: int = 4) -> GrowingText:
    growing = GrowingText(MOST)
    for start in range(0, len(text), size):
        growing.add(text[start : start + size])
    return growing


@pytest.mark.parametrize("name", TEXTS)
def test_the_head_and_the_tail_are_bounded_and_the_whole_is_kept(name: str):
    text = TEXTS[name](5000)
    growing = grown(text)
    assert growing.whole == text
    assert growing.head == text[:MOST]
    assert len(growing.tail) <= MOST
    assert growing.tail.endswith(text[-50:])


@pytest.mark.parametrize("name", TEXTS)
def test_redrawing_a_growing_text_takes_work_in_proportion_to_it(name: str):
    def redraw_often(size: int) -> None:
        text = TEXTS[name](size)
        growing = GrowingText(MOST)
        for start in range(0, len(text), 4):
            growing.add(text[start : start + 4])
            assert len(growing.tail) <= MOST
            assert growing.head == text[: min(start + 4, MOST)]

    assert growth(redraw_often, 2000) < 1.5


def test_a_short_text_is_its_own_tail():
    assert grown("Some *words*.\n\nAnd more").tail == "Some *words*.\n\nAnd more"


def test_the_tail_of_a_table_has_its_header():
    tail = grown("Rows:\n\n| name | value |\n|--|--:|\n" + "| a | 1 |\n" * 500).tail
    assert tail.startswith("…\n\n| name | value |\n|--|--:|\n| a | 1 |\n")


@pytest.mark.parametrize("fence", ["```python", "~~~~", "  ```js", "> ```"])
def test_the_tail_of_code_has_its_fence(fence: str):
    tail = grown(f"Code:\n\n{fence}\n" + "x = 1\n\n" * 500).tail
    assert tail.startswith(f"…\n\n{fence}\n")


@pytest.mark.parametrize("end", ["```", "`````", "  ```"])
def test_the_tail_after_code_begins_with_a_block(end: str):
    tail = grown("```\n" + "x = 1\n" * 10 + f"{end}\n\n" + "Some words.\n\n" * 100).tail
    assert tail.startswith("…\n\nSome words.\n\n")


def test_a_row_of_dashes_is_no_table():
    tail = grown("a | b\n\n---\n\n" + "Some words.\n" * 100).tail
    assert tail.startswith("…\n\nSome words.\n")


def test_code_in_the_tail_is_rendered_as_code():
    tail = grown("```python\n" + "x = *1*\n" * 500).tail
    *_, last = parts(tail, capabilities(Dialect.TELEGRAM, 4096, Unit.UTF16))
    assert "<pre>" in last.text
    assert "<i>" not in last.text
