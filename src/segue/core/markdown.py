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
"""Lines of a quote; what is longer is several quotes. For each quote in another, markdown-it looks
at all lines of the outer one, so that without an end the time would grow with their square."""
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
