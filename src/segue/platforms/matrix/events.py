"""The events of rooms, as they arrive and as Inbounds: the adapter's edge.

The first part has the parts of events and answers that we use
(https://spec.matrix.org/latest/client-server-api). What users write can have any content, so each
event is parsed separately. `Room` is a room, as its state says, and `parse` makes an Inbound of an
event in it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import converted, parsed

EVENT = "$"
ROOM = "!"
USER = "@"
"""The first characters of ids."""
_ID_BYTES = 255

S = TypeVar("S", bound=Struct)


def is_id(value: str, sigil: str) -> bool:
    """Whether it can be an id. Others write ids, and they become parts of paths. The specification
    limits their length; old ones have almost any characters.

    https://spec.matrix.org/latest/appendices/#common-identifier-format
    """
    is_whole = value.startswith(sigil) and len(value) > 1 and value.isprintable()
    return is_whole and len(value.encode()) <= _ID_BYTES


class Relation(Struct, frozen=True):
    rel_type: str = ""
    event_id: str = ""
    key: str = ""
    """The emoji of a reaction."""
    is_falling_back: bool = False
    reply: dict[str, str] = field(name="m.in_reply_to", default={})


class FileInfo(Struct, frozen=True):
    mimetype: str | None = None
    size: int | None = None


class Mentions(Struct, frozen=True):
    user_ids: tuple[str, ...] = ()


class EventContent(Struct, frozen=True, omit_defaults=True):
    """The content of an event. The type of the event decides which fields are set."""

    msgtype: str = ""
    body: str = ""
    filename: str | None = None
    url: str | None = None
    file: dict[str, Any] | None = None
    """The URL and the key of an encrypted file."""
    info: FileInfo = FileInfo()
    relation: Relation = field(name="m.relates_to", default=Relation())
    mentions: Mentions = field(name="m.mentions", default=Mentions())
    new: EventContent | None = field(name="m.new_content", default=None)
    membership: str = ""
    displayname: str | None = None
    is_direct: bool = False
    name: str | None = None
    topic: str | None = None
    algorithm: str = ""
    """How a room is encrypted."""
    replacement_room: str = ""
    redacts: str = ""
    """The event that a redaction deletes, since version 11 of rooms."""
    predecessor: dict[str, str] = {}


class Unsigned(Struct, frozen=True):
    prev_content: EventContent = EventContent()
    prev_sender: str = ""
    relations: dict[str, Raw] = field(name="m.relations", default={})


class RoomEvent(Struct, frozen=True):
    type: str
    sender: str
    content: EventContent
    event_id: str = ""
    state_key: str | None = None
    unsigned: Unsigned = Unsigned()
    redacts: str = ""
    """The same before version 11."""
    was_encrypted: bool = False
    """Set by `MatrixDevice.read`, never by what the server sends."""

    @property
    def redacted(self) -> str:
        """The event that this one deletes. Empty if it deletes none."""
        found = self.content.redacts or self.redacts
        is_redaction = self.type == "m.room.redaction" and is_id(found, EVENT)
        return found if is_redaction else ""

    def is_edit_of(self, before: RoomEvent) -> bool:
        """Whether it is a valid edit of that message: by its author, and encrypted if the message
        is. A server could write any other.

        https://spec.matrix.org/latest/client-server-api/#validity-of-replacement-events
        """
        is_edit = self.content.relation.rel_type == "m.replace" and self.content.new is not None
        is_about_it = self.target == before.event_id and self.sender == before.sender
        return is_edit and is_about_it and (self.was_encrypted or not before.was_encrypted)

    def edited(self, edit: RoomEvent) -> RoomEvent:
        """The message with the text of a valid edit, in the same thread."""
        new = edit.content.new or self.content
        content = replace(new, relation=self.content.relation)
        return replace(self, content=content)

    @property
    def thread(self) -> str | None:
        """The thread that the event is in. A reply without one is in the main timeline, even if it
        answers a message of a thread: that is where other clients show it."""
        relation = self.content.relation
        is_thread = relation.rel_type == "m.thread" and is_id(relation.event_id, EVENT)
        return relation.event_id if is_thread else None

    @property
    def target(self) -> str:
        """The event that this edit, reaction or reply is about. Empty if it is about none, or names
        what cannot be one."""
        relation = self.content.relation
        found = relation.reply.get("event_id", "")
        if relation.rel_type in ("m.replace", "m.annotation"):
            found = relation.event_id
        elif self.thread is not None and relation.is_falling_back:
            found = ""
        return found if is_id(found, EVENT) else ""


def room_event(plain: bytes) -> RoomEvent | None:
    """Parse an event. Return None if it is malformed."""
    event = parsed(plain, RoomEvent) or state_event(plain)
    if event is None or not is_id(event.event_id, EVENT) or not is_id(event.sender, USER):
        return None
    return event


def state_event(raw: bytes) -> RoomEvent | None:
    """Parse a state event. Return None if it is no state event. A field that is malformed counts as
    missing: state decides who may read a room, and must not be skipped because of another field."""
    found = parsed(raw, dict[str, Any]) or {}
    kind = found.get("type")
    if not isinstance(kind, str) or found.get("state_key") is None:
        return None
    return RoomEvent(
        type=kind,
        sender=_text(found.get("sender")),
        content=_without_malformed(found.get("content"), EventContent),
        event_id=_text(found.get("event_id")),
        state_key=_text(found.get("state_key")),
        unsigned=_without_malformed(found.get("unsigned"), Unsigned),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _without_malformed(value: object, kind: type[S]) -> S:
    """A value that was parsed from JSON as `kind`, whose fields all have defaults. A field that is
    malformed counts as missing."""
    given = converted(value, dict[str, Any]) or {}
    good: dict[str, Any] = {}
    for it in msgspec.structs.fields(kind):
        part = given.get(it.encode_name)
        if part is None:
            continue
        found = converted(part, it.type)
        if found is None and isinstance(it.type, type) and issubclass(it.type, Struct):
            found = _without_malformed(part, it.type)
        if found is not None:
            good[it.name] = found
    return kind(**good)


# Answers


class MatrixAnswer(Struct, frozen=True):
    """What a call answers. The call decides which fields are set."""

    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None
    soft_logout: bool = False
    event_id: str = ""
    user_id: str = ""
    device_id: str = ""
    displayname: str | None = None
    access_token: str = ""
    room_id: str = ""
    joined_rooms: tuple[str, ...] = ()
    joined: dict[str, Any] = {}
    """The members of a room, by their ids."""
    join_rule: str = ""
    history_visibility: str = ""
    content_uri: str = ""
    chunk: tuple[Raw, ...] = ()
    """A page of a room's history, newest first, which ends at `end`."""
    end: str = ""
    key_counts: dict[str, int] = field(name="one_time_key_counts", default={})
    homeserver: dict[str, str] = field(name="m.homeserver", default={})


