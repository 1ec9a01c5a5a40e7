"""The bot's device: its calls, its keys, and the rooms and events that it knows."""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import Any
from urllib.parse import quote

from msgspec import Raw
from msgspec.structs import replace

from segue.core.address import Platform, Sender
from segue.core.text import one_line
from segue.platforms.base import Wanted
from segue.platforms.errors import Refused, converted, parsed, tolerating_absence
from segue.platforms.matrix.client import MatrixClient, path
from segue.platforms.matrix.events import (
    ROOM,
    EventContent,
    MatrixAnswer,
    Room,
    RoomEvent,
    is_id,
    room_event,
    state_event,
)
from segue.platforms.matrix.folder import PrivateFolder
from segue.platforms.matrix.identity import MatrixIdentity
from segue.platforms.matrix.keys import ALGORITHM, Keys, NoKey
from segue.platforms.matrix.spec import FIRST_USE
from segue.platforms.matrix.verification import Verifications
from segue.platforms.spec import PlatformSettings
from segue.platforms.updates import Containment, Recent

logger = logging.getLogger(__name__)

MESSAGE = "m.room.message"
_UNKNOWN_ALGORITHM = (
    "the room is encrypted in a way that the bot does not know, so it writes nothing there; use "
    "another room"
)
_MOST = 2_000
"""How many events are kept for edits, reactions and replies that refer to them."""


