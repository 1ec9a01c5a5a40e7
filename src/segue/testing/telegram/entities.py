"""Text as Telegram stores it: cleaning, counting, and detection of entities.

core.telegram.org/bots/api#messageentity: offsets and lengths are in UTF-16 code units. Cleaning
follows `clean_input_string` of tdlib/td (td/telegram/misc.cpp): a tab becomes a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
    custom_emoji_id: str | None = None

    def of(self, text: str) -> str:
        """The part of `text` that this entity covers."""
        units = text.encode("utf-16-le")
        return units[2 * self.offset : 2 * (self.offset + self.length)].decode("utf-16-le")


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
    end = units(text)
    kept = [_cut(entity, end) for entity in formatted.entities if entity.offset < end]
    blank = len(text) - len(text.lstrip())
    first = min((entity.offset for entity in kept), default=blank)
    lead = min(blank, first)
    moved = tuple(replace(entity, offset=entity.offset - lead) for entity in kept)
    return Formatted(text[lead:], moved)


def _cut(entity: Entity, end: int) -> Entity:
    return replace(entity, length=min(entity.length, end - entity.offset))


def found(text: str) -> tuple[Entity, ...]:
    """The commands, mentions and links that Telegram detects."""
    return tuple(sorted(_find(text), key=lambda entity: entity.offset))


def with_found(formatted: Formatted) -> Formatted:
    """Add the detected entities, except inside code and links."""
    solid = [entity for entity in formatted.entities if entity.type in _SOLID]
    more = [entity for entity in found(formatted.text) if not _touches(entity, solid)]
    entities = sorted((*formatted.entities, *more), key=lambda it: (it.offset, -it.length))
    return Formatted(formatted.text, tuple(entities))


def _find(text: str) -> Iterator[Entity]:
    for kind, pattern in _FOUND.items():
        for match in pattern.finditer(text):
            yield Entity(type=kind, offset=units(text[: match.start()]), length=units(match[0]))


def _touches(entity: Entity, others: Sequence[Entity]) -> bool:
    end = entity.offset + entity.length
    return any(it.offset < end and entity.offset < it.offset + it.length for it in others)
