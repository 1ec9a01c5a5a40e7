"""From an event to an Inbound."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from segue.core.address import Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import UNREADABLE, parsed
from segue.platforms.matrix import wire
from segue.platforms.matrix.rooms import Room

_FILES = {
    "m.image": FileKind.PHOTO,
    "m.audio": FileKind.AUDIO,
    "m.video": FileKind.VIDEO,
    "m.file": FileKind.DOCUMENT,
    "m.sticker": FileKind.STICKER,
}
_TEXTS = ("m.text", "m.emote")  # bots write m.notice
_THREAD, _EDIT = "m.thread", "m.replace"
# What older clients put before a reply: the message that it answers, as a quotation.
_FALLBACK = re.compile(r"> <@[^\n]*\n(?:> [^\n]*\n)*\n")
_POINT = re.compile(r"geo:(-?\d+(?:\.\d+)?),(-?\d+(?:\.\d+)?)")


class Original(msgspec.Struct, frozen=True):
    """An event that another one refers to: an edit, a reaction or a reply."""

    sender: str
    content: wire.EventContent
    raw: dict[str, Any]
    """The content, with what we do not parse."""

    @property
    def thread(self) -> str | None:
        return thread_of(self.content.relation)

    @property
    def text(self) -> str:
        return content.quoted(*words(self.content))


def original(event: wire.RoomEvent, newest: dict[str, Any] | None = None) -> Original | None:
    """The event, with the content of its newest edit, if there is one."""
    try:
        raw = msgspec.json.decode(event.content, type=dict[str, Any])
        if newest is not None:
            raw = {**newest, "m.relates_to": raw.get("m.relates_to", {})}
        return Original(event.sender, msgspec.convert(raw, wire.EventContent), raw)
    except UNREADABLE:
        return None


def thread_of(relation: wire.Relation) -> str | None:
    """The thread that an event is in. A reply without one is in the main timeline, even if it
    answers a message of a thread: that is where other clients show it."""
    return (relation.event_id or None) if relation.rel_type == _THREAD else None


def event(raw: msgspec.Raw) -> wire.RoomEvent | None:
    return parsed(bytes(raw), wire.RoomEvent)


def reaction(event: wire.RoomEvent) -> str:
    """The label of a reaction."""
    found = parsed(bytes(event.content), wire.EventContent)
    return found.relation.key if found else ""


def is_edit(event: wire.RoomEvent) -> bool:
    found = parsed(bytes(event.content), wire.EventContent)
    return found is not None and found.relation.rel_type == _EDIT


def target(event: wire.RoomEvent) -> str:
    """The event that this edit, reaction or reply is about. Empty if it is about none."""
    found = parsed(bytes(event.content), wire.EventContent)
    if found is None:
        return ""
    relation = found.relation
    if relation.rel_type in (_EDIT, "m.annotation"):
        return relation.event_id
    answers = relation.reply and not (relation.rel_type == _THREAD and relation.is_falling_back)
    return relation.reply.event_id if answers and relation.reply else ""


def parse(
    event: wire.RoomEvent, room: Room, me: str, names: tuple[str, ...], about: Original | None
) -> Inbound | None:
    """Return what a user did as an Inbound, or None if we ignore it. Ignored are our own events,
    notices, which only bots write, and edits by others. `names` are what users call the bot."""
    if event.sender == me:
        return None
    try:
        match event.type:
            case "m.room.message" | "m.sticker":
                return _message(event, room, me, names, about)
            case "m.reaction":
                return _reaction(event, room, me, about)
            case _:
                return None
    except (*UNREADABLE, ValueError):  # an Address has no empty ids
        return None


def joined(event: wire.RoomEvent, room: Room, me: str) -> Inbound | None:
    """The bot's own arrival in a room, by invitation."""
    state, before = parsed(bytes(event.content), wire.Membership), event.unsigned.prev_content
    if (event.type, event.state_key, event.sender) != ("m.room.member", me, me) or not state:
        return None
    if state.membership != "join" or before is None or before.membership != "invite":
        return None
    return _inbound(InboundKind.JOINED, event, room, None, event.unsigned.prev_sender or me)