class MatrixDevice:
    """A client that has signed in. Before `greet`, only `client` can be used."""

    me: MatrixAnswer
    folder: PrivateFolder
    identity: MatrixIdentity
    keys: Keys
    verifications: Verifications
    names: tuple[str, ...]
    """What users call the bot."""

    def __init__(
        self, settings: PlatformSettings, silence: float, containment: Containment
    ) -> None:
        self.client = MatrixClient(settings.value("url"), settings.value("token"), silence)
        self.containment = containment
        self.wanted: Wanted | None = None
        """Set by the gateway before events are received. None if everything is wanted."""
        self.owner = settings.value("invites_from")
        self.trusts_first_use = settings.value("trust") == FIRST_USE
        self._greeted = False
        self.rooms: dict[str, Room] = {}
        """Those whose state is known."""
        self.warned: set[str] = set()
        """The encrypted rooms whose owner knows that messages without encryption are not read."""
        self._root = settings.folder
        self._known = Recent[str, RoomEvent](_MOST)

    async def greet(self) -> None:
        """Ask the server who we are, and publish our keys. May be called again."""
        me = await self.client.get("/account/whoami")
        self.me = me
        if not me.device_id:
            raise Refused(401, "the access token belongs to no device")
        profile = MatrixAnswer()
        with tolerating_absence():
            profile = await self.client.get(f"/profile{path(me.user_id)}")
        self._direct = f"/user{path(me.user_id)}/account_data/m.direct"
        self.rename(profile.displayname)
        if not self._greeted:
            user_folder = quote(me.user_id, safe="@")
            device_folder = quote(me.device_id, safe="")
            self.folder = PrivateFolder(self._root, user_folder, device_folder)
            self.identity = MatrixIdentity(self.client, self._root, me.user_id, self.owner)
            self.keys = Keys(
                self.identity,
                self.folder,
                me.device_id,
                self.containment,
                first_use=self.trusts_first_use,
            )
            self.verifications = Verifications(self.keys, self.folder)
            self._greeted = True
        async with self.keys.alone():
            await self.keys.publish()
            await self.identity.sign(me.device_id, self.keys.olm.account.identity_keys)

    def rename(self, display_name: str | None) -> None:
        """Answer to this name from now on, and to the parts of the user id."""
        local = self.me.user_id.partition(":")[0]
        self.names = (display_name or local[1:], self.me.user_id, local, local[1:])

    async def close(self) -> None:
        await self.client.close()
        if self._greeted:
            self.keys.close()

    # Rooms

    async def room(self, room_id: str) -> Room:
        """The room. Raise Refused if the bot was never in it."""
        if room_id not in self.rooms:
            state = await self.client.get(f"/rooms{path(room_id)}/state", tuple[Raw, ...])
            direct = await self.direct()
            room = Room(room_id, any(room_id in rooms for rooms in direct.values()))
            for raw in state:
                event = state_event(bytes(raw))
                if event is not None:
                    room.apply(event)
            self.rooms[room_id] = room
        room = self.rooms[room_id]
        room.encrypted = self.keys.is_encrypted(room_id, says=room.encrypted)
        return room

    async def direct(self) -> dict[str, list[str]]:
        """The direct messages of the account by their users, newest last, as it keeps them."""
        with tolerating_absence():
            found = await self.client.get(self._direct, dict[str, Any])
            read = {user: converted(rooms, list[str]) for user, rooms in found.items()}
            return {user: rooms for user, rooms in read.items() if rooms is not None}
        return {}

    async def add_direct(self, user_id: str, room_id: str) -> None:
        direct = await self.direct()
        direct[user_id] = [*direct.get(user_id, ()), room_id]
        await self.client.put(self._direct, direct)
        self.rooms.pop(room_id, None)

    async def join(self, room_id: str, *, is_asked: bool = True) -> bool:
        """Enter a room. Return whether the server let us. Raise Refused if the server is busy, so
        that the bot tries again, unless it is not asked to come."""
        if not is_id(room_id, ROOM):
            logger.warning("room not entered room=%s reason=no id", one_line(room_id, 100))
            return False
        try:
            await self.client.post(f"/join{path(room_id)}", {})
        except Refused as refused:
            is_busy = refused.status == 429 or refused.status >= 500
            if refused.status == 401 or (is_busy and is_asked):
                raise
            logger.warning("room not entered room=%s reason=%s", room_id, refused)
            return False
        self.rooms.pop(room_id, None)
        return True

    async def replaces(self, old: str, new: str) -> bool:
        """Whether the room `old`, in which the bot is, says that `new` replaces it. Anyone can name
        any room in a new one, so only rooms of the bot are looked up."""
        if not is_id(old, ROOM):
            return False
        joined = (await self.client.get("/joined_rooms")).joined_rooms
        if old not in joined:
            return False
        self.rooms.pop(old, None)
        with tolerating_absence():
            return (await self.room(old)).replacement == new
        return False

    # Events

    async def send(self, room_id: str, content: dict[str, Any], key: str) -> str:
        """Send a message, and return its id. The same key sends one only."""
        room = await self.room(room_id)
        kind = MESSAGE
        given = content
        if room.encrypted:
            if room.algorithm not in (None, ALGORITHM):
                raise Refused(403, _UNKNOWN_ALGORITHM)
            kind = "m.room.encrypted"
            given = await self.keys.encrypt(room, MESSAGE, content)
        where = f"/rooms{path(room_id)}/send{path(kind, key)}"
        sent = (await self.client.put(where, given)).event_id
        known = converted(content, EventContent)
        if known is not None:
            self.remember(RoomEvent(MESSAGE, self.me.user_id, known, sent))
        return sent

    def plain(self, room_id: str, raw: bytes) -> bytes:
        """An event as it is without encryption. Empty if it is malformed. Raise NoKey."""
        event = parsed(raw, RoomEvent)
        if event is None or event.type != "m.room.encrypted" or event.state_key is not None:
            return raw
        return self.keys.decrypt(room_id, raw)

    def read(self, room_id: str, raw: bytes) -> RoomEvent | None:
        """Parse an event as it is without encryption, or return None if it is malformed. Raise
        NoKey."""
        sent = parsed(raw, RoomEvent)
        event = room_event(self.plain(room_id, raw))
        if event is None:
            return None
        is_encrypted = sent is not None and sent.type == "m.room.encrypted"
        return replace(event, was_encrypted=is_encrypted and event.state_key is None)

    def newest(self, room_id: str, event: RoomEvent) -> RoomEvent | None:
        """The newest edit of a message, which servers bundle with it. None if there is none, or it
        cannot be read."""
        raw = event.unsigned.relations.get("m.replace")
        if raw is None:
            return None
        with contextlib.suppress(NoKey):
            edit = self.read(room_id, bytes(raw))
            return edit if edit is not None and edit.is_edit_of(event) else None
        return None

    def remember(self, event: RoomEvent) -> None:
        """Keep a message, or what it says after an edit."""
        if event.content.relation.rel_type == "m.replace":
            before = self._known.get(event.target)
            if before is None or not event.is_edit_of(before):
                return
            event = before.edited(event)
        self._known[event.event_id] = event

    def known(self, event_id: str) -> RoomEvent | None:
        """A message that was read before, or None. Once it is redacted, the server does not have
        its content any more."""
        return self._known.get(event_id)

    async def about(self, room_id: str, event: RoomEvent) -> RoomEvent | None:
        """The event that this one refers to, or None. The server is asked for it only if the
        messages of the sender are wanted. Without it, the event is read all the same."""
        if not event.target:
            return None
        if event.target in self._known:
            return self._known[event.target]
        sender = Sender(platform=Platform.MATRIX, user_id=event.sender)
        if self.wanted is not None and not await self.wanted(sender, ""):
            return None
        look_up = partial(self.original, room_id, event.target)
        place = f"messages of {room_id}"
        return await self.containment.attempt(event.target, look_up, place=place)

    async def original(self, room_id: str, event_id: str) -> RoomEvent | None:
        """The event with that id, as it was last edited, or None."""
        if event_id and event_id not in self._known:
            where = f"/rooms{path(room_id)}/event{path(event_id)}"
            with tolerating_absence(), contextlib.suppress(NoKey):
                raw = await self.client.get(where, Raw)
                event = self.read(room_id, bytes(raw))
                if event is not None:
                    edit = self.newest(room_id, event)
                    newest = event if edit is None else event.edited(edit)
                    self.remember(newest)
        return self._known.get(event_id)
