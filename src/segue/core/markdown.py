"""The Markdown parser shared by the terminal, chats and the page.

It imports markdown-it, so import this module only where you use it.
"""

from __future__ import annotations

from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote
from markdown_it.token import Token

_DEEPEST = 20
"""Maximum nesting depth of lists and quotes."""
_QUOTE = 100
"""Maximum lines of one quote. A longer quote becomes several.

For each inner quote markdown-it scans every line of the outer one, so without this limit the time
is quadratic.
"""
_ENDED_BY_QUOTES = ["paragraph", "reference", "blockquote", "list"]


def parser() -> MarkdownIt:
    """Return a new parser for CommonMark, tables and strikethrough. HTML is treated as text."""
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    made.block.ruler.at("blockquote", _quote, {"alt": _ENDED_BY_QUOTES})
    return made.enable(["table", "strikethrough"])


def is_cut(tokens: Iterable[Token]) -> bool:
    """Return whether the parser left something out because it is nested too deeply."""
    return any(token.level >= _DEEPEST - 1 for token in tokens)


def _quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return blockquote(state, start, min(end, start + _QUOTE), silent)
