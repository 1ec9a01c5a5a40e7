"""Code that is too long for one message is sent as a file."""

from __future__ import annotations

import dataclasses

import pytest

from segue.platforms.base import Capabilities, Dialect, Part, Upload
from segue.platforms.markup import parts, pieces

ABLE = Capabilities(files=True, code_files=True, length=200, dialect=Dialect.SLACK)
LINES = "\n".join(f"line {number} <&>" for number in range(40))


def shown(markdown: str) -> list[str]:
    return [it.name if isinstance(it, Upload) else it.plain for it in pieces(markdown, ABLE)]


def test_long_code_is_a_file_between_the_words_around_it():
    found = pieces(f"Here:\n\n```python\n{LINES}\n```\n\nDone.", ABLE)
    assert found == [
        Part("Here:", "Here:"),
        Upload("code-1.py", "text/plain", LINES.encode()),
        Part("Done.", "Done."),
    ]


def test_an_answer_of_only_long_code_starts_with_a_message():
    assert shown(f"```\n{LINES}\n```") == ["code-1.txt", "code-1.txt"]


def test_every_long_block_is_a_file_and_short_ones_stay():
    text = f"a\n```go\n{LINES}\n```\n```sh\nls\n```\n~~~Rust\n{LINES}\n~~~"
    assert shown(text) == ["a", "code-1.go", "ls", "code-2.rs"]


@pytest.mark.parametrize(
    "text",
    ["", "words " * 100, f"```\n{LINES[:100]}\n```", f"> ```\n{LINES[:50]}", "```"],
)
def test_an_answer_without_long_code_is_split_as_usual(text: str):
    assert pieces(text, ABLE) == parts(text, ABLE)


def test_long_code_is_split_on_a_platform_without_code_files():
    able = dataclasses.replace(ABLE, code_files=False)
    text = f"```\n{LINES}\n```"
    assert pieces(text, able) == parts(text, able)


def test_a_lone_surrogate_in_code_is_replaced():
    [_, file] = pieces(f"```\n{LINES}\ud800\n```", ABLE)
    assert isinstance(file, Upload)
    assert "\ufffd" in file.data.decode()
