"""Functions that make text safe to show on one line or to send."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

# Letters and symbols by category that are drawn blank: Hangul fillers, the empty braille cell, CGJ,
# the musical null notehead.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159")
# Control, format (bidi, zero width), surrogate, line and paragraph separator.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Variation selectors, and the ranges that Unicode reserves for more of them. They are never drawn,
# so a run of them can hide a whole message. U+FE0E and U+FE0F are left out, because emoji use them.
_UNDRAWN = (
    ("\u180b", "\u180f"),
    ("\u2065", "\u2065"),
    ("\ufe00", "\ufe0d"),
    ("\ufff0", "\ufff8"),
    ("\U000e0000", "\U000e0fff"),
)
_PRESENTATIONS = "\ufe0e\ufe0f"
"""Select the text or emoji form of a symbol. After any other character they are invisible."""
REASON_LIMIT = 500
_BYTES_PER_TOKEN = 4
_MARGIN = 64
"""Characters after the limit of a line, with which its last one could be composed."""


@functools.lru_cache(1024)  # asked for every character of many texts
def is_hidden(c: str) -> bool:
    """Return whether a screen interprets `c` or draws nothing for it. Spaces are not hidden."""
    return (
        c in _BLANK
        or unicodedata.category(c) in _UNSEEN
        or any(first <= c <= last for first, last in _UNDRAWN)
    )


def clock_time(at: datetime, now: datetime) -> str:
    """Return a time of day, such as `08:35`, with its date if that is not the date of `now`."""
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"


def local_time(moment: datetime, zone: str) -> str:
    """A time in words, on the wall clock of a zone: `Tue 2026-11-17 09:00 (Europe/Oslo)`."""
    place = find_zone(zone)
    local = moment.astimezone(place or UTC)
    return f"{local:%a %Y-%m-%d %H:%M} ({zone if place else 'UTC'})"


def find_zone(name: str) -> ZoneInfo | None:
    """The zone with this name, or None if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None


def visible(text: str) -> str:
    """Return `text` with everything escaped that a screen would hide or interpret, such as `\\x1b`.

    Characters that only look like a space are escaped, too.
    """
    return "".join(
        c.encode("unicode_escape").decode() if _is_deceptive(c, before) else c
        for before, c in itertools.pairwise(f"\n{text}")
    )


def visible_name(name: object) -> str:
    """Return a path, an address or a command as `visible` shows it, on one line. A line break is
    shown as one, and not as `\\n`, which the text itself may contain."""
    return visible(str(name)).replace("\n", "⏎").replace("\t", "⇥")


def _is_deceptive(c: str, before: str) -> bool:
    if c in " \n\t":
        return False
    if c in _PRESENTATIONS:
        return unicodedata.category(before) != "So"
    return c.isspace() or is_hidden(c)


def quoted(title: str) -> str:
    """A title inside a sentence. Commands, lists and tables show it without quotes."""
    return f"“{one_line(title)}”"


def one_line(text: str, limit: int | None = None) -> str:
    """Return `text` on one line, without control, zero-width, bidi or other invisible characters.

    Text longer than `limit` characters ends in an ellipsis.
    """
    if limit is None:
        return _on_one_line(text)
    # A part of a long text is enough, unless most of it is invisible.
    size = 4 * limit + _MARGIN
    line = _on_one_line(text[:size])
    while size < len(text) and len(line) <= limit + _MARGIN:
        size *= 4
        line = _on_one_line(text[:size])
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def short_reason(reason: str) -> str:
    """Return the reason of a failure as the store keeps it: cut at REASON_LIMIT characters, never
    rejected."""
    return reason if len(reason) <= REASON_LIMIT else reason[: REASON_LIMIT - 1] + "…"


def _on_one_line(text: str) -> str:
    spaced = "".join(" " if c.isspace() else c for c in text)
    seen = "".join(c for c in spaced if not is_hidden(c))
    # Compose last: a removed character may have stood between a letter and its accent.
    return unicodedata.normalize("NFC", " ".join(seen.split()))


def tokens_in(*texts: str) -> int:
    """Estimate how many tokens the texts have, where no model has counted them.

    The estimate is a quarter of the bytes: close for English and code, and on the safe side for
    most other scripts.
    """
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_PER_TOKEN + 1


def count(number: int, thing: str) -> str:
    """Return the number with its noun: `1 message`, `12,345 messages`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def is_empty(text: str) -> bool:
    """Return whether `text` shows nothing, however many lines it has.

    Such text has only spaces, hidden characters and combining marks.
    """
    return all(c.isspace() or is_hidden(c) or unicodedata.category(c)[0] in "MZ" for c in text)


def whole(text: str) -> str:
    """Return `text` with U+FFFD in place of each lone surrogate, which no encoding accepts.

    Some programs send lone surrogates. Surrogate pairs become the character they encode.
    """
    if text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
