"""Text that is safe to put on one line in front of a person, or on a wire."""

from __future__ import annotations

import itertools
import unicodedata

# Letters and symbols by category, blank to the eye: Hangul fillers, the empty braille cell, CGJ,
# the musical null notehead.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159")
# Control, format (bidi, zero width), surrogate, line and paragraph separator.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Selectors of a variant and what Unicode keeps free for more of the kind, never drawn: enough of
# them in a row hold a whole letter. Not U+FE0E and U+FE0F, which emoji are written with.
_UNDRAWN = (
    ("\u180b", "\u180f"),
    ("\u2065", "\u2065"),
    ("\ufe00", "\ufe0d"),
    ("\ufff0", "\ufff8"),
    ("\U000e0000", "\U000e0fff"),
)
_PRESENTATIONS = "\ufe0e\ufe0f"
"""Ask for a symbol as text or as emoji. After anything else they are not seen."""
_BYTES_PER_TOKEN = 4


def is_hidden(c: str) -> bool:
    """Whether a screen obeys the character `c`, or shows nothing of it. Spaces are not hidden."""
    return (
        c in _BLANK
        or unicodedata.category(c) in _UNSEEN
        or any(first <= c <= last for first, last in _UNDRAWN)
    )


def visible(text: str) -> str:
    """`text` with all that a screen would hide or obey written out, such as `\\x1b`, and every
    space that only looks like one."""
    return "".join(
        c.encode("unicode_escape").decode() if _is_deceptive(c, before) else c
        for before, c in itertools.pairwise(f"\n{text}")
    )


def visible_name(name: object) -> str:
    """A path or an address as `visible` shows it, on one line."""
    return visible(str(name)).replace("\n", "\\n").replace("\t", "\\t")


def _is_deceptive(c: str, before: str) -> bool:
    if c in " \n\t":
        return False
    if c in _PRESENTATIONS:
        return unicodedata.category(before) != "So"
    return c.isspace() or is_hidden(c)


def one_line(text: str, limit: int | None = None) -> str:
    """`text` on one line, without control, zero-width, bidi or other invisible characters.

    Longer than `limit` characters, it ends in an ellipsis.
    """
    spaced = "".join(" " if c.isspace() else c for c in text)
    seen = "".join(c for c in spaced if not is_hidden(c))
    # Composed last: what was taken out may have stood between a letter and its accent.
    line = unicodedata.normalize("NFC", " ".join(seen.split()))
    if limit is None or len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def tokens_in(*texts: str) -> int:
    """About how many tokens the texts have, where no model has counted them: a quarter of their
    bytes, which is near for English and code, and on the safe side for most other writing."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_PER_TOKEN + 1


def count(number: int, thing: str) -> str:
    """`1 message`, `12,345 messages`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def is_empty(text: str) -> bool:
    """Whether there is nothing in `text` to see, however many lines it has: only spaces, hidden
    characters, and marks that need a letter."""
    return all(c.isspace() or is_hidden(c) or unicodedata.category(c)[0] in "MZ" for c in text)


def whole(text: str) -> str:
    """`text` with U+FFFD in place of half a character, such as some programs send: a surrogate
    without its other half, which no encoding takes. Two halves are put together."""
    if text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
