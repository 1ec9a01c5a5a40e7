"""The parts of events and answers that we use: https://spec.matrix.org/latest/client-server-api.

What users write can have any content, so each event is parsed separately.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field


class MatrixError(Struct, frozen=True):
    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None
    soft_logout: bool = False


# Events


class ReplyTo(Struct, frozen=True):
    event_id: str


class Relation(Struct, frozen=True):
    rel_type: str = ""
    event_id: str = ""
    key: str = ""
    """The emoji or text of a reaction."""
    is_falling_back: bool = False
    reply: ReplyTo | None = field(name="m.in_reply_to", default=None)


class FileInfo(Struct, frozen=True):
    mimetype: str | None = None
    size: int | None = None


class Mentions(Struct, frozen=True):
    user_ids: tuple[str, ...] = ()


class EventContent(Struct, frozen=True):
    """The content of a message, a reaction, or a state event."""

    msgtype: str = ""
    body: str = ""
    filename: str | None = None
    url: str | None = None
    file: dict[str, Any] | None = None
    """The URL and the key of an encrypted file."""
    info: FileInfo = FileInfo()
    geo_uri: str = ""
    relation: Relation = field(name="m.relates_to", default=Relation())
    mentions: Mentions | None = field(name="m.mentions", default=None)
    new: dict[str, Any] | None = field(name="m.new_content", default=None)
    buttons: dict[str, str] = field(name="segue.buttons", default={})
    """Ours: the data of each button by its label."""


class Membership(Struct, frozen=True):
    """The content of m.room.member, and of other state events."""

    membership: str = ""
    displayname: str | None = None
    is_direct: bool = False
    name: str | None = None
    topic: str | None = None
    algorithm: str | None = None
    replacement_room: str = ""
    predecessor: dict[str, Any] | None = None


class Unsigned(Struct, frozen=True):
    prev_content: Membership | None = None
    prev_sender: str = ""


class RoomEvent(Struct, frozen=True):
    type: str
    sender: str
    content: Raw
    event_id: str = ""
    state_key: str | None = None
    unsigned: Unsigned = Unsigned()


# Answers


class DeviceIdentity(Struct, frozen=True):
    user_id: str
    device_id: str = ""


class LoggedIn(DeviceIdentity, frozen=True):
    access_token: str = ""


class SentEvent(Struct, frozen=True):
    event_id: str


class Uploaded(Struct, frozen=True):
    content_uri: str


class Timeline(Struct, frozen=True):
    events: tuple[Raw, ...] = ()
    limited: bool = False
    prev_batch: str = ""


class EventList(Struct, frozen=True):
    events: tuple[Raw, ...] = ()


class Joined(Struct, frozen=True):
    timeline: Timeline = Timeline()


class Invited(Struct, frozen=True):
    invite_state: EventList = EventList()


class Rooms(Struct, frozen=True):
    join: dict[str, Joined] = {}
    invite: dict[str, Invited] = {}


class DeviceLists(Struct, frozen=True):
    changed: tuple[str, ...] = ()


class Synced(Struct, frozen=True):
    next_batch: str
    rooms: Rooms = Rooms()
    to_device: EventList = EventList()
    account_data: EventList = EventList()
    device_lists: DeviceLists = DeviceLists()
    key_counts: dict[str, int] = field(name="device_one_time_keys_count", default={})


class EventPage(Struct, frozen=True):
    """A page of a room's history, newest first."""

    chunk: tuple[Raw, ...] = ()
    end: str = ""


class WellKnown(Struct, frozen=True):
    server: dict[str, str] = field(name="m.homeserver", default={})
