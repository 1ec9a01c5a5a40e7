"""Text as Telegram reads and stores it: cleaning, entities, and HTML.

core.telegram.org/bots/api#messageentity: offsets and lengths are in UTF-16 code units. Cleaning
follows `clean_input_string` of tdlib/td (td/telegram/misc.cpp). The tags are documented at
#html-style; those that we never send are not known here. The errors follow `parse_html` of tdlib/td
(td/telegram/MessageEntity.cpp); offsets in them are in bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from segue.platforms.base import Unit
from segue.testing.peers.limits import size
from segue.testing.telegram.errors import Refuse, bad

_SPACED = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f]")
_REMOVED = re.compile(r"[\r\u2028-\u202e\u0333\u033f\u030a]")
_NOTHING = re.compile(r"[\s\u200b-\u200f\u2800\u3000\ufeff\ufffc]*")
_FOUND = {
    "bot_command": re.compile(r"(?<![\w/@<>])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/])"),
    "mention": re.compile(r"(?<![\w@])@[A-Za-z][A-Za-z0-9_]{3,31}(?!\w)"),
}
_TYPES = {
    "b": "bold", "i": "italic", "s": "strikethrough", "a": "text_link", "code": "code",
    "pre": "pre", "blockquote": "blockquote",
}  # fmt: skip
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_CHARACTER = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]+));?")
_TOKEN = re.compile(rf"[^&<]+|{_CHARACTER.pattern}|&|</([^\s>]*)\s*|<([^\s>]*)")
_ATTRIBUTES = re.compile(r'((?:\s+[a-z-]+="[^"]*")*)\s*(>?)')
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')
_LINK = re.compile(r"(?:https?|tg|ton|mailto|tel|ftp)://\S+|mailto:\S+|tel:\S+", re.IGNORECASE)


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
    """The length of a text as Telegram counts."""
    return size(text, Unit.UTF16)


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
    lead = min([blank, *(it.offset for it in kept)])
    moved = (
        replace(it, offset=it.offset - lead, length=min(it.end, end) - it.offset) for it in kept
    )
    return Formatted(text[lead:], tuple(moved))


def found(text: str) -> tuple[Entity, ...]:
    """The commands and mentions that Telegram detects in a user's text."""
    matches = [(kind, it) for kind, pattern in _FOUND.items() for it in pattern.finditer(text)]
    entities = [
        Entity(type=kind, offset=units(text[: it.start()]), length=units(it[0]))
        for kind, it in matches
    ]
    return tuple(sorted(entities, key=lambda it: it.offset))


class _Open(NamedTuple):
    """An open tag, and its offset in the output."""

    name: str
    at: int
    attributes: dict[str, str]


def parse_html(source: str) -> Formatted:
    """Return the text and its entities. Raises Refuse with Telegram's error text."""
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._text = ""
        self._open: list[_Open] = []
        self._entities: list[Entity] = []

    def read(self) -> Formatted:
        while token := _TOKEN.match(self._source, self._at):
            self._at = token.end()
            if token[4] is not None:
                self._end(token[4].lower(), token.start())
            elif token[5] is not None:
                self._begin(token[5].lower(), token.start())
            else:
                self._text += _decoded(token[0])
        if self._open:
            name = self._open[-1].name
            raise _refuse(f'Can\'t find end tag corresponding to start tag "{name}"')
        # Only code blocks have a language.
        entities = (
            replace(it, language=None) if it.type == "code" else it for it in self._entities
        )
        return Formatted(self._text, tuple(sorted(entities, key=lambda it: it.offset)))

    def _begin(self, name: str, begin: int) -> None:
        if self._at >= len(self._source):
            raise self._wrong("Unclosed start tag", begin)
        if name not in _TYPES:
            raise self._wrong(f'Unsupported start tag "{name}"', begin)
        inside = _ATTRIBUTES.match(self._source, self._at)
        if inside is None or not inside[2]:
            # Telegram has an error for each kind of mistake, and accepts other quotes.
            raise self._wrong(f'Unclosed start tag "{name}"', begin)
        self._at = inside.end()
        attributes = {it[1]: _decoded(it[2]) for it in _ATTRIBUTE.finditer(inside[1])}
        self._open.append(_Open(name, units(self._text), attributes))

    def _end(self, name: str, begin: int) -> None:
        if not self._open:
            raise self._wrong("Unexpected end tag", begin)
        if not self._source.startswith(">", self._at):
            raise self._wrong("Unclosed end tag", begin)
        self._at += 1
        tag = self._open.pop()
        if name and name != tag.name:
            expected = f', expected "</{tag.name}>", found "</{name}>"'
            raise self._wrong("Unmatched end tag", begin, expected)
        if (length := units(self._text) - tag.at) > 0:
            self._add(tag, Entity(type=_TYPES[tag.name], offset=tag.at, length=length))

    def _add(self, tag: _Open, entity: Entity) -> None:
        last = self._entities[-1] if self._entities else entity
        if tag.name == "pre" and replace(last, type="pre", language=None) == entity != last:
            # A code block with a language is `pre` around a single `code` with a class.
            entity = replace(entity, language=self._entities.pop().language)
        elif tag.name == "code":
            language = tag.attributes.get("class", "").removeprefix("language-") or None
            entity = replace(entity, language=language)
        elif tag.name == "a":
            url = tag.attributes.get("href") or entity.of(self._text)
            if "://" not in url and "." in url:
                url = f"http://{url}"
            if not _LINK.fullmatch(url):
                return  # it is shown as plain text
            entity = replace(entity, url=url)
        self._entities.append(entity)

    def _wrong(self, what: str, at: int, more: str = "") -> Refuse:
        return _refuse(f"{what} at byte offset {len(self._source[:at].encode())}{more}")


def _decoded(text: str) -> str:
    """Decode character references. An ampersand that starts no valid one is kept."""
    return _CHARACTER.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name is not None:
        return _NAMED.get(name, match[0])
    number = int(decimal) if decimal is not None else int(hexadecimal, 16)
    good = 0 < number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(number) if good else match[0]


def _refuse(reason: str) -> Refuse:
    return bad(f"can't parse entities: {reason}")
