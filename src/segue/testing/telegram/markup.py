"""A parser for Telegram's HTML, as strict as Telegram's own.

The tags are documented at core.telegram.org/bots/api#html-style; those that we never send are not
known here. The errors follow `parse_html` of tdlib/td (td/telegram/MessageEntity.cpp); offsets in
them are in bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec.structs import replace

from segue.testing.telegram.entities import Entity, Formatted, units
from segue.testing.telegram.errors import Refuse, bad

_TYPES = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline",
    "ins": "underline", "s": "strikethrough", "strike": "strikethrough", "del": "strikethrough",
    "tg-spoiler": "spoiler", "a": "text_link", "code": "code", "pre": "pre",
    "blockquote": "blockquote",
}  # fmt: skip
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_CHARACTER = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]+));?")
_TOKEN = re.compile(rf"[^&<]+|{_CHARACTER.pattern}|&|</([^\s>]*)\s*|<([^\s>]*)")
_ATTRIBUTE = re.compile(r"""([^\s=>/"']*)\s*(?:(=)\s*(?:"([^"]*)"|'([^']*)'|([a-zA-Z0-9.-]*)))?""")
_SPACE = re.compile(r"\s*")
_LINK = re.compile(r"(?:https?|tg|ton|mailto|tel|ftp)://\S+|mailto:\S+|tel:\S+", re.IGNORECASE)


class _Open(NamedTuple):
    """An open tag."""

    name: str
    at: int
    """Its offset in the output."""
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
        self._open.append(_Open(name, units(self._text), self._attributes(name, begin)))

    def _attributes(self, name: str, begin: int) -> dict[str, str]:
        attributes: dict[str, str] = {}
        while (here := self._next(name, begin)) != ">":
            match = _ATTRIBUTE.match(self._source, self._at)
            if match is None or not match[1]:
                raise self._wrong(f'Empty attribute name in the tag "{name}"', begin)
            self._at = match.end()
            if self._at >= len(self._source):
                raise self._wrong(f'Unclosed start tag "{name}"', begin)
            if (here := self._source[self._at]) in "\"'":
                raise self._wrong("Unclosed start tag", begin)
            if match[5] is not None and (not match[5] or here not in " \n\t>"):
                raise self._wrong("Unexpected end of name token", match.start(5))
            value = next((group for group in match.group(3, 4, 5) if group is not None), "")
            attributes[match[1].lower()] = _decoded(value)
        self._at += 1
        return attributes

    def _next(self, name: str, begin: int) -> str:
        """The next character inside a tag."""
        space = _SPACE.match(self._source, self._at)
        self._at = self._at if space is None else space.end()
        if self._at >= len(self._source):
            raise self._wrong(f'Unclosed start tag "{name}"', begin)
        return self._source[self._at]

    def _end(self, name: str, begin: int) -> None:
        if not self._open:
            raise self._wrong("Unexpected end tag", begin)
        if not self._source.startswith(">", self._at):
            raise self._wrong("Unclosed end tag", begin)
        self._at += 1
        tag = self._open.pop()
        if name and name != tag.name:
            raise self._wrong(
                "Unmatched end tag", begin, f', expected "</{tag.name}>", found "</{name}>"'
            )
        if (length := units(self._text) - tag.at) > 0:
            self._add(tag, length)

    def _add(self, tag: _Open, length: int) -> None:
        kind, url, language = _TYPES[tag.name], None, None
        match tag.name:
            case "pre" if self._entities:
                # A code block with a language is `pre` around a single `code` with a class.
                last = self._entities[-1]
                if (last.type, last.offset, last.length) == ("code", tag.at, length):
                    language = self._entities.pop().language
            case "code":
                language = tag.attributes.get("class", "").removeprefix("language-") or None
            case "a":
                if (url := self._url(tag)) is None:
                    return
            case "blockquote" if "expandable" in tag.attributes:
                kind = "expandable_blockquote"
            case _:
                pass
        self._entities.append(
            Entity(type=kind, offset=tag.at, length=length, url=url, language=language)
        )

    def _url(self, tag: _Open) -> str | None:
        """The URL of a link. A link without a valid one is shown as plain text."""
        label = self._text.encode("utf-16-le")[2 * tag.at :].decode("utf-16-le")
        url = tag.attributes.get("href") or label
        if "://" not in url and "." in url:
            url = f"http://{url}"
        return url if _LINK.fullmatch(url) else None

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
