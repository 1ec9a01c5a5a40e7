"""Text as Telegram stores it: cleaning, counting, and detection of entities.

core.telegram.org/bots/api#messageentity: offsets and lengths are in UTF-16 code units. Cleaning
follows `clean_input_string` of tdlib/td (td/telegram/misc.cpp): a tab becomes a space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

_SPACED = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f]")
_REMOVED = re.compile(r"[\r\u2028-\u202e\u0333\u033f\u030a]")
_NOTHING = re.compile(r"[\s\u200b-\u200f\u2800\u3000\ufeff\ufffc]*")

_FOUND = {
    "bot_command": re.compile(r"(?<![\w/@<>])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/])"),
    "mention": re.compile(r"(?<![\w@])@[A-Za-z][A-Za-z0-9_]{3,31}(?!\w)"),
    "url": re.compile(r"(?<!\w)https?://[^\s<>\"]+[^\s<>\".,;:!?)]"),
}
_SOLID = frozenset({"pre", "code", "text_link"})
"""Telegram detects no other entities inside these."""


class Entity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A MessageEntity."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None

    @property
    def end(self) -> int:
        return self.offset + self.length

    def of(self, text: str) -> str:
        """The part of `text` that this entity covers."""
        return text.encode("utf-16-le")[2 * self.offset : 2 * self.end].decode("utf-16-le")


class Formatted(Struct, frozen=True):
    """A text with its entities."""

    text: str
    entities: tuple[Entity, ...] = ()


def units(text: str) -> int:
    """The length of a text in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cleaned(text: str) -> str:
    """Replace or remove the characters that Telegram does not keep."""
    return _REMOVED.sub("", _SPACED.sub(" ", text))


def is_empty(text: str) -> bool:
    """Return whether the text contains nothing visible."""
    return _NOTHING.fullmatch(text) is not None


def trimmed(formatted: Formatted) -> Formatted:
    """Strip whitespace at both ends, except at the start where an entity covers it."""
    text = formatted.text.rstrip()
    end, blank = units(text), len(text) - len(text.lstrip())
    kept = [it for it in formatted.entities if it.offset < end]
    lead = min(blank, *(it.offset for it in kept)) if kept else blank
    moved = (
        replace(it, offset=it.offset - lead, length=min(it.end, end) - it.offset) for it in kept
    )
    return Formatted(text[lead:], tuple(moved))


def found(text: str, solid: Sequence[Entity] = ()) -> tuple[Entity, ...]:
    """The commands, mentions and links that Telegram detects outside of `solid` entities."""
    matches = [(kind, it) for kind, pattern in _FOUND.items() for it in pattern.finditer(text)]
    entities = (
        Entity(type=kind, offset=units(text[: it.start()]), length=units(it[0]))
        for kind, it in matches
    )
    free = (e for e in entities if not any(it.offset < e.end and e.offset < it.end for it in solid))
    return tuple(sorted(free, key=lambda it: it.offset))


def with_found(formatted: Formatted) -> Formatted:
    """Add the detected entities, except inside code and links."""
    solid = [it for it in formatted.entities if it.type in _SOLID]
    entities = (*formatted.entities, *found(formatted.text, solid))
    by_place = sorted(entities, key=lambda it: (it.offset, -it.length))
    return Formatted(formatted.text, tuple(by_place))
