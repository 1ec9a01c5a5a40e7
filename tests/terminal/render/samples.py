"""Markdown as models write it, and malformed Markdown."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from segue.terminal.render import stream
from segue.terminal.render.screen import Screen

WORDS = (
    "a", "word", "**bold**", "*em*", "`code`", "~~gone~~", "[link](https://example.com/x)", "漢字",
    "👩\u200d🚀", "1986.", "x_y", "<b>", "&amp;", "\\*", "![alt](p.png)", "https://a.example/b",
    "שלום", "**open", "`tick", "*", "2*3*4", "a-very-long-word-that-has-to-be-cut-somewhere",
)  # fmt: skip
HARD = (
    "text", "- a", "* c", "1. one", "7. seven", "-", "1.", "> quote", ">", "> - q", "> ```",
    "# head", "###", "---", "***", "- - -", "===", "--", "```", "```py", "~~~", "````", "a | b",
    "|---|---|",
    "| a |", "|-|", "", "", "[x]: http://a", "[x]", "<div>", "-      code", "\t- tab", "- ```",
    "&#x202e;", "&#27;", "\x1b[31m", "\x1b]0;", "\r", "<http://a/%E2%80%AE>",
)  # fmt: skip
CODE = ("def f(x):", "    return 1", "", '"""', "# no heading", "- no item", "x = 'a'")

line = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
prose = st.lists(line, min_size=1, max_size=3).map(lambda lines: "text " + "\n".join(lines))
code_lines = st.lists(st.sampled_from(CODE), max_size=60)
fence = st.tuples(st.sampled_from(["", "python", "js", "nonsense", "sh -e"]), code_lines).map(
    lambda made: "\n".join([f"```{made[0]}", *made[1], "```"])
)
heading = st.tuples(st.integers(1, 6), line).map(lambda made: f"{'#' * made[0]} {made[1]}")
row = st.lists(line, min_size=2, max_size=4).map(lambda made: f"| {' | '.join(made)} |")
table = st.lists(row, max_size=5).map(
    lambda rows: "\n".join(["| one | two | three |", "|:--|:-:|--:|", *rows])
)


def _item(marker: str, blocks: list[str]) -> str:
    first, *others = "\n".join(blocks).split("\n")
    space = " " * (len(marker) + 1)
    return "\n".join([f"{marker} {first}", *(space + each if each else "" for each in others)])


def _lists(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    contents = st.tuples(prose, st.lists(inner, max_size=2)).map(lambda made: [made[0], *made[1]])
    return st.tuples(
        st.sampled_from(["-", "*", "1.", "2.", "10."]),
        st.lists(contents, min_size=1, max_size=4),
        st.sampled_from(["\n", "\n\n"]),
    ).map(lambda made: made[2].join(_item(made[0], blocks) for blocks in made[1]))


def _quotes(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return inner.map(lambda text: "\n".join(f"> {each}".rstrip() for each in text.split("\n")))


block = st.recursive(
    prose | heading | fence | table | st.sampled_from(["---", "***", "    indented\n\n    code"]),
    lambda inner: _lists(inner) | _quotes(inner),
    max_leaves=5,
)
answers = st.lists(block, max_size=6).map("\n\n".join)
"""Blocks separated by blank lines, as models usually write them."""
nonsense = st.lists(
    st.tuples(st.sampled_from(["", "", "  ", "   ", "      "]), st.sampled_from(HARD)).map("".join),
    max_size=12,
).map("\n".join)


def plain(lines: list[str]) -> list[str]:
    """The lines without colour codes."""
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


def streamed(text: str, screen: Screen, step: int) -> list[str]:
    """All printed lines, when the text arrives in pieces of `step` characters."""
    answer = stream.begin(screen)
    lines: list[str] = []
    for start in range(0, len(text), step):
        lines += answer.feed(text[start : start + step])
    return lines + answer.end()
