"""The updates in the requests of the webhook, as they arrive and as Inbounds: the adapter's edge.

The first part has the parts of a request that we use. Fields that can be missing can also be null.
https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages
`parse` makes an Inbound of each update in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Raw, Struct, field

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import Refused, parsed
from segue.platforms.whatsapp.client import FAILURES, GraphError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FILES = {it: FileKind[it.upper()] for it in ("video", "audio", "document", "sticker")}
_FILES["image"] = FileKind.PHOTO
_SILENT = frozenset({"system", "request_welcome"})
"""Messages without content: a changed number, an opened chat."""
Timestamp = Annotated[str, Meta(pattern="^[0-9]{1,12}$")]


class WaItem(Struct, frozen=True):
    """A part of an update. Its kind decides which fields are set."""

    id: str | None = None
    author: str | None = field(name="from", default=None)
    forwarded: bool | None = None
    frequently_forwarded: bool | None = None
    body: str | None = None
    text: str | None = None
    caption: str | None = None
    filename: str | None = None
    mime_type: str | None = None
    voice: bool | None = None
    emoji: str | None = None
    button_reply: WaItem | None = None
    list_reply: WaItem | None = None
    latitude: float | None = None
    longitude: float | None = None
    name: str | None = None
    address: str | None = None
    formatted_name: str | None = None
    phone: str | None = None
    phone_number_id: str | None = None
    display_phone_number: str | None = None
    original_message_id: str | None = None
    message: WaMessage | None = None


class WaContact(Struct, frozen=True):
    """The sender of a message, or a contact that a user shares."""

    wa_id: str | None = None
    profile: WaItem | None = None
    name: WaItem | None = None
    phones: tuple[WaItem, ...] | None = None


class WaMessage(Struct, frozen=True, kw_only=True):
    """What a user sent. The field of the same name as its type is set."""

    type: str
    id: str = ""
    sender: str = field(name="from", default="")
    timestamp: Timestamp = ""
    group_id: str | None = None
    context: WaItem | None = None
    text: WaItem | None = None
    image: WaItem | None = None
    video: WaItem | None = None
    audio: WaItem | None = None
    document: WaItem | None = None
    sticker: WaItem | None = None
    location: WaItem | None = None
    contacts: tuple[WaContact, ...] | None = None
    reaction: WaItem | None = None
    interactive: WaItem | None = None
    button: WaItem | None = None
    edit: WaItem | None = None
    revoke: WaItem | None = None


class WaStatus(Struct, frozen=True):
    id: str
    status: str
    timestamp: Timestamp
    recipient_id: str
    errors: tuple[GraphError, ...] | None = None
    biz_opaque_callback_data: str | None = None


class Value(Struct, frozen=True):
    metadata: WaItem
    contacts: tuple[WaContact, ...] | None = None
    messages: tuple[Raw, ...] | None = None
    statuses: tuple[Raw, ...] | None = None


class Change(Struct, frozen=True):
    value: Raw
    field: str = ""


class WaEntry(Struct, frozen=True):
    changes: tuple[Change, ...]


class Payload(Struct, frozen=True):
    object: Literal["whatsapp_business_account"]
    entry: tuple[WaEntry, ...]


# As Inbounds


class WebhookUpdate(Struct, frozen=True):
    timestamp: int
    inbound: Inbound
    code: str = ""
    """Of a message of ours that did not arrive, the code of the error."""

    @property
    def id(self) -> str:
        return self.inbound.update_id


def address(user: str) -> Address:
    return Address(platform=Platform.WHATSAPP, chat_type=ChatType.DM, chat_id=user)


def last_message(update_id: str) -> tuple[int, str]:
    """The timestamp and the message id in the id of an update, which the gateway returns after a
    restart; 0 and "" if it has none."""
    time, _, name = update_id.partition(" ")
    return (int(time), name) if time.isdecimal() and name else (0, "")


def parse(body: bytes, phone: str) -> Generator[WebhookUpdate | None]:
    """Yield the updates of a request for the number with the id `phone`, and None for each part
    that is malformed."""
    payload = parsed(body, Payload)
    if payload is None:
        yield None
        return
    for change in chain.from_iterable(entry.changes for entry in payload.entry):
        if change.field != "messages":
            continue
        value = parsed(change.value, Value)
        if value is None:
            yield None
        elif value.metadata.phone_number_id == phone:
            yield from _each(value.messages, WaMessage, partial(_message, value))
            yield from _each(value.statuses, WaStatus, _status)


def _each(
    parts: Iterable[Raw] | None, kind: type[T], convert: Callable[[T], WebhookUpdate | None]
) -> Generator[WebhookUpdate | None]:
    """Yield the updates that `convert` makes of the parts of a request, and None for each part that
    is malformed, or for which `convert` fails. A part for which it returns None is ignored."""
    for raw in parts or ():
        part = parsed(raw, kind)
        if part is None:
            yield None
            continue
        try:
            update = convert(part)
        except Exception:
            logger.exception("part of a request failed")
            yield None
            continue
        if update is not None:
            yield update


def _message(value: Value, it: WaMessage) -> WebhookUpdate | None:
    # Groups are for approved businesses. Their messages must not appear in a direct message.
    is_in_group = it.group_id is not None
    if is_in_group or it.type in _SILENT or not (it.id and it.sender and it.timestamp):
        return None
    if it.revoke is not None or it.type == "revoke":
        return _deleted(it)
    known = {one.wa_id: one.profile.name for one in value.contacts or () if one.profile}
    sender = known.get(it.sender) or ""
    kind = InboundKind.MESSAGE
    name = it.id
    said = it
    if it.edit is not None and it.edit.message is not None:
        kind = InboundKind.EDIT
        name = it.edit.original_message_id or ""
        said = it.edit.message
    text, attachments = _said(said)
    forwarded_from = None
    quote = None
    context = said.context or WaItem()
    chosen = _chosen(it)
    if chosen is not None:
        kind = InboundKind.BUTTON
        name = context.id or ""
        text = chosen.id or ""
        attachments = ()
    elif context.forwarded or context.frequently_forwarded:
        forwarded_from = ""
    elif context.id and it.type != "button":
        quote = Quote(
            author=sender if context.author == it.sender else "",
            ours=context.author == value.metadata.display_phone_number,
            message_id=context.id,
        )
    if not (text or attachments):
        return None
    inbound = _inbound(
        kind,
        it.sender,
        name,
        sender,
        update_id=f"{it.timestamp} {it.id}",
        press_id=it.id,
        chat_name=sender,
        text=text,
        attachments=attachments,
        forwarded_from=forwarded_from,
        quote=quote,
    )
    return WebhookUpdate(int(it.timestamp), inbound)


def _chosen(it: WaMessage) -> WaItem | None:
    """The button that the user pressed, or the row of a list that the user chose."""
    if it.interactive is None:
        return None
    return it.interactive.button_reply or it.interactive.list_reply


def _deleted(it: WaMessage) -> WebhookUpdate | None:
    """The deletion of a message by its author."""
    if it.revoke is None or not it.revoke.original_message_id:
        return None
    name = it.revoke.original_message_id
    inbound = _inbound(InboundKind.DELETED, it.sender, name, update_id=f"{it.type} {it.id}")
    return WebhookUpdate(int(it.timestamp), inbound)


def _status(it: WaStatus) -> WebhookUpdate | None:
    """The delivery report of a message of ours. It repeats the message's key, if that has one."""
    if it.status == "failed":
        error = it.errors[0] if it.errors else GraphError(0)
        kind = InboundKind.UNDELIVERED
        code = f"#{error.code}"
        reason = FAILURES.reason(Refused(400, error.reason, code=code))
        text = f"{reason} ({code})"
    elif it.status in ("sent", "delivered"):
        kind = InboundKind.DELIVERED
        code = ""
        text = it.biz_opaque_callback_data
    else:
        return None
    if not text or not it.recipient_id:
        return None
    update_id = f"{it.status} {it.id}"
    inbound = _inbound(kind, it.recipient_id, it.id, update_id=update_id, text=text)
    return WebhookUpdate(int(it.timestamp), inbound, code)


