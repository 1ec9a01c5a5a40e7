"""Text as Telegram reads and stores it: cleaning, entities, and HTML.

core.telegram.org/bots/api#messageentity describes the entities. Cleaning follows
`clean_input_string` of tdlib/td (td/telegram/misc.cpp). The tags are documented at #html-style;
those that we never send are not known here. The errors follow `parse_html` of tdlib/td
(td/telegram/MessageEntity.cpp); offsets in them are in bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec.structs import replace

from tests.fakes.protocols.entities import Entity, Formatted, units
from tests.fakes.telegram.state import Refuse, bad

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
_CHARACTER = re.compile(r"&(lt|gt|amp|quot)(?![a-zA-Z]);?")
_TOKEN = re.compile(
    r'[^<]+|<(?P<slash>/?)(?P<name>[^\s>]*)(?P<attributes>(?:\s+[a-z-]+="[^"]*")*)\s*(?P<end>>?)'
)
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')
_LINK = re.compile(r"(?:https?|tg|ton|mailto|tel|ftp)://\S+|mailto:\S+|tel:\S+", re.IGNORECASE)


def cleaned(text: str) -> str:
    """Replace or remove the characters that Telegram does not keep."""
    return _REMOVED.sub("", _SPACED.sub(" ", text))


def is_empty(text: str) -> bool:
    """Return whether the text contains nothing visible."""
    return _NOTHING.fullmatch(text) is not None


def found(text: str) -> tuple[Entity, ...]:
    """The commands and mentions that Telegram detects in a user's text."""
    entities: list[Entity] = []
    for kind, pattern in _FOUND.items():
        for it in pattern.finditer(text):
            offset = units(text[: it.start()])
            entities.append(Entity(type=kind, offset=offset, length=units(it[0])))
    return tuple(sorted(entities, key=lambda it: it.offset))


class _Tag(NamedTuple):
    """An open tag, and its offset in the output."""

    name: str
    at: int
    attributes: dict[str, str]


def parse_html(source: str) -> Formatted:
    """Return the text and its entities. Raises Refuse with Telegram's error text."""
    text = ""
    tags = list[_Tag]()
    entities = list[Entity]()
    for token in _TOKEN.finditer(source):
        at = f"at byte offset {len(source[: token.start()].encode())}"
        if token["name"] is None:
            text += _decoded(token[0])
        elif not token["slash"]:
            tags.append(_begin(token, at, units(text)))
        else:
            tag = _end(token, at, tags)
            if (length := units(text) - tag.at) > 0:
                entity = Entity(type=_TYPES[tag.name], offset=tag.at, length=length)
                _add(entities, tag, entity, text)
    if tags:
        raise _refuse(f'Can\'t find end tag corresponding to start tag "{tags[-1].name}"')
    # Only code blocks have a language.
    kept = (replace(it, language=None) if it.type == "code" else it for it in entities)
    return Formatted(text, tuple(sorted(kept, key=lambda it: it.offset)))


def _begin(token: re.Match[str], at: str, offset: int) -> _Tag:
    if token.end("name") == len(token.string):
        raise _refuse(f"Unclosed start tag {at}")
    if (name := token["name"].lower()) not in _TYPES:
        raise _refuse(f'Unsupported start tag "{name}" {at}')
    if not token["end"]:
        # Telegram has an error for each kind of mistake, and accepts other quotes.
        raise _refuse(f'Unclosed start tag "{name}" {at}')
    attributes = {it[1]: _decoded(it[2]) for it in _ATTRIBUTE.finditer(token["attributes"])}
    return _Tag(name, offset, attributes)


def _end(token: re.Match[str], at: str, tags: list[_Tag]) -> _Tag:
    if not tags:
        raise _refuse(f"Unexpected end tag {at}")
    if not token["end"] or token["attributes"]:
        raise _refuse(f"Unclosed end tag {at}")
    tag = tags.pop()
    name = token["name"].lower()
    if name not in ("", tag.name):
        raise _refuse(f'Unmatched end tag {at}, expected "</{tag.name}>", found "</{name}>"')
    return tag


def _add(entities: list[Entity], tag: _Tag, entity: Entity, text: str) -> None:
    last = entities[-1] if entities else entity
    if tag.name == "pre" and replace(last, type="pre", language=None) == entity != last:
        # A code block with a language is `pre` around a single `code` with a class.
        entity = replace(entity, language=entities.pop().language)
    elif tag.name == "code":
        language = tag.attributes.get("class", "").removeprefix("language-") or None
        entity = replace(entity, language=language)
    elif tag.name == "a":
        url = tag.attributes.get("href") or entity.of(text)
        if "://" not in url and "." in url:
            url = f"http://{url}"
        if not _LINK.fullmatch(url):
            return  # it is shown as plain text
        entity = replace(entity, url=url)
    entities.append(entity)


def _decoded(text: str) -> str:
    """Decode character references. An ampersand that starts none that we send is kept."""
    return _CHARACTER.sub(lambda it: _NAMED[it[1]], text)


def _refuse(reason: str) -> Refuse:
    return bad(f"can't parse entities: {reason}")
