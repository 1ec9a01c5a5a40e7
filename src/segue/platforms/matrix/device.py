"""The bot's device: its calls, its keys, and the rooms and events that it knows."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import msgspec

from segue.platforms.errors import UNREADABLE, Refused, parsed, tolerating_absence
from segue.platforms.matrix import parser, wire
from segue.platforms.matrix.client import MatrixClient, path
from segue.platforms.matrix.keys import Keys, NoKey
from segue.platforms.matrix.parser import Original
from segue.platforms.matrix.rooms import KnownRooms, Room
from segue.platforms.matrix.state import DeviceFolder
from segue.platforms.matrix.verification import Verifications

logger = logging.getLogger(__name__)

_MOST = 2_000
"""How many events are kept for edits, reactions and replies that refer to them."""


class MatrixDevice:
    """A client that has signed in. Before `greet`, only `client` can be used."""

    me: wire.DeviceIdentity
    folder: DeviceFolder
    keys: Keys
    rooms: KnownRooms
    verifications: Verifications

    def __init__(
        self, url: str, token: str, folder: Path, *, owner: str, first_use: bool, silence: float
    ) -> None:
        """`owner` is the user whose invitations the bot accepts."""
        self.client = MatrixClient(url, token, silence)
        self.owner = owner
        self.names: tuple[str, ...] = ()
        """What users call the bot."""
        self._parent, self.trusts_first_use = folder, first_use
        self._known: dict[str, Original] = {}
        self._greeted = False

    async def greet(self) -> None:
        """Ask the server who we are, and publish our keys. May be called again."""
        me = await self.client.get("/account/whoami", wire.DeviceIdentity)
        if not me.device_id:
            raise Refused(401, "the access token belongs to no device")
        profile: dict[str, Any] = {}
        with tolerating_absence():
            profile = await self.client.get(f"/profile{path(me.user_id)}", dict[str, Any])
        local = me.user_id.partition(":")[0]
        found = (str(profile.get("displayname") or ""), me.user_id, local, local[1:])
        self.names = tuple(name for name in found if name)
        if not self._greeted:
            self.me, self.rooms = me, KnownRooms(me.user_id)
            self.folder = DeviceFolder(self._parent, me.user_id, me.device_id)
            self.keys = Keys(self.folder, me, first_use=self.trusts_first_use)
            self.verifications = Verifications(self)
            self._greeted = True
        await self.rooms.load_direct(self.client)
        await self.keys.publish(self.client)

    async def close(self) -> None:
        await self.client.close()
        if self._greeted:
            await self.verifications.close()
            self.keys.close()

    def knows_owner(self, me: wire.DeviceIdentity) -> bool:
        """Whether a device of the owner is verified."""
        keys = Keys(DeviceFolder(self._parent, me.user_id, me.device_id), me, first_use=False)
        try:
            return keys.knows(self.owner)
        finally:
            keys.close()

    # Rooms

    async def room(self, room_id: str) -> Room:
        """The room. Raise Refused if the bot is not in it."""
        room = await self.rooms.get(self.client, room_id)
        room.encrypted = self.keys.is_encrypted(room_id, says=room.encrypted)
        return room

    async def join(self, room_id: str) -> bool:
        """Enter a room. Return whether the server let us."""
        try:
            await self.client.post(f"/join{path(room_id)}", dict[str, Any], {})
        except Refused as refused:
            if refused.status in (401, 429) or refused.status >= 500:
                raise
            logger.warning("room not entered room=%s reason=%s", room_id, refused)
            return False
        self.rooms.forget(room_id)
        return True

    # Events

    async def send(self, room_id: str, kind: str, content: dict[str, Any], key: str) -> str:
        """Send an event, and return its id. The same key sends one event only."""
        room = await self.room(room_id)
        where, given = f"/rooms{path(room_id)}/send", content
        if room.encrypted and kind != "m.reaction":  # reactions are never encrypted
            given = await self.keys.encrypt(self.client, room, kind, content)
            kind = "m.room.encrypted"
        sent = await self.client.put(f"{where}{path(kind, key)}", wire.SentEvent, given)
        return sent.event_id

    def remember(self, event_id: str, found: Original | None) -> None:
        if found is not None:
            self._known[event_id] = found
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]

    def opened(self, room_id: str, raw: bytes) -> wire.RoomEvent | None:
        """Parse an event, and decrypt it if it is encrypted. Return None if that is impossible, or
        raise NoKey."""
        event = parsed(raw, wire.RoomEvent)
        if event is not None and event.type == "m.room.encrypted" and event.state_key is None:
            return self.keys.decrypt(room_id, event, raw)
        return event if event is not None and event.event_id else None

    async def original(self, room_id: str, event_id: str) -> Original | None:
        """The event that another one refers to, as it was last edited, or None."""
        if event_id and event_id not in self._known:
            where = f"/rooms{path(room_id)}/event{path(event_id)}"
            with tolerating_absence(), contextlib.suppress(NoKey):
                raw = await self.client.get(where, msgspec.Raw)
                self.remember(event_id, self._newest(room_id, bytes(raw)))
        return self._known.get(event_id)

    def _newest(self, room_id: str, raw: bytes) -> Original | None:
        """The event, with the content of its last edit, which the server adds to it."""
        event = self.opened(room_id, raw)
        if event is None:
            return None
        try:
            edit = msgspec.json.decode(raw, type=_Edited).unsigned.relations.edit
            found = self.opened(room_id, bytes(edit)) if edit else None
            content = found and msgspec.json.decode(found.content, type=wire.EventContent)
        except UNREADABLE:
            return None
        return parser.original(event, content.new if content else None)


class _Relations(msgspec.Struct, frozen=True):
    edit: msgspec.Raw = msgspec.field(name="m.replace", default=msgspec.Raw())


class _Related(msgspec.Struct, frozen=True):
    relations: _Relations = msgspec.field(name="m.relations", default=_Relations())


class _Edited(msgspec.Struct, frozen=True):
    unsigned: _Related = _Related()
