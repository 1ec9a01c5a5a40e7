"""What was said in a room since the last sync, of which a sync contains only the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from segue.core.address import Platform, Sender
from segue.platforms.backlog import BacklogPage, CatchUp, gap
from segue.platforms.base import Inbound, Wanted
from segue.platforms.errors import parsed, tolerating_absence
from segue.platforms.matrix.client import FAILURES, path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.parser import HERE
from segue.platforms.matrix.wire import EventList, RoomEvent

SINCE = "since"
"""The file with the sync token: everything before it is recorded."""
_PAGE = 100
_TOMBSTONE = "m.room.tombstone"


class _Timed(Struct, frozen=True):
    origin_server_ts: int


@dataclass(frozen=True, slots=True)
class Timeline:
    events: Sequence[bytes]
    """Oldest first, from the bot's invitation on."""
    gap: Inbound | None = None
    """What was not read, if there is something."""


class RoomHistory:
    """Reads the rooms of one adapter."""

    def __init__(self) -> None:
        self.wanted: Wanted | None = None
        self.is_read = True
        """Whether no room is being read whose end only was in the sync."""
        self._catch_up = CatchUp(FAILURES)

    def begin(self) -> None:
        """A sync has arrived, and its rooms are read."""
        self._catch_up.begin()

    def end(self) -> None:
        """Everything of the sync is recorded."""
        self.is_read = True

    async def read(
        self, device: MatrixDevice, room_id: str, got: EventList, since: str
    ) -> Timeline:
        """The events of a room since the sync token `since`."""
        if not got.limited:
            return Timeline(_from_arrival(device, [bytes(raw) for raw in got.events]))
        self.is_read = False
        device.rooms.pop(room_id, None)  # its state may have changed in between
        device.keys.members_changed(room_id)

        async def page(begin: str) -> BacklogPage[bytes]:
            if not begin:
                return _page(device, got.events[::-1], got.prev_batch)
            more: Any = {"dir": "b", "from": begin, "to": since, "limit": _PAGE}
            found = await device.client.get(f"/rooms{path(room_id)}/messages", **more)
            return _page(device, found.chunk, found.end if found.chunk else "")

        async def wanted(raw: bytes) -> bool:
            return await self._is_wanted(device, raw)

        now = datetime.now(UTC)
        past = await self._catch_up.read(room_id, page, wanted)
        events = past.found[::-1]
        if past.is_complete:
            return Timeline(events)
        with tolerating_absence():  # the bot may have left since
            room = await device.room(room_id)
            return Timeline(events, gap(room.at(), device.folder.written(SINCE), past, now))
        return Timeline(events)

    async def _is_wanted(self, device: MatrixDevice, raw: bytes) -> bool:
        """Whether it is from a user whom the gateway knows, or about the bot or the whole room.
        Other state is asked for again."""
        if self.wanted is None:
            return True
        event = parsed(raw, RoomEvent)
        if event is None:
            return False
        if event.state_key is not None:
            return event.state_key == device.me.user_id or event.type == _TOMBSTONE
        if event.sender in (device.owner, device.me.user_id):
            return True
        sender = Sender(platform=Platform.MATRIX, user_id=event.sender)
        return await self.wanted(sender, event.content.body)


def _page(device: MatrixDevice, newest_first: Sequence[Any], following: str) -> BacklogPage[bytes]:
    events = [bytes(raw) for raw in reversed(newest_first)]
    here = _from_arrival(device, events)
    oldest = parsed(here[0], _Timed) if here else None
    return BacklogPage(
        found=here[::-1],
        size=len(events),
        edge=oldest and _time(oldest.origin_server_ts),
        next="" if _arrival(device, events) is not None else following,
    )


def _time(milliseconds: int) -> datetime | None:
    """A time that another server claims, which may be no time of ours."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _from_arrival(device: MatrixDevice, events: Sequence[bytes]) -> Sequence[bytes]:
    return events[_arrival(device, events) or 0 :]


def _arrival(device: MatrixDevice, events: Sequence[bytes]) -> int | None:
    """Where the bot was invited or, without an invitation, came in. None if it was there before."""
    found = None
    for number, raw in enumerate(events):
        event = parsed(raw, RoomEvent)
        if event and (event.type, event.state_key) == ("m.room.member", device.me.user_id):
            was_here = event.unsigned.prev_content.membership in HERE
            if event.content.membership in HERE and not was_here:
                found = number
    return found
