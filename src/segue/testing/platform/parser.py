"""Parse a frame of the test platform into an Inbound: the edge of the adapter."""

from __future__ import annotations

import msgspec

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.errors import UNREADABLE
from segue.testing.platform.wire import (
    Changed,
    Commanded,
    Joined,
    Pressed,
    Removed,
    Said,
    Update,
    WireChat,
    WireFile,
    WireMessage,
    WireQuote,
)

_KINDS: dict[type[Update], InboundKind] = {
    Said: InboundKind.MESSAGE,
    Changed: InboundKind.EDIT,
    Commanded: InboundKind.COMMAND,
    Pressed: InboundKind.BUTTON,
    Removed: InboundKind.DELETED,
    Joined: InboundKind.JOINED,
}
_decoder = msgspec.json.Decoder(Update)


def parse(platform: Platform, frame: str) -> Inbound | None:
    """Return the update as an Inbound, or None.

    Malformed updates, unknown kinds, and updates caused by bots, including ours, are ignored.
    """
    try:
        update = _decoder.decode(frame)
    except UNREADABLE:
        return None
    return None if update.user.bot else _inbound(platform, update)


def address(platform: Platform, chat: WireChat, thread: str | None) -> Address:
    return Address(
        platform=platform, chat_type=ChatType(chat.type), chat_id=chat.id, thread_id=thread
    )


def _inbound(platform: Platform, update: Update) -> Inbound:
    message = _message(update)
    return Inbound(
        kind=_KINDS[type(update)],
        update_id=update.id,
        address=address(platform, update.chat, update.thread),
        sender=Sender(platform=platform, user_id=update.user.id, name=update.user.name),
        text=message.text,
        message_id=message.id,
        attachments=tuple(map(_attachment, message.files)),
        addressed=message.addressed or isinstance(update, Commanded),
        chat_name=update.chat.name,
        topic=update.chat.topic,
        readers=_readers(update.chat),
        forwarded_from=message.forwarded_from,
        quote=_quote(message.quote),
    )


def _message(update: Update) -> WireMessage:
    """The message of the update, or the one whose button was pressed."""
    match update:
        case Said(message=message) | Changed(message=message) | Commanded(message=message):
            return message
        case Pressed():
            return WireMessage(id=update.message, text=update.data)
        case Removed():
            return WireMessage(id=update.message, text="")
        case Joined():
            return WireMessage(id="", text="")


def _quote(quote: WireQuote | None) -> Quote | None:
    if quote is None:
        return None
    return Quote(
        author=quote.author.name,
        text=quote.text,
        ours=quote.author.bot,
        message_id=quote.id,
    )


def _attachment(file: WireFile) -> Attachment:
    return Attachment(id=file.id, name=file.name, media_type=file.media_type, size=file.size)


def _readers(chat: WireChat) -> str:
    return "" if chat.members <= 1 else content.members(chat.name, chat.members)
