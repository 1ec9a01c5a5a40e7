"""Convert what a webhook delivers to Inbounds: the adapter's edge."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import Refused, parsed
from segue.platforms.hub import HubUpdate, each
from segue.platforms.whatsapp import wire
from segue.platforms.whatsapp.client import FAILURES

_FILES = {it: FileKind[it.upper()] for it in ("video", "audio", "document", "sticker")}
_FILES["image"] = FileKind.PHOTO
_SILENT = frozenset({"system", "request_welcome"})
"""Messages without content: a changed number, an opened chat."""


def address(user: str) -> Address:
    return Address(platform=Platform.WHATSAPP, chat_type=ChatType.DM, chat_id=user)


def last_message(update_id: str) -> tuple[int, str]:
    """The timestamp and the message id in the id of an update, which the gateway returns after a
    restart; 0 and "" if it has none."""
    time, _, name = update_id.partition(" ")
    return (int(time), name) if time.isdecimal() and name else (0, "")


def parse(body: bytes, phone: str) -> Generator[HubUpdate | None]:
    """Yield the updates of a request for the number with the id `phone`, and None for each part
    that is malformed."""
    if (payload := parsed(body, wire.Payload)) is None:
        yield None
        return
    for change in (change for entry in payload.entry for change in entry.changes):
        if change.field != "messages":
            continue
        if (value := parsed(change.value, wire.Value)) is None:
            yield None
        elif value.metadata.phone_number_id == phone:
            yield from each(value.messages, wire.WaMessage, partial(_message, value))
            yield from each(value.statuses, wire.WaStatus, _status)


def _message(value: wire.Value, it: wire.WaMessage) -> HubUpdate | None:
    # Groups are for approved businesses. Their messages must not appear in a direct message.
    is_in_group = it.group_id is not None
    if is_in_group or it.type in _SILENT or not (it.id and it.sender and it.timestamp):
        return None
    if it.revoke is not None or it.type == "revoke":
        return _deleted(it)
    kind, said, name = InboundKind.MESSAGE, it, it.id
    if it.edit is not None and it.edit.message is not None:
        kind, said, name = InboundKind.EDIT, it.edit.message, it.edit.original_message_id or ""
    known = {one.wa_id: one.profile.name for one in value.contacts or () if one.profile}
    sender = known.get(it.sender) or ""
    more: dict[str, Any] = dict(zip(("text", "attachments"), _said(said), strict=True))
    context = said.context or wire.WaItem()
    if chosen := it.interactive and (it.interactive.button_reply or it.interactive.list_reply):
        kind, name, more = InboundKind.BUTTON, context.id or "", {"text": chosen.id or ""}
    elif context.forwarded or context.frequently_forwarded:
        more["forwarded_from"] = ""
    elif context.id and it.type != "button":
        ours = context.author == value.metadata.display_phone_number
        author = sender if context.author == it.sender else ""
        more["quote"] = Quote(author=author, ours=ours, message_id=context.id)
    if not (more["text"] or more.get("attachments")):
        return None
    more |= {"update_id": f"{it.timestamp} {it.id}", "press_id": it.id, "chat_name": sender}
    return HubUpdate(int(it.timestamp), _inbound(kind, it.sender, name, sender, **more))


def _deleted(it: wire.WaMessage) -> HubUpdate | None:
    """The deletion of a message by its author."""
    name = it.revoke and it.revoke.original_message_id
    if not name:
        return None
    more = {"update_id": f"{it.type} {it.id}"}
    return HubUpdate(int(it.timestamp), _inbound(InboundKind.DELETED, it.sender, name, **more))


def _status(it: wire.WaStatus) -> HubUpdate | None:
    """What became of a message of ours. Its key, if it has one, comes back."""
    kind, code, text = InboundKind.DELIVERED, "", it.biz_opaque_callback_data
    if it.status == "failed":
        error = it.errors[0] if it.errors else wire.GraphError(0)
        kind, code = InboundKind.UNDELIVERED, f"#{error.code}"
        text = f"{FAILURES.reason(Refused(400, error.reason, code=code))} ({code})"
    if not text or not it.recipient_id or it.status not in ("sent", "delivered", "failed"):
        return None
    more = {"update_id": f"{it.status} {it.id}", "text": text}
    return HubUpdate(int(it.timestamp), _inbound(kind, it.recipient_id, it.id, **more), code)


def _inbound(kind: InboundKind, user: str, message: str, name: str = "", **more: Any) -> Inbound:
    sender = Sender(platform=Platform.WHATSAPP, user_id=user, name=name)
    return Inbound(kind=kind, address=address(user), sender=sender, message_id=message, **more)


# Content


def _said(it: wire.WaMessage) -> tuple[str, tuple[Attachment, ...]]:
    """The words of a message and its files. What is no text is put in words."""
    if it.type not in _FILES:
        return _words(it) or "", ()
    file: wire.WaItem = getattr(it, it.type) or wire.WaItem()
    if not file.id:
        return "", ()
    kind, (media_type, _, _) = _FILES[it.type], (file.mime_type or "").partition(";")
    kind, name = FileKind.VOICE if file.voice else kind, file.filename or ""
    attachment = content.attachment(kind, file.id, name=name, media_type=media_type)
    return file.caption or "", (attachment,)


def _words(it: wire.WaMessage) -> str | None:
    if it.text is not None:
        return it.text.body
    if it.button is not None:  # of a template
        return it.button.text
    if it.reaction is not None:
        return content.reaction(it.reaction.emoji or "")
    if (at := it.location) is not None and at.latitude is not None and at.longitude is not None:
        return content.place(at.latitude, at.longitude, at.name or "", at.address or "")
    if it.type in ("unsupported", "order"):
        return content.UNSUPPORTED
    shared = [(one.name, one.phones or ()) for one in it.contacts or () if one.name]
    named = ((name.formatted_name or "", [p.phone or "" for p in them]) for name, them in shared)
    return "\n".join(content.contact(name, *phones) for name, phones in named)
