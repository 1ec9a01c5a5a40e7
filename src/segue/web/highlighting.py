"""Syntax highlighting with CSS classes, in bounded time even for hostile code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType  # pyright: ignore[reportPrivateUsage]

    Piece = tuple[_TokenType, str]

LANGUAGES = frozenset({
    "bash", "c", "clojure", "cpp", "csharp", "css", "dart", "diff", "docker", "elixir", "go",
    "graphql", "haskell", "html", "http", "java", "javascript", "json", "jsx", "kotlin", "lua",
    "make", "markdown", "nginx", "nixos", "objective-c", "perl", "php", "powershell", "protobuf",
    "pycon", "python", "ruby", "rust", "scala", "scss", "sql", "swift", "toml", "tsx",
    "typescript", "xml", "yaml", "zig",
})  # fmt: skip
"""The highlighted languages. Of Pygments' hundreds of lexers, some take hours for a crafted line,
and cannot be interrupted."""
LONGEST = 10_000
SECONDS = 0.1
"""CPU time for all code blocks of one text. The rest is shown without highlighting."""


class Colours:
    """The highlighter for one text."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._left = SECONDS

    def of(self, code: str, language: str) -> str:
        """The code as HTML."""
        known = bool(language) and len(code) <= LONGEST and self._left > 0
        lexer = _lexer(language) if known else None
        if lexer is None:
            return escape(code)
        began = self._clock()
        try:
            return _written(self._in_time(lexer.get_tokens(code), began + self._left))
        except _TookTooLong:
            return escape(code)
        finally:
            self._left -= self._clock() - began

    def _in_time(self, pieces: Iterator[Piece], until: float) -> Iterator[Piece]:
        for piece in pieces:
            if self._clock() > until:
                raise _TookTooLong
            yield piece


class _TookTooLong(Exception):
    pass


def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import find_lexer_class_by_name  # noqa: PLC0415 - not every text has code
    from pygments.util import ClassNotFound  # noqa: PLC0415

    try:
        found = find_lexer_class_by_name(language)
    except ClassNotFound:
        return None
    return found(stripnl=False) if found.aliases[0] in LANGUAGES else None


def _written(pieces: Iterator[Piece]) -> str:
    from pygments.formatters.html import HtmlFormatter  # noqa: PLC0415

    written = StringIO()
    HtmlFormatter[str](nowrap=True).format(pieces, written)
    return written.getvalue()
