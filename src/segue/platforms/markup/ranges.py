"""Marks for a platform that takes plain text, and the parts of it that are bold as ranges.

The marks are noncharacters, which Unicode reserves for use within a program: no text has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from segue.platforms.base import Unit
from segue.platforms.markup.sizes import size

BOLD, ITALIC, STRIKE, CODE, END = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"
_STYLES = {BOLD: "BOLD", ITALIC: "ITALIC", STRIKE: "STRIKETHROUGH", CODE: "MONOSPACE"}
_MARK = re.compile(f"([{BOLD}-{END}])")


def without_marks(text: str) -> str:
    return _MARK.sub("", text)


def ranges(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each style in `text` with the start and the length of what has it, counted in UTF-16
    units of the text without marks."""
    at, opened = 0, list[tuple[str, int]]()
    for piece in _MARK.split(text):
        if piece == END and opened:
            mark, start = opened.pop()
            if at > start:
                yield _STYLES[mark], start, at - start
        elif _MARK.fullmatch(piece):
            opened.append((piece, at))
        else:
            at += size(piece, Unit.UTF16)
