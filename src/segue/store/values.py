"""Conversion between values and columns: times are microseconds, structures are JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, cast

import msgspec

from segue.core import provenance
from segue.core.address import Address, ChatType, Platform
from segue.core.text import one_line, whole
from segue.core.transcript import Image, Kind, Message, Outcome, Role, ToolCall
from segue.store import errors

MESSAGE_LIMIT = 8 * 1024 * 1024
"""The maximum size of one message, in bytes."""

Buttons = tuple[tuple[str, str], ...]
"""The buttons under a message: label and data of each."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ROLES = {role.value: role for role in Role}
_KINDS = {kind.value: kind for kind in Kind}
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_tool_calls = msgspec.json.Decoder(tuple[ToolCall, ...])
_extras = msgspec.json.Decoder(dict[str, Any])
_images = msgspec.json.Decoder(tuple[Image, ...])
_buttons = msgspec.json.Decoder(Buttons)

MESSAGE_COLUMNS = (
    "role, content, at, tool_calls, tool_call_id, tool_name, tokens, kind, extras, images,"
    " keeps, outcome, provenance, id"
)


def shown(url: str) -> str:
    """A store URL that is safe to show: without user, password and parameters."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url if url.replace("/", "").isalnum() else "…"
    host = re.split("[?#]", rest)[0].rpartition("@")[2]
    return f"{scheme}://{host}"


def listed(words: Iterable[StrEnum]) -> str:
    """Platforms or states as SQL literals for IN (…). They are closed sets of plain words."""
    return ", ".join(f"'{word.value}'" for word in sorted(words)) or "''"


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stored)


def moment_or_none(stored: int | None) -> datetime | None:
    return None if stored is None else moment(stored)


def readable_address(key: str) -> Address:
    """The Address for a session key, or a placeholder if the key is invalid, so that its row can
    still be listed."""
    try:
        return Address.parse(key)
    except ValueError:
        return Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=key or "?")


def unreadable(error: Exception) -> str:
    """The error of a row that cannot be read."""
    return f"It cannot be read: {one_line(str(error), 200)}."


def address_or_none(key: str | None) -> Address | None:
    return None if key is None else Address.parse(key)


def beyond(start: str) -> str:
    """The first text, byte by byte, that is greater than all that begin with `start`, which ends
    with an ASCII character."""
    return start[:-1] + chr(ord(start[-1]) + 1)


def chat_key(address: Address) -> str:
    """The key of the chat of an address: without its thread."""
    return address.key if address.thread_id is None else replace(address, thread_id=None).key


def text(value: str) -> str:
    """`value` as both databases can store it: U+FFFD replaces what UTF-8 or PostgreSQL cannot
    hold."""
    return whole(value).replace("\0", "\ufffd")


def buttons_json(buttons: Buttons) -> str | None:
    """Encode buttons for a column. None if there are none."""
    if not buttons:
        return None
    return msgspec.json.encode([(text(label), text(data)) for label, data in buttons]).decode()


def parse_buttons(stored: str | None) -> Buttons:
    return _buttons.decode(stored) if stored else ()


def message_columns(message: Message, message_id: int) -> dict[str, Any]:
    """The columns of one row of `messages`. Raise UserError if it exceeds MESSAGE_LIMIT."""
    calls = extras = images = None
    if message.tool_calls:
        kept = [ToolCall(text(c.id), text(c.name), text(c.arguments)) for c in message.tool_calls]
        calls = msgspec.json.encode(kept).decode()
    if message.extras is not None:
        extras = msgspec.json.encode(_plain(message.extras)).decode()
    if message.images:
        images = msgspec.json.encode(message.images).decode()
    content = text(message.content)
    size = len(content.encode()) + sum(map(len, filter(None, (calls, extras, images))))
    if size > MESSAGE_LIMIT:
        raise errors.message_too_long(size, MESSAGE_LIMIT)
    return {
        "id": message_id,
        "role": message.role.value,
        "content": content,
        "at": micros(message.at),
        "tool_calls": calls,
        "tool_call_id": None if message.tool_call_id is None else text(message.tool_call_id),
        "tool_name": None if message.tool_name is None else text(message.tool_name),
        "tokens": message.tokens,
        "kind": message.kind.value,
        "extras": extras,
        "images": images,
        "keeps": message.keeps,
        "outcome": None if message.outcome is None else message.outcome.value,
        "provenance": provenance.encode(message.provenance),
    }


def _plain(value: Any) -> Any:
    """The same JSON value, with text that can be stored."""
    match value:
        case str():
            return whole(value)
        case dict():
            return {whole(str(k)): _plain(v) for k, v in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_plain(v) for v in cast("list[Any]", value)]
        case _:
            return value


def message(row: tuple[Any, ...]) -> Message:
    """Return the Message in a row of MESSAGE_COLUMNS."""
    role, content, at, calls, call_id, name, tokens, kind, extras, images, *rest = row
    keeps, outcome, authors, no = rest
    return Message(
        _ROLES[role],
        content,
        datetime.fromtimestamp(at / 1_000_000, UTC),  # exact to the microsecond
        _tool_calls.decode(calls) if calls else (),
        call_id,
        name,
        tokens,
        _KINDS[kind],
        _extras.decode(extras) if extras else None,
        _images.decode(images) if images else (),
        keeps,
        _OUTCOMES[outcome] if outcome else None,
        provenance.parse(authors),
        no & 0xFFFFFFFF,
    )
