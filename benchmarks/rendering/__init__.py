"""The cost of rendering an answer for a chat and for the web page, relative to parsing it."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator

from markdown_it import MarkdownIt

from benchmarks.figures import Figure, milliseconds, progress
from segue.core.lexers import LANGUAGES
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
_WORST = 2000.0
_MUCH = 40
"""The number of code blocks in one answer."""


def measure(*, quick: bool) -> Iterator[Figure]:
    progress("rendering: answers")
    yield from _answers()
    progress("rendering: code")
    languages = sorted(LANGUAGES)[:: 5 if quick else 1]
    worst = max(_code(language, unit) for language in languages for unit in _UNITS)
    yield milliseconds("page: code that is made to take long, the worst", worst, _WORST)
    block = "```java\n" + "a\n" * 1000 + "```\n"
    one, many = _best(lambda: render.html(block)), _best(lambda: render.html(block * _MUCH))
    yield Figure(
        name=f"page: {_MUCH} blocks of code against one", value=many / one, unit="×", target=_MUCH
    )


def _answers() -> Iterator[Figure]:
    answer = (_SECTION * (_LENGTH // len(_SECTION) + 1))[:_LENGTH]
    parser = MarkdownIt("commonmark").enable("table")
    reading = _best(lambda: parser.parse(answer))
    yield milliseconds(f"reading an answer of {_LENGTH:,} characters", reading)
    for dialect in (Dialect.MARKDOWN, Dialect.MATRIX):
        able = Capabilities(dialect=dialect, length=4000, unit=Unit.CHARACTERS)
        rendering = _best(lambda able=able: parts(answer, able))
        name = f"rendering it in {dialect}, against reading it"
        yield Figure(name=name, value=rendering / reading, unit="×", target=_BEYOND)


def _code(language: str, unit: str) -> float:
    code = (unit * LONGEST)[: LONGEST - 1]
    return _best(lambda: render.html(f"`````{language}\n{code}\n`````"), 1)


def _best(run: Callable[[], object], times: int = 3) -> float:
    return min(timeit.repeat(run, number=1, repeat=times))
