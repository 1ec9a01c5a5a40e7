"""Text with marked parts, counted in UTF-16 code units as some platforms do."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from segue.platforms.base import Unit
from segue.testing.peers.state import size


class Entity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a text that is bold, a link or a mention, for example."""

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

    def trimmed(self) -> Formatted:
        """Strip whitespace at both ends, except at the start where an entity covers it."""
        text = self.text.rstrip()
        end = units(text)
        blank = len(text) - len(text.lstrip())
        kept = [it for it in self.entities if it.offset < end]
        lead = min([blank, *(it.offset for it in kept)])
        moved = (
            replace(it, offset=it.offset - lead, length=min(it.end, end) - it.offset) for it in kept
        )
        return Formatted(text[lead:], tuple(moved))


def units(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return size(text, Unit.UTF16)
