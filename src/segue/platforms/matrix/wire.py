"""The parts of events and answers that we use: https://spec.matrix.org/latest/client-server-api.

What users write can have any content, so each event is parsed separately.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from segue.platforms.errors import lenient, parsed

EVENT, ROOM, USER = "$", "!", "@"
"""What ids begin with."""
_ID_BYTES = 255


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
    missing: state decides who may read a room, and must not be skipped for what is beside it."""
    found = parsed(raw, dict[str, Any]) or {}
    kind = found.get("type")
    if not isinstance(kind, str) or found.get("state_key") is None:
        return None
    return RoomEvent(
        type=kind,
        sender=_text(found.get("sender")),
        content=lenient(found.get("content"), EventContent),
        event_id=_text(found.get("event_id")),
        state_key=_text(found.get("state_key")),
        unsigned=lenient(found.get("unsigned"), Unsigned),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


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
