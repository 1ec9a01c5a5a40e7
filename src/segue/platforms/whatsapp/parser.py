"""Convert what a webhook delivers to Inbounds: the adapter's edge."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import parsed
from segue.platforms.whatsapp import wire

_KINDS = {
    "image": FileKind.PHOTO,
    "video": FileKind.VIDEO,
    "audio": FileKind.AUDIO,
    "document": FileKind.DOCUMENT,
    "sticker": FileKind.STICKER,
}
_DIGITS = 12
_SILENT = frozenset({"system", "revoke", "request_welcome"})
"""Messages without content: a changed number, a deleted message, an opened chat."""


@dataclass(frozen=True, slots=True)
class WaUpdate:
    """One update of a webhook."""

    id: str
    """The timestamp and the platform's id: after a restart, the gateway returns it, and with it
    the time of the last message."""
    timestamp: int
    inbound: Inbound
    code: str = ""
    """Of a message of ours that did not arrive, the code of the error."""


@dataclass(frozen=True, slots=True)
class Parsed:
    updates: tuple[WaUpdate, ...] = ()
    skipped: int = 0
    """The number of updates that could not be parsed."""


def address(user: str) -> Address:
    return Address(platform=Platform.WHATSAPP, chat_type=ChatType.DM, chat_id=user)


def last_message(update_id: str) -> tuple[int, str]:
    """The timestamp and the message id in an update id; 0 and "" if it has none."""
    time, _, name = update_id.partition(" ")
    return (int(time), name) if time.isdecimal() and name else (0, "")


def parse(body: bytes, phone: str) -> Parsed:
    """Return the updates of a request for the number with the id `phone`. What is malformed or
    for another number is left out."""
    if (payload := parsed(body, wire.Payload)) is None:
        return Parsed(skipped=1)
    updates: list[WaUpdate] = []
    skipped = 0
    for change in (change for entry in payload.entry for change in entry.changes):
        value = parsed(change.value, wire.Value) if change.field == "messages" else None
        if value is None or value.metadata.phone_number_id != phone:
            skipped += change.field == "messages" and value is None
            continue
        names = {it.wa_id: it.profile.name or "" for it in value.contacts or () if it.wa_id}
        messages = [parsed(raw, wire.WaMessage) for raw in value.messages or ()]
        statuses = [parsed(raw, wire.WaStatus) for raw in value.statuses or ()]
        found = [
            *(it and _message(it, names, value.metadata.display_phone_number) for it in messages),
            *(it and _status(it) for it in statuses),
        ]
        skipped += sum(it is None for it in (*messages, *statuses))
        updates += (it for it in found if it is not None)
    return Parsed(tuple(updates), skipped)


def _message(it: wire.WaMessage, names: Mapping[str, str], number: str) -> WaUpdate | None:
    # Groups are for approved businesses. Their messages must not appear in a direct message.
    timestamp = _time(it.timestamp)
    if it.group_id or it.type in _SILENT or timestamp is None or not it.sender:
        return None
    kind, said, name = InboundKind.MESSAGE, it, it.id
    if it.type == "edit" and it.edit is not None:
        kind, said, name = InboundKind.EDIT, it.edit.message, it.edit.original_message_id
    text, files = _said(said)
    more: dict[str, Any] = {"text": text, "attachments": files}
    chosen = it.interactive and (it.interactive.button_reply or it.interactive.list_reply)
    context = said.context or wire.WaContext()
    if chosen is not None:
        kind, more = InboundKind.BUTTON, {"text": chosen.id or ""}
        name = context.id or ""
    elif context.forwarded or context.frequently_forwarded:
        more["forwarded_from"] = ""
    elif context.id and it.type != "button":
        mine = context.author == it.sender
        author = names.get(it.sender, "") if mine else ""
        more["quote"] = Quote(author=author, ours=context.author == number)
    if not (more["text"] or more.get("attachments")):
        return None
    sender = Sender(platform=Platform.WHATSAPP, user_id=it.sender, name=names.get(it.sender, ""))
    update_id = f"{timestamp} {it.id}"
    inbound = Inbound(
        kind=kind,
        update_id=update_id,
        address=address(it.sender),
        sender=sender,
        message_id=name,
        press_id=it.id,
        chat_name=sender.name,
        **more,
    )
    return WaUpdate(update_id, timestamp, inbound)


def _status(it: wire.WaStatus) -> WaUpdate | None:
    """A message of ours that did not arrive. Other statuses change nothing."""
    timestamp = _time(it.timestamp)
    if it.status != "failed" or timestamp is None or not it.recipient_id:
        return None
    error = it.errors[0] if it.errors else wire.GraphError(0, "no reason was given")
    to = address(it.recipient_id)
    inbound = Inbound(
        kind=InboundKind.UNDELIVERED,
        update_id=f"{timestamp} {it.id} failed",
        address=to,
        sender=Sender(platform=Platform.WHATSAPP, user_id=it.recipient_id),
        message_id=it.id,
        text=error.reason,
    )
    return WaUpdate(inbound.update_id, timestamp, inbound, f"#{error.code}")


def _time(timestamp: str) -> int | None:
    return int(timestamp) if timestamp.isdecimal() and len(timestamp) <= _DIGITS else None


def _said(it: wire.WaContent) -> tuple[str, tuple[Attachment, ...]]:
    """The words of a message and its files. What is no text is put in words."""
    if (kind := _KINDS.get(it.type)) is not None:
        media: wire.WaItem | None = getattr(it, it.type)
        if media is None or not media.id:
            return "", ()
        return media.caption or "", (_attachment(kind, media),)
    if it.text is not None:
        return it.text.body or "", ()
    if (at := it.location) is not None and at.latitude is not None and at.longitude is not None:
        return content.place(at.latitude, at.longitude, at.name or "", at.address or ""), ()
    if it.reaction is not None:
        return content.reaction(it.reaction.emoji or ""), ()
    if it.button is not None:  # of a template
        return it.button.text or "", ()
    shared = [
        content.contact(
            one.name.formatted_name or "",
            ", ".join(phone.phone or phone.wa_id or "" for phone in one.phones or ()),
        )
        for one in it.contacts or ()
    ]
    if it.type in ("unsupported", "order"):
        return content.UNSUPPORTED, ()
    return "\n".join(shared), ()


def _attachment(kind: FileKind, media: wire.WaItem) -> Attachment:
    media_type, _, _ = (media.mime_type or "").partition(";")
    kind = FileKind.VOICE if media.voice else kind
    suffix = mimetypes.guess_extension(media_type) or ""
    stem, _, _ = kind.value[0].partition(".")
    name = media.filename or (f"{stem}{suffix}" if suffix else "")
    return content.attachment(kind, media.id or "", name=name, media_type=media_type)
