"""The Markdown parser and the lexers of code that the terminal, chats and the page share.

It imports markdown-it, so import this module only where you use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_DEEPEST = 20
"""Maximum nesting depth of lists and quotes."""
_QUOTE = 100
"""Maximum lines of one quote. A longer quote becomes several.

For each inner quote markdown-it scans every line of the outer one, so without this limit the time
is quadratic.
"""
_MARKUP = re.compile(r"[\\`*_~\[<&]|  \n")
"""Text without any of these has no inline markup. Most has none, and the check is much faster than
the parser."""
_FACTOR_BEFORE = re.compile(r"(?:\d|(?<!\w)\w)$")
_FACTOR_AFTER = re.compile(r"\d|\w(?!\w)")
"""A number or a name of one letter, beside a star."""
_ENDED_BY_QUOTES = ["paragraph", "reference", "blockquote", "list"]


def parser() -> MarkdownIt:
    """Return a new parser for CommonMark, tables and strikethrough. HTML is treated as text.

    Reference links are off: they hide a URL, and their last line could change the first one, so
    that a text could not be rendered in parts.
    """
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    made.block.ruler.at("blockquote", _quote, {"alt": _ENDED_BY_QUOTES})
    made.core.ruler.at("inline", _inline)
    return made.enable(["table", "strikethrough"]).disable("reference")


def is_cut(tokens: Iterable[Token]) -> bool:
    """Return whether the parser left something out because it is nested too deeply."""
    return any(token.level >= _DEEPEST - 1 for token in tokens)


def _quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return blockquote(state, start, min(end, start + _QUOTE), silent)


def _inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type == "inline":
            token.children = []
            if _MARKUP.search(token.content):
                state.md.inline.parse(token.content, state.md, state.env, token.children)
                _keep_products(token.children)
            elif token.content:
                token.children += _plain(token.content)


def _keep_products(tokens: list[Token]) -> None:
    """Turn stars that mean a product back into text, as in `2*3*4`. As emphasis they would vanish,
    and the product would read as another number."""
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if not token.markup.startswith("*"):
            continue
        if token.nesting == 1:
            opened.append(index)
        elif token.nesting == -1:
            start = opened.pop()
            if _is_product(tokens, start, index):
                for at in (start, index):
                    tokens[at] = Token("text", "", 0, content=tokens[at].markup)


def _is_product(tokens: list[Token], start: int, end: int) -> bool:
    """Whether emphasis starts and ends within words, beside a number or a name of one letter."""
    befores = [_text_at(tokens, start - 1), _text_at(tokens, end - 1)]
    afters = [_text_at(tokens, start + 1), _text_at(tokens, end + 1)]
    is_in_words = befores[0][-1:].isalnum() and afters[1][:1].isalnum()
    factors = [_FACTOR_BEFORE.search(it) for it in befores]
    factors += [_FACTOR_AFTER.match(it) for it in afters]
    return is_in_words and any(factors)


def _text_at(tokens: list[Token], index: int) -> str:
    is_text = 0 <= index < len(tokens) and tokens[index].type == "text"
    return tokens[index].content if is_text else ""


def _plain(text: str) -> Iterator[Token]:
    first, *others = text.split("\n")
    yield Token("text", "", 0, content=first.rstrip(" "))
    for line in others:
        yield Token("softbreak", "br", 0)
        yield Token("text", "", 0, content=line.strip(" "))


# Code


LANGUAGES = frozenset({
    "bash", "c", "clojure", "cmake", "cpp", "csharp", "css", "dart", "diff", "docker", "elixir",
    "go", "graphql", "haskell", "html", "http", "java", "javascript", "json", "jsx", "julia",
    "kotlin", "lua", "make", "markdown", "nginx", "nixos", "objective-c", "perl", "php",
    "powershell", "protobuf", "pycon", "python", "ruby", "rust", "scala", "scss", "splus", "sql",
    "swift", "tex", "toml", "tsx", "typescript", "xml", "yaml", "zig",
})  # fmt: skip
"""The highlighted languages, by the first name that Pygments has for each (R is `splus`).

Of its hundreds of lexers, some take hours for a crafted line, and cannot be interrupted.
"""


def lexer(language: str) -> Lexer | None:
    """Return the lexer for a language by any of its names, or None if it is not highlighted."""
    from pygments.lexers import find_lexer_class_by_name  # noqa: PLC0415 - not every text has code
    from pygments.util import ClassNotFound  # noqa: PLC0415

    try:
        found = find_lexer_class_by_name(language)
    except ClassNotFound:
        return None
    return found(stripnl=False) if found.aliases[0] in LANGUAGES else None
