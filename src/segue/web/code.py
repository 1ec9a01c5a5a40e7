"""Code as HTML, highlighted with CSS classes, in bounded time even for hostile code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from segue.core import lexers

if TYPE_CHECKING:
    from pygments.token import _TokenType  # pyright: ignore[reportPrivateUsage]

    Piece = tuple[_TokenType, str]

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
        lexer = lexers.find(language) if known else None
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


def _written(pieces: Iterator[Piece]) -> str:
    from pygments.formatters.html import HtmlFormatter  # noqa: PLC0415

    written = StringIO()
    HtmlFormatter[str](nowrap=True).format(pieces, written)
    return written.getvalue()
