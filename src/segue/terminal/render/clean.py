"""Makes text from a model, a tool or another user safe to show on a terminal.

A terminal interprets what it receives. So whole escape sequences are removed, and every character
that hides or reorders the text around it. Text cannot overwrite earlier output: a carriage return
starts a new line, like every other line break.
"""

from __future__ import annotations

import enum
from unicodedata import bidirectional, category, combining, east_asian_width

from segue.core.text import is_hidden, whole

TAB = 4
"""Columns between tab stops, the same as in Markdown."""

_BREAKS = frozenset("\n\r\v\f\x85\u2028\u2029")
_ZWNJ = "\u200c"
_ZWJ = "\u200d"
_PRESENTATIONS = frozenset("\ufe0e\ufe0f")
"""Select the text or emoji form of a symbol."""


class _State(enum.Enum):
    """The state of the terminal's parser before the next character."""

    TEXT = enum.auto()
    ESCAPE = enum.auto()
    INTERMEDIATE = enum.auto()
    """In an escape sequence that only its final character ends, such as ESC ( B."""
    CSI = enum.auto()
    STRING = enum.auto()
    """In an OSC, DCS, SOS, PM or APC string."""


def clean(text: str, *, newlines: bool = True) -> str:
    """Return `text` without anything that a terminal would interpret or hide.

    If `newlines` is false, the result is one line. Emoji and letters of every script stay.
    """
    cleaner = Cleaner(newlines=newlines)
    return cleaner.feed(text) + cleaner.end()


class Cleaner:
    """Cleans text that arrives in pieces. The result does not depend on where it is cut.

    An escape sequence that never ends removes at most the rest of its line.
    """

    def __init__(self, *, newlines: bool = True) -> None:
        self._break = "\n" if newlines else " "
        self._state = _State.TEXT
        self._held = ""
        """Half a surrogate pair, or a joiner, held back until the next character arrives."""
        self._last = ""
        self._after_cr = False
        self._column = 0

    def feed(self, text: str) -> str:
        """Add text, and return what can be shown now."""
        return self._quickly(text) if self._is_simple(text) else "".join(map(self._take, text))

    def end(self) -> str:
        """End the text, and return what was held back."""
        held = self._held
        self._held = ""
        return "\ufffd" if _is_half(held) else ""

    def _is_simple(self, text: str) -> bool:
        return (
            self._state is _State.TEXT
            and not self._held
            and not self._after_cr
            and text.isascii()
            and text.replace("\n", "").isprintable()
        )

    def _quickly(self, text: str) -> str:
        *before, line = text.split("\n")
        self._column = len(line) if before else self._column + len(line)
        self._last = line[-1:] if before else line[-1:] or self._last
        return text if self._break == "\n" else text.replace("\n", self._break)

    def _take(self, c: str) -> str:
        if self._state is not _State.TEXT:
            self._state, taken = _AFTER[self._state](c)
            if taken:
                return ""
        if not _is_half(self._held):
            return self._text(c)
        high = self._held
        self._held = ""
        if _is_other_half(c):
            return self._text(whole(high + c))
        return self._shown("\ufffd") + self._text(c)

    def _text(self, c: str) -> str:
        if c in _BREAKS:
            return self._new_line(c)
        self._after_cr = False
        if c == "\x1b":
            self._state = _State.ESCAPE
            return ""
        if c == "\t":
            return self._shown(" " * (TAB - self._column % TAB))
        if c == "\u2800":  # the space in braille drawings
            return self._shown(" ")
        if _is_half(c) or c in (_ZWJ, _ZWNJ):
            self._held = c
            return ""
        if _is_other_half(c):
            return self._shown("\ufffd")
        if is_hidden(c) or (c in _PRESENTATIONS and not _takes_presentation(self._last)):
            return ""
        return self._shown(c)

    def _new_line(self, c: str) -> str:
        after_cr = self._after_cr
        self._after_cr = c == "\r"
        if after_cr and c == "\n":
            return ""
        self._held = ""
        self._last = ""
        self._column = 0
        return self._break

    def _shown(self, text: str) -> str:
        joiner = self._held
        self._held = ""
        if joiner and not _joins(joiner, self._last, text[0]):
            joiner = ""
        self._last = text[-1]
        self._column += sum(map(_cells, text))
        return joiner + text


# Each of these returns the state after `c`, and whether `c` is part of the escape sequence. A
# character that cannot be part of it aborts the sequence.


def _in_escape(c: str) -> tuple[_State, bool]:
    if c == "[":
        return _State.CSI, True
    if c in "]PX^_":
        return _State.STRING, True
    return _in_intermediate(c)


def _in_intermediate(c: str) -> tuple[_State, bool]:
    if " " <= c <= "/":
        return _State.INTERMEDIATE, True
    return _State.TEXT, "0" <= c <= "~"


def _in_csi(c: str) -> tuple[_State, bool]:
    if " " <= c <= "?":
        return _State.CSI, True
    return _State.TEXT, "@" <= c <= "~"


def _in_string(c: str) -> tuple[_State, bool]:
    # An escape sequence ends it; the proper one is ESC \. A terminal would continue past a line
    # break. We do not, so that a string cannot hide the rest of an answer.
    if c == "\x1b" or c in _BREAKS:
        return _State.TEXT, False
    return (_State.TEXT if c in "\x07\x18\x1a\x9c" else _State.STRING), True


_AFTER = {
    _State.ESCAPE: _in_escape,
    _State.INTERMEDIATE: _in_intermediate,
    _State.CSI: _in_csi,
    _State.STRING: _in_string,
}


def _is_half(c: str) -> bool:
    return "\ud800" <= c <= "\udbff"


def _is_other_half(c: str) -> bool:
    return "\udc00" <= c <= "\udfff"


def _joins(joiner: str, before: str, after: str) -> bool:
    """Return whether the joiner shapes its neighbours, rather than hides between letters."""
    if not before:
        return False
    if combining(before) == 9:  # a virama, in Indic scripts
        return category(after)[0] == "L"
    if joiner == _ZWNJ:
        return bidirectional(before) == bidirectional(after) == "AL"
    return (before == "\ufe0f" or _is_pictograph(before)) and _is_pictograph(after)


def _is_pictograph(c: str) -> bool:
    return category(c) in ("So", "Sk", "Sm") or "\U0001f000" <= c <= "\U0001faff"


def _takes_presentation(c: str) -> bool:
    return bool(c) and (category(c)[0] in "SPN" or _is_pictograph(c))


def _cells(c: str) -> int:
    if combining(c) or category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(c) in "WF" else 1