def _inbound(kind: InboundKind, user: str, message: str, name: str = "", **more: Any) -> Inbound:
    sender = Sender(platform=Platform.WHATSAPP, user_id=user, name=name)
    return Inbound(kind=kind, address=address(user), sender=sender, message_id=message, **more)


# Content


def _said(it: WaMessage) -> tuple[str, tuple[Attachment, ...]]:
    """The text of a message and its files. Other content is described in words."""
    if it.type not in _FILES:
        return _words(it) or "", ()
    file: WaItem = getattr(it, it.type) or WaItem()
    if not file.id:
        return "", ()
    kind = FileKind.VOICE if file.voice else _FILES[it.type]
    media_type = (file.mime_type or "").partition(";")[0]
    name = file.filename or ""
    attachment = content.attachment(kind, file.id, name=name, media_type=media_type)
    return file.caption or "", (attachment,)


def _words(it: WaMessage) -> str | None:
    if it.text is not None:
        return it.text.body
    if it.button is not None:  # of a template
        return it.button.text
    if it.reaction is not None:
        return content.reaction(it.reaction.emoji or "")
    if (at := it.location) is not None and at.latitude is not None and at.longitude is not None:
        return content.location(at.latitude, at.longitude, at.name or "", at.address or "")
    if it.type in ("unsupported", "order"):
        return content.UNSUPPORTED
    return "\n".join(_contact(one) for one in it.contacts or () if one.name is not None)


def _contact(contact: WaContact) -> str:
    name = "" if contact.name is None else contact.name.formatted_name or ""
    phones = [it.phone or "" for it in contact.phones or ()]
    return content.contact(name, *phones)