def moved(event: wire.RoomEvent, old: Room, new: Room) -> Inbound:
    return _inbound(InboundKind.MOVED, event, old, None, event.sender, moved_to=new.at())


def _message(
    event: wire.RoomEvent, room: Room, me: str, names: tuple[str, ...], about: Original | None
) -> Inbound | None:
    said = msgspec.json.decode(event.content, type=wire.EventContent)
    relation, kind, name = said.relation, InboundKind.MESSAGE, event.event_id
    if event.type == "m.sticker":
        said = msgspec.structs.replace(said, msgtype="m.sticker")
    if relation.rel_type == _EDIT:
        if about is None or about.sender != event.sender or said.new is None:
            return None
        said = msgspec.convert(said.new, wire.EventContent)
        kind, name, relation = InboundKind.EDIT, relation.event_id, about.content.relation
    text, files = words(said)
    if not (text or files):
        return None
    quote = None
    if kind is InboundKind.MESSAGE and about is not None:
        quote = Quote(
            author="" if about.sender == me else room.members.get(about.sender, about.sender),
            text=about.text,
            ours=about.sender == me,
        )
    text, named = _without_name(text, names)
    mentioned = me in said.mentions.user_ids if said.mentions else False
    to_us = room.direct or named or mentioned or (quote is not None and quote.ours)
    return _inbound(
        kind,
        event,
        room,
        thread_of(relation),
        text=text,
        message_id=name,
        attachments=tuple(files),
        addressed=to_us,
        quote=quote,
    )


def _reaction(event: wire.RoomEvent, room: Room, me: str, about: Original | None) -> Inbound | None:
    relation = msgspec.json.decode(event.content, type=wire.EventContent).relation
    if about is None or about.sender != me:
        return None
    data = about.content.buttons.get(relation.key)
    if data is None:
        return None
    message, thread = relation.event_id, about.thread
    return _inbound(InboundKind.BUTTON, event, room, thread, text=data, message_id=message)


def _inbound(
    kind: InboundKind,
    event: wire.RoomEvent,
    room: Room,
    thread: str | None,
    user: str = "",
    **more: Any,
) -> Inbound:
    user = user or event.sender
    others = len(room.members) - (2 if room.direct else 0)
    return Inbound(
        kind=kind,
        update_id=event.event_id,
        address=room.at(thread),
        sender=Sender(platform=Platform.MATRIX, user_id=user, name=room.members.get(user, "")),
        chat_name=room.name,
        topic=room.topic,
        readers=content.members(room.name, len(room.members)) if others > 0 else "",
        **more,
    )


# Content


def words(said: wire.EventContent) -> tuple[str, list[Attachment]]:
    """The text of a message, and its files."""
    if said.msgtype in _TEXTS:
        has_reply = said.relation.reply is not None
        return (_FALLBACK.sub("", said.body, 1) if has_reply else said.body), []
    if said.msgtype == "m.location" and (point := _POINT.match(said.geo_uri)):
        return content.place(float(point[1]), float(point[2])), []
    if (kind := _FILES.get(said.msgtype)) is None:
        return "", []
    file = json.dumps(said.file) if said.file else said.url
    if not file:
        return "", []
    # Without a file name, the body is one. With it, the body is a caption.
    name = said.filename or said.body
    caption = said.body if said.filename and said.filename != said.body else ""
    media, size = said.info.mimetype or "", said.info.size or 0
    return caption, [content.attachment(kind, file, name=name, media_type=media, size=size)]


def _without_name(text: str, names: tuple[str, ...]) -> tuple[str, bool]:
    """The text without the bot's name at its start, and whether it was there."""
    for name in names:
        if text[: len(name)].lower() == name.lower():
            rest = text[len(name) :]
            if not rest[:1].isalnum():
                return content.without_name(rest, text), True
    return text, False
