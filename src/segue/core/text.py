"""Text that is safe to put on one line in front of a person."""

from __future__ import annotations

import unicodedata

# Letters and symbols by category, blank to the eye: Hangul fillers, the empty braille cell, CGJ,
# the musical null notehead.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159")
_GONE = frozenset({"Cc", "Cf", "Cs"})
_BYTES_PER_TOKEN = 4


def one_line(text: str, limit: int | None = None) -> str:
    """`text` on one line, without control, zero-width, bidi or other invisible characters.

    Longer than `limit` characters, it ends in an ellipsis.
    """
    spaced = "".join(" " if c.isspace() else c for c in text)
    seen = "".join(c for c in spaced if c not in _BLANK and unicodedata.category(c) not in _GONE)
    # Composed last: what was taken out may have stood between a letter and its accent.
    line = unicodedata.normalize("NFC", " ".join(seen.split()))
    if limit is None or len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def tokens_in(*texts: str) -> int:
    """About how many tokens the texts have, where no model has counted them: a quarter of their
    bytes, which is near for English and code, and on the safe side for most other writing."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_PER_TOKEN + 1


def is_blank(line: str) -> bool:
    """Whether there is nothing in `line` to see: only spaces and marks that need a letter."""
    return all(unicodedata.category(c)[0] in "MZ" for c in line)
