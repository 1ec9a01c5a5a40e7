"""The parts of events and answers that we use: https://spec.matrix.org/latest/client-server-api.

What users write can have any content, so each event is parsed separately.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field

from segue.platforms.errors import parsed


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
    replacement_room: str = ""
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

    @property
    def thread(self) -> str | None:
        """The thread that the event is in. A reply without one is in the main timeline, even if it
        answers a message of a thread: that is where other clients show it."""
        relation = self.content.relation
        return (relation.event_id or None) if relation.rel_type == "m.thread" else None

    @property
    def target(self) -> str:
        """The event that this edit, reaction or reply is about. Empty if it is about none."""
        relation = self.content.relation
        if relation.rel_type in ("m.replace", "m.annotation"):
            return relation.event_id
        is_plain = self.thread is not None and relation.is_falling_back
        return "" if is_plain else relation.reply.get("event_id", "")


def room_event(plain: bytes) -> RoomEvent | None:
    """Parse an event. Return None if it is malformed."""
    event = parsed(plain, RoomEvent)
    return event if event and event.event_id and event.sender else None


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
