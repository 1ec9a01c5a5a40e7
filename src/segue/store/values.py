"""How values stand in columns: times as whole microseconds, structures as JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from segue.core.address import Address, ChatType, Platform
from segue.core.errors import MessageTooLong
from segue.core.text import one_line, whole
from segue.core.transcript import Image, Kind, Message, Role, ToolCall

MESSAGE_LIMIT = 8 * 1024 * 1024
"""The most bytes of text that one message may hold."""

Buttons = tuple[tuple[str, str], ...]
"""What a person can press under a message: label and data of each."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ROLES = {role.value: role for role in Role}
_KINDS = {kind.value: kind for kind in Kind}
_tool_calls = msgspec.json.Decoder(tuple[ToolCall, ...])
_extras = msgspec.json.Decoder(dict[str, Any])
_images = msgspec.json.Decoder(tuple[Image, ...])
_buttons = msgspec.json.Decoder(Buttons)

MESSAGE_COLUMNS = (
    "role, content, at, tool_calls, tool_call_id, tool_name, tokens, kind, extras, images,"
    " keeps, id"
)


def shown(url: str) -> str:
    """A store's URL as it may be shown: without user, password and parameters."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url if url.replace("/", "").isalnum() else "…"
    host = re.split("[?#]", rest)[0].rpartition("@")[2]
    return f"{scheme}://{host}"


def listed(platforms: Iterable[Platform]) -> str:
    """Platforms as literals for IN (…). Theirs is a closed set of plain words."""
    return ", ".join(f"'{platform.value}'" for platform in sorted(platforms)) or "''"


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stored)


def moment_or_none(stored: int | None) -> datetime | None:
    return None if stored is None else moment(stored)


def readable_address(key: str) -> Address:
    """The Address of a row that has to be listed, also when its key is no session key."""
    try:
        return Address.parse(key)
    except ValueError:
        return Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=key or "?")


def unreadable(error: ValueError) -> str:
    """Why a row is set aside that does not hold what it should."""
    return f"It cannot be read: {one_line(str(error), 200)}."


def address_or_none(key: str | None) -> Address | None:
    return None if key is None else Address.parse(key)


def text(value: str) -> str:
    """`value` as both databases can keep it: what UTF-8 or PostgreSQL cannot hold is marked."""
    return whole(value).replace("\0", "\ufffd")


def buttons_json(buttons: Buttons) -> str | None:
    """As they stand in a column; NULL for none."""
    if not buttons:
        return None
    return msgspec.json.encode([(text(label), text(data)) for label, data in buttons]).decode()


def parse_buttons(stored: str | None) -> Buttons:
    return _buttons.decode(stored) if stored else ()


def message_columns(message: Message, message_id: int) -> dict[str, Any]:
    """One row of `messages`; MessageTooLong when it would not be sensible to keep."""
    calls = extras = images = None
    if message.tool_calls:
        kept = [ToolCall(text(c.id), text(c.name), text(c.arguments)) for c in message.tool_calls]
        calls = msgspec.json.encode(kept).decode()
    if message.extras is not None:
        extras = msgspec.json.encode(_plain(message.extras)).decode()
    if message.images:
        images = msgspec.json.encode(message.images).decode()
    content = text(message.content)
    size = len(content.encode()) + sum(len(part or "") for part in (calls, extras, images))
    if size > MESSAGE_LIMIT:
        raise MessageTooLong(size=size, limit=MESSAGE_LIMIT)
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
    }


def _plain(value: Any) -> Any:
    """The same JSON, of text that can be kept."""
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
    """The Message in a row of MESSAGE_COLUMNS."""
    role, content, at, calls, call_id, name, tokens, kind, extras, images, keeps, message_id = row
    return Message(
        _ROLES[role],
        content,
        datetime.fromtimestamp(at / 1_000_000, UTC),  # exact for all times that have microseconds
        _tool_calls.decode(calls) if calls else (),
        call_id,
        name,
        tokens,
        _KINDS[kind],
        _extras.decode(extras) if extras else None,
        _images.decode(images) if images else (),
        keeps,
        message_id & 0xFFFFFFFF,
    )
