"""The Markdown parser that terminal, chats and page share. It imports markdown-it: import it only
for use."""

from __future__ import annotations

from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote
from markdown_it.token import Token

_DEEPEST = 20
"""Levels of lists and quotes in each other."""
_QUOTE = 100
"""Most lines of one quote; a longer one becomes several. markdown-it scans every line of the outer
quote for each quote inside it, so without this limit the time grows with the square."""
_ENDED_BY_QUOTES = ["paragraph", "reference", "blockquote", "list"]


def parser() -> MarkdownIt:
    """Return a new parser: CommonMark, tables and struck text; HTML is text."""
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    made.block.ruler.at("blockquote", _quote, {"alt": _ENDED_BY_QUOTES})
    return made.enable(["table", "strikethrough"])


def is_cut(tokens: Iterable[Token]) -> bool:
    """Return whether the parser left something out because it is nested too deeply."""
    return any(token.level >= _DEEPEST - 1 for token in tokens)


def _quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return blockquote(state, start, min(end, start + _QUOTE), silent)
