"""A parser for Telegram's HTML, as strict as Telegram's own.

The tags are documented at core.telegram.org/bots/api#html-style. The errors follow `parse_html` of
tdlib/td (td/telegram/MessageEntity.cpp); offsets in them are in bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from msgspec.structs import replace

from segue.testing.telegram.entities import Entity, Formatted, units
from segue.testing.telegram.errors import Refuse, bad

_TYPES = {
    "b": "bold", "strong": "bold",
    "i": "italic", "em": "italic",
    "u": "underline", "ins": "underline",
    "s": "strikethrough", "strike": "strikethrough", "del": "strikethrough",
    "tg-spoiler": "spoiler", "span": "spoiler",
    "a": "text_link", "code": "code", "pre": "pre",
    "blockquote": "blockquote", "tg-emoji": "custom_emoji",
}  # fmt: skip
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_CHARACTER = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]+));?")
_ATTRIBUTE = re.compile(r"""([^\s=>/"']*)\s*(?:(=)\s*(?:"([^"]*)"|'([^']*)'|([a-zA-Z0-9.-]*)))?""")
_LINK = re.compile(r"(?:https?|tg|ton|mailto|tel|ftp)://\S+|mailto:\S+|tel:\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Open:
    """An open tag."""

    name: str
    at: int
    """Its offset in the output."""
    value: str


def parse_html(source: str) -> Formatted:
    """Return the text and its entities. Raises Refuse with Telegram's error text."""
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._out: list[str] = []
        self._units = 0
        self._open: list[_Open] = []
        self._entities: list[Entity] = []

    def read(self) -> Formatted:
        while self._at < len(self._source):
            match self._source[self._at]:
                case "&":
                    self._write(self._character())
                case "<" if self._source.startswith("</", self._at):
                    self._end()
                case "<":
                    self._begin()
                case other:
                    self._write(other)
                    self._at += 1
        if self._open:
            name = self._open[-1].name
            raise _refuse(f'Can\'t find end tag corresponding to start tag "{name}"')
        entities = sorted(map(_without_language, self._entities), key=lambda it: it.offset)
        return Formatted("".join(self._out), tuple(entities))

    def _write(self, text: str) -> None:
        self._out.append(text)
        self._units += units(text)

    def _character(self) -> str:
        """Decode a character reference. An ampersand that starts no valid one is kept."""
        match = _CHARACTER.match(self._source, self._at)
        text = None if match is None else _decoded(match)
        if match is None or text is None:
            self._at += 1
            return "&"
        self._at = match.end()
        return text

    # Tags

    def _begin(self) -> None:
        begin = self._at
        head = re.compile(r"<([^\s>]*)").match(self._source, begin)
        assert head is not None  # noqa: S101 - it stands on a <
        self._at = head.end()
        if self._at >= len(self._source):
            raise self._wrong("Unclosed start tag", begin)
        name = head[1].lower()
        if name not in _TYPES:
            raise self._wrong(f'Unsupported start tag "{name}"', begin)
        attributes = self._attributes(name, begin)
        if name == "span" and attributes.get("class") != "tg-spoiler":
            raise self._wrong('Tag "span" must have class "tg-spoiler"', begin)
        value = attributes.get({"a": "href", "tg-emoji": "emoji-id"}.get(name, "class"), "")
        if name == "blockquote":
            value = "expandable" if "expandable" in attributes else ""
        self._open.append(_Open(name, self._units, value))

    def _attributes(self, name: str, begin: int) -> dict[str, str]:
        attributes: dict[str, str] = {}
        while True:
            self._skip()
            if self._at >= len(self._source):
                raise self._wrong(f'Unclosed start tag "{name}"', begin)
            if self._source[self._at] == ">":
                self._at += 1
                return attributes
            match = _ATTRIBUTE.match(self._source, self._at)
            if match is None or not match[1]:
                raise self._wrong(f'Empty attribute name in the tag "{name}"', begin)
            self._at = match.end()
            if self._at >= len(self._source):
                raise self._wrong(f'Unclosed start tag "{name}"', begin)
            if self._source[self._at] in "\"'":
                raise self._wrong("Unclosed start tag", begin)
            bare = match[5] is not None
            if bare and (not match[5] or self._source[self._at] not in " \n\t>"):
                raise self._wrong("Unexpected end of name token", match.start(5))
            value = next((group for group in match.group(3, 4, 5) if group is not None), "")
            attributes[match[1].lower()] = _CHARACTER.sub(lambda it: _decoded(it) or it[0], value)

    def _end(self) -> None:
        begin = self._at
        if not self._open:
            raise self._wrong("Unexpected end tag", begin)
        match = re.compile(r"</([^\s>]*)\s*").match(self._source, begin)
        assert match is not None  # noqa: S101 - it stands on a </
        self._at = match.end()
        if not self._source.startswith(">", self._at):
            raise self._wrong("Unclosed end tag", begin)
        self._at += 1
        opened, found = self._open.pop(), match[1].lower()
        if found and found != opened.name:
            raise self._wrong(
                "Unmatched end tag", begin, f', expected "</{opened.name}>", found "</{found}>"'
            )
        if self._units > opened.at:
            self._add(opened)

    def _add(self, tag: _Open) -> None:
        kind, length = _TYPES[tag.name], self._units - tag.at
        last = self._entities[-1] if self._entities else None
        if tag.name == "pre" and last is not None and _fills(last, "code", tag.at, length):
            # A code block with a language is `pre` around a single `code` with a class.
            del self._entities[-1]
            self._entities.append(
                Entity(type=kind, offset=tag.at, length=length, language=last.language)
            )
        elif tag.name == "code":
            language = tag.value.removeprefix("language-") if tag.value else None
            self._entities.append(
                Entity(type=kind, offset=tag.at, length=length, language=language)
            )
        elif tag.name == "a":
            self._link(tag, length)
        elif tag.name == "tg-emoji":
            if not tag.value.isdigit():
                raise _refuse("Invalid custom emoji identifier specified")
            self._entities.append(
                Entity(type=kind, offset=tag.at, length=length, custom_emoji_id=tag.value)
            )
        else:
            kind = "expandable_blockquote" if tag.value == "expandable" else kind
            self._entities.append(Entity(type=kind, offset=tag.at, length=length))

    def _link(self, tag: _Open, length: int) -> None:
        """Add a link entity. A link without a valid URL is shown as plain text."""
        url = tag.value or "".join(self._out).encode("utf-16-le")[2 * tag.at :].decode("utf-16-le")
        if "://" not in url and "." in url:
            url = f"http://{url}"
        if _LINK.fullmatch(url):
            self._entities.append(Entity(type="text_link", offset=tag.at, length=length, url=url))

    def _skip(self) -> None:
        while self._at < len(self._source) and self._source[self._at].isspace():
            self._at += 1

    def _wrong(self, what: str, at: int, more: str = "") -> Refuse:
        return _refuse(f"{what} at byte offset {len(self._source[:at].encode())}{more}")


def _without_language(entity: Entity) -> Entity:
    """Remove the language: only code blocks have one."""
    return replace(entity, language=None) if entity.type == "code" else entity


def _fills(entity: Entity, kind: str, offset: int, length: int) -> bool:
    return (entity.type, entity.offset, entity.length) == (kind, offset, length)


def _decoded(match: re.Match[str]) -> str | None:
    decimal, hexadecimal, name = match.groups()
    if name is not None:
        return _NAMED.get(name)
    number = int(decimal) if decimal is not None else int(hexadecimal, 16)
    good = 0 < number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(number) if good else None


def _refuse(reason: str) -> Refuse:
    return bad(f"can't parse entities: {reason}")
