"""The cost of rendering an answer for a chat and for the web page, relative to parsing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from markdown_it import MarkdownIt

from benchmarks.alternation import by_turns, processor
from benchmarks.figures import Base, Figure, milliseconds, progress
from segue.core.markdown import LANGUAGES
from segue.platforms.base import Capabilities, Dialect, Unit
from segue.platforms.markup import parts
from segue.web import render
from segue.web.render import LONGEST

_SECTION = (
    "## A section\n\nSome *text* with `code` and a [link](https://example.com/a_b), which goes on "
    "for a while. It has more sentences than one.\n\n- an item\n- **another** item\n\n"
    "```python\nfor x in range(10):\n    print(x)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
_LENGTH = 100_000
_BEYOND = 3.0
"""The maximum ratio of rendering time to parsing time."""
_UNITS = ("a\n", "@a\n", "a.", "a::", "<!--", '"', "(")
"""Code that is slow to highlight."""
_WORST = 15.0
"""The maximum ratio of the worst of it to reading a long answer."""
_MUCH = 40
"""The number of code blocks in one answer."""


def measure(*, quick: bool) -> Iterator[Figure]:
    progress("rendering: answers")
    answer = (_SECTION * (_LENGTH // len(_SECTION) + 1))[:_LENGTH]
    parser = MarkdownIt("commonmark").enable("table")
    ways: dict[str, Callable[[], object]] = {"": lambda: parser.parse(answer)}
    for dialect in (Dialect.MARKDOWN, Dialect.MATRIX):
        able = Capabilities(dialect=dialect, length=4000, unit=Unit.CHARACTERS)
        ways[dialect] = partial(parts, answer, able)
    costs = by_turns({name: partial(processor, way) for name, way in ways.items()}, 3)
    base = Base(name=f"parsing it, {_LENGTH:,} characters", value=costs.pop(""))
    for dialect, cost in costs.items():
        yield milliseconds(f"rendering an answer in {dialect}", cost, base, _BEYOND)
    progress("rendering: code")
    languages = sorted(LANGUAGES)[:: 5 if quick else 1]
    worst = max(_code(language, unit) for language in languages for unit in _UNITS)
    yield milliseconds("page: code that is made to take long, the worst", worst, base, _WORST)
    block = "```java\n" + "a\n" * 1000 + "```\n"
    one, many = _best(lambda: render.html(block)), _best(lambda: render.html(block * _MUCH))
    yield Figure(
        name=f"page: {_MUCH} blocks of code against one", value=many / one, unit="×", target=_MUCH
    )


def _code(language: str, unit: str) -> float:
    code = (unit * LONGEST)[: LONGEST - 1]
    return _best(lambda: render.html(f"`````{language}\n{code}\n`````"), 1)


def _best(run: Callable[[], object], times: int = 3) -> float:
    return min(processor(run) for _ in range(times))