class IdentityKey(Struct, frozen=True):
    """One of the keys of an account."""

    keys: dict[str, str]
    usage: tuple[str, ...] = ()


class QueriedKeys(Struct, frozen=True):
    """The keys of users and their devices. Other servers wrote them, so they are parsed later."""

    device_keys: dict[str, dict[str, dict[str, Any]]] = {}
    master_keys: dict[str, Any] = {}
    self_signing_keys: dict[str, Any] = {}


class EventList(Struct, frozen=True):
    events: tuple[Raw, ...] = ()
    limited: bool = False
    prev_batch: str = ""


class SyncedRoom(Struct, frozen=True):
    timeline: EventList = EventList()
    invite_state: EventList = EventList()


class Synced(Struct, frozen=True):
    next_batch: str
    rooms: dict[str, dict[str, SyncedRoom]] = {}
    to_device: EventList = EventList()
    account_data: EventList = EventList()
    device_lists: dict[str, tuple[str, ...]] = {}
    key_counts: dict[str, int] = field(name="device_one_time_keys_count", default={})


# As Inbounds

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
    members: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    """The names of those who are in it or invited, by their user ids."""
    unclear: set[str] = dataclasses.field(default_factory=set[str])
    """Users whose membership cannot be read. They get no keys, and the room is not private."""
    predecessor: str = ""
    """The room that this one replaces, as it says itself."""
    replacement: str = ""
    """The room that replaces this one."""

    def at(self, thread: str | None = None) -> Address:
        return address(self.id, thread, direct=self.direct)

    def apply(self, event: RoomEvent) -> None:
        """Take a state event."""
        state = event.content
        key = event.state_key or ""
        match event.type, key:
            case "m.room.member", user:
                self._apply_member(user, state)
            case "m.room.name", "":
                self.name = state.name or ""
            case "m.room.topic", "":
                self.topic = state.topic or ""
            case "m.room.encryption", _:
                self.encrypted = True  # even if it is malformed, and it cannot be turned off
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
        emoji = event.content.relation.key
        kind = InboundKind.REACTION
        found = inbound(kind, event, room, about.thread, text=emoji, message_id=about.event_id)
        return replace(found, forgeable=room.encrypted and not event.was_encrypted)
    if event.type not in MESSAGES:
        return None
    kind = InboundKind.MESSAGE
    message = event
    said = event.content
    quote = None
    if event.type == "m.sticker":
        said = replace(said, msgtype=event.type)
    if said.relation.rel_type == "m.replace":
        if about is None or said.new is None or not event.is_edit_of(about):
            return None
        kind = InboundKind.EDIT
        message = about
        said = said.new
    elif about is not None:
        quote = _quote(about, room, me)
    text, files = _words(said)
    if not (text or files):
        return None
    text, is_named = _without_name(text, names)
    is_mentioned = me in said.mentions.user_ids
    is_reply_to_us = quote is not None and quote.ours
    return inbound(
        kind,
        event,
        room,
        message.thread,
        text=text,
        message_id=message.event_id,
        press_id="read",
        attachments=tuple(files),
        addressed=room.direct or is_named or is_mentioned or is_reply_to_us,
        quote=quote,
    )


def _quote(about: RoomEvent, room: Room, me: str) -> Quote:
    text, files = _words(about.content)
    is_ours = about.sender == me
    return Quote(
        author="" if is_ours else room.members.get(about.sender, about.sender),
        text=content.quoted(text, files),
        ours=is_ours,
        message_id=about.event_id,
    )


def _without_name(text: str, names: Iterable[str]) -> tuple[str, bool]:
    """The text without the name of the bot at its start, and whether one of `names` was there."""
    for name in filter(None, names):
        rest = text[len(name) :]
        if text[: len(name)].lower() == name.lower() and not rest[:1].isalnum():
            return content.without_name(rest, text), True
    return text, False


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
    user = event.sender
    count = len(room.members)
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
        text = _FALLBACK.sub("", said.body, 1) if said.relation.reply else said.body
        return text, []
    kind = _FILES.get(said.msgtype)
    file = json.dumps(said.file) if said.file else said.url
    if kind is None or not file:
        return "", []
    attachment = content.attachment(
        kind,
        file,
        name=said.filename or said.body,
        media_type=said.info.mimetype or "",
        size=said.info.size or 0,
    )
    # Without a file name, the body is one. With it, the body is a caption.
    has_caption = bool(said.filename) and said.filename != said.body
    return said.body if has_caption else "", [attachment]
