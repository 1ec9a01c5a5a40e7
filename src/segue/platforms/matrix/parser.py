"""Rooms, as their state says, and from an event in a room to an Inbound."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.matrix.wire import USER, EventContent, RoomEvent, is_id

MESSAGES = ("m.room.message", "m.sticker")
_FILES = {
    "m.image": FileKind.PHOTO,
    "m.audio": FileKind.AUDIO,
    "m.video": FileKind.VIDEO,
    "m.file": FileKind.DOCUMENT,
    "m.sticker": FileKind.STICKER,
}
_TEXTS = ("m.text", "m.emote", "m.location")  # bots write m.notice
# What older clients put before a reply: the message that it answers, as a quotation.
_FALLBACK = re.compile(r"> <@[^\n]*\n(?:> [^\n]*\n)*\n")
HERE = ("join", "invite")
_AWAY = ("leave", "ban", "knock")


def address(room_id: str, thread: str | None = None, *, direct: bool) -> Address:
    """The address of a room, or of a thread in it."""
    kind = ChatType.DM if direct else ChatType.GROUP
    return Address(
        platform=Platform.MATRIX, chat_type=kind, chat_id=room_id, thread_id=thread or None
    )


@dataclass(slots=True)
class Room:
    """A room that the bot is in. Its state is requested once, and then kept up to date."""

    id: str
    direct: bool = False
    name: str = ""
    topic: str = ""
    encrypted: bool = False
    algorithm: str | None = None
    """How it is encrypted, as its state says. None if its state does not."""
    members: dict[str, str] = field(default_factory=dict[str, str])
    """The names of those who are in it or invited, by their user ids."""
    unclear: set[str] = field(default_factory=set[str])
    """Users whose membership cannot be read. They get no keys, and the room is not private."""
    predecessor: str = ""
    """The room that this one replaces, as it says itself."""
    replacement: str = ""
    """The room that replaces this one."""

    def at(self, thread: str | None = None) -> Address:
        return address(self.id, thread, direct=self.direct)

    def apply(self, event: RoomEvent) -> None:
        """Take a state event."""
        state, key = event.content, event.state_key or ""
        match event.type, key:
            case "m.room.member", user:
                self._apply_member(user, state)
            case "m.room.name", "":
                self.name = state.name or ""
            case "m.room.topic", "":
                self.topic = state.topic or ""
            case "m.room.encryption", _:
                self.encrypted = True  # whatever it says, and it cannot be turned off
                if not key:
                    self.algorithm = state.algorithm
            case "m.room.create", "":
                self.predecessor = state.predecessor.get("room_id", "")
            case "m.room.tombstone", "":
                self.replacement = state.replacement_room
            case _:
                pass

    def _apply_member(self, user: str, state: EventContent) -> None:
        self.members.pop(user, None)
        self.unclear.discard(user)
        if state.membership not in (*HERE, *_AWAY) or not is_id(user, USER):
            self.unclear.add(user)
        elif state.membership in HERE:
            self.members[user] = state.displayname or user


def parse(
    event: RoomEvent, room: Room, me: str, names: Sequence[str], about: RoomEvent | None
) -> Inbound | None:
    """Return what a user did as an Inbound, or None if we ignore it. Ignored are notices, which
    only bots write, and edits by others. `names` are what users call the bot, and `about` is the
    event that an edit, a reaction or a reply refers to."""
    if event.type == "m.reaction" and about is not None and about.sender == me:
        given = {"text": event.content.relation.key, "message_id": about.event_id}
        found = inbound(InboundKind.REACTION, event, room, about.thread, **given)
        return replace(found, forgeable=room.encrypted and not event.was_encrypted)
    if event.type not in MESSAGES:
        return None
    said, kind, place, quote = event.content, InboundKind.MESSAGE, event, None
    if event.type == "m.sticker":
        said = replace(said, msgtype=event.type)
    if said.relation.rel_type == "m.replace":
        if about is None or said.new is None or not event.is_edit_of(about):
            return None
        said, kind, place = said.new, InboundKind.EDIT, about
    elif about is not None:
        ours, text = about.sender == me, content.quoted(*_words(about.content))
        author = "" if ours else room.members.get(about.sender, about.sender)
        quote = Quote(author=author, text=text, ours=ours, message_id=about.event_id)
    text, files = _words(said)
    if not (text or files):
        return None
    text, is_named = content.called(text, names)
    to_us = room.direct or is_named or me in said.mentions.user_ids
    more: dict[str, Any] = {"message_id": place.event_id, "press_id": "read", "quote": quote}
    more |= {"text": text, "attachments": tuple(files)}
    more["addressed"] = to_us or bool(quote and quote.ours)
    return inbound(kind, event, room, place.thread, **more)


def redaction(event: RoomEvent, room: Room, before: RoomEvent | None) -> Inbound:
    """The deletion of a message, by its author or by a moderator. `before` is that message, if it
    is known. Its thread is known only then."""
    thread = None if before is None else before.thread
    author = "" if before is None else before.sender
    found = inbound(InboundKind.DELETED, event, room, thread, message_id=event.redacted)
    return replace(found, sender=Sender(platform=Platform.MATRIX, user_id=author))


def inbound(
    kind: InboundKind, event: RoomEvent, room: Room, thread: str | None = None, **more: Any
) -> Inbound:
    """An Inbound of the event's sender."""
    user, count = event.sender, len(room.members)
    is_private = room.direct and count <= 2 and not room.unclear
    return Inbound(
        kind=kind,
        update_id=event.event_id,
        address=room.at(thread),
        sender=Sender(platform=Platform.MATRIX, user_id=user, name=room.members.get(user, "")),
        chat_name=room.name,
        topic=room.topic,
        readers="" if is_private else content.members(room.name, count),
        **more,
    )


def _words(said: EventContent) -> tuple[str, list[Attachment]]:
    """The text of a message, and its files."""
    if said.msgtype in _TEXTS:
        return (_FALLBACK.sub("", said.body, 1) if said.relation.reply else said.body), []
    kind, file = _FILES.get(said.msgtype), json.dumps(said.file) if said.file else said.url
    if kind is None or not file:
        return "", []
    # Without a file name, the body is one. With it, the body is a caption.
    name, caption = said.filename or said.body, said.body
    media, size = said.info.mimetype or "", said.info.size or 0
    found = content.attachment(kind, file, name=name, media_type=media, size=size)
    return ("" if caption == name else caption), [found]
