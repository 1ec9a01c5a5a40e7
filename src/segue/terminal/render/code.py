"""Syntax highlighting, also for code that arrives in parts.

It imports pygments, so import this module only where you use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String
from rich.style import Style
from rich.text import Text

from segue.core import lexers

_LONGEST_LINE = 2000
_LONGEST = 20_000
"""Characters. Longer text is data, and some lexers are very slow on it."""
_MAX_BEFORE = 2000
"""Characters that are lexed again with each part."""
_ENOUGH = 4
"""Lines that must match to show that lexing from the middle of the code gives correct colours."""
_TRIES = 3

_LANGUAGE = re.compile(r"\w[\w+#.-]*")

_Kind = tuple[str, ...]
# ANSI colours that themes keep readable, without black, white and similar ones.
_KINDS: Mapping[str, Sequence[_Kind]] = {
    "italic dim": (Comment,),
    "magenta": (Comment.Preproc, Keyword, Operator.Word, Name.Tag),
    "cyan": (
        *(Keyword.Type, Name.Builtin, Name.Decorator, Name.Exception, Name.Attribute),
        *(Name.Variable, String.Interpol, String.Escape, Generic.Subheading),
    ),
    "bold": (Name.Class, Name.Function, Generic.Heading),
    "yellow": (Number,),
    "green": (String, Generic.Inserted),
    "red": (Generic.Deleted,),
    "dim": (Generic.Prompt,),
}
_STYLES: Mapping[_Kind, Style] = {
    kind: Style.parse(style) for style, kinds in _KINDS.items() for kind in kinds
}
_Token = tuple[Style | None, str]


class Highlighter:
    """Highlights one block of code, part by part.

    Each part is lexed together with enough of the code before it, so that a string or a comment
    across two parts has one colour.
    """

    def __init__(self, language: str) -> None:
        found = _LANGUAGE.search(language)
        self._lexer = _lexer(found[0].lower()) if found else None
        self._before = ""

    def take(self, lines: tuple[str, ...]) -> list[Text]:
        """Return the next lines, highlighted."""
        start, text = len(self._before), self._before + _joined(lines)
        tokens = self._tokens(text)
        if self._lexer:
            self._before = self._needed(text, tokens)
        return _lines(tokens, start)

    def peek(self, lines: tuple[str, ...]) -> list[Text]:
        """Return the lines highlighted without consuming them, because they may still change."""
        return _lines(self._tokens(self._before + _joined(lines)), len(self._before))

    def _tokens(self, text: str) -> list[_Token]:
        if self._lexer is None or len(text) > _LONGEST or _has_long_line(text):
            return [(None, text)]
        return [
            (_style(kind), value) for _, kind, value in self._lexer.get_tokens_unprocessed(text)
        ]

    def _needed(self, text: str, tokens: list[_Token]) -> str:
        """Return the end of `text` that the next part must be lexed with.

        It starts at a line from which lexing gives the same colours without the text before it.
        """
        colours = _spread(tokens)
        for start in _beginnings(text):
            if _spread(self._tokens(text[start:])) == colours[start:]:
                return text[start:]
        return text if len(text) < _MAX_BEFORE else ""


def _joined(lines: tuple[str, ...]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _has_long_line(text: str) -> bool:
    return any(len(line) > _LONGEST_LINE for line in text.split("\n"))


def _beginnings(text: str) -> Iterator[int]:
    """Yield the last places where a new construct may begin.

    These are lines without indentation after an empty line, far enough from the end to judge.
    """
    ends = [m.end() for m in re.finditer(r"\n\n(?=\S)", text)]
    fits = [end for end in ends if text.count("\n", end) >= _ENOUGH]
    return reversed(fits[-_TRIES:])


def _spread(tokens: list[_Token]) -> list[Style | None]:
    """Return the colour of each character."""
    return [style for style, value in tokens for _ in value]


def _lines(tokens: list[_Token], start: int) -> list[Text]:
    """Return the lines of the text from `start`."""
    lines = [Text()]
    for style, value in tokens:
        skipped, start = min(start, len(value)), max(0, start - len(value))
        first, *more = value[skipped:].split("\n")
        lines[-1].append(first, style)
        lines.extend(Text(piece, style or "") for piece in more)
    return lines[:-1]


_lexer = lru_cache(maxsize=64)(lexers.find)


@cache
def _style(kind: _Kind) -> Style | None:
    """Return the style of the token, or of the nearest more general one."""
    kinds = (kind[:n] for n in range(len(kind), 0, -1))
    return next((_STYLES[kind] for kind in kinds if kind in _STYLES), None)
