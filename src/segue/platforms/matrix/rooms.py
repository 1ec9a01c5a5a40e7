"""The rooms that the bot is in. The state of each is requested once, and then kept up to
date by events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from segue.core.address import Address, ChatType, Platform
from segue.platforms.errors import Refused, converted, parsed
from segue.platforms.matrix import wire
from segue.platforms.matrix.client import MatrixClient, path

HERE = ("join", "invite")


def address(room_id: str, thread: str | None = None, *, direct: bool) -> Address:
    """The address of a room, or of a thread in it."""
    kind = ChatType.DM if direct else ChatType.GROUP
    return Address(
        platform=Platform.MATRIX, chat_type=kind, chat_id=room_id, thread_id=thread or None
    )


@dataclass(slots=True)
class Room:
    id: str
    direct: bool = False
    name: str = ""
    topic: str = ""
    encrypted: bool = False
    members: dict[str, str] = field(default_factory=dict[str, str])
    """The names of those who are in it or invited, by their user ids."""
    predecessor: str = ""
    """The room that this one replaces, as it says itself."""
    replacement: str = ""
    """The room that replaces this one."""

    def apply(self, event: wire.RoomEvent) -> bool:
        """Take a state event. Return whether members have changed."""
        state = parsed(bytes(event.content), wire.Membership)
        if event.state_key is None or state is None:
            return False
        match event.type:
            case "m.room.member" if event.state_key:
                before = event.state_key in self.members
                self.members.pop(event.state_key, None)
                if state.membership in HERE:
                    self.members[event.state_key] = state.displayname or event.state_key
                return before != (event.state_key in self.members)
            case "m.room.name":
                self.name = state.name or ""
            case "m.room.topic":
                self.topic = state.topic or ""
            case "m.room.encryption":
                self.encrypted = True  # it cannot be turned off
            case "m.room.create":
                self.predecessor = str((state.predecessor or {}).get("room_id", ""))
            case "m.room.tombstone":
                self.replacement = state.replacement_room
            case _:
                pass
        return False

    def at(self, thread: str | None = None) -> Address:
        return address(self.id, thread, direct=self.direct)


class KnownRooms:
    def __init__(self, me: str) -> None:
        self._me = me
        self._rooms: dict[str, Room] = {}
        self._direct: dict[str, list[str]] = {}

    async def get(self, client: MatrixClient, room_id: str) -> Room:
        """The room. Raise Refused if the bot was never in it."""
        if room_id not in self._rooms:
            state = await client.get(f"/rooms{path(room_id)}/state", tuple[Raw, ...])
            room = Room(room_id, direct=self._is_direct(room_id))
            for raw in state:
                if event := parsed(bytes(raw), wire.RoomEvent):
                    room.apply(event)
            self._rooms[room_id] = room
        return self._rooms[room_id]

    def forget(self, room_id: str) -> None:
        self._rooms.pop(room_id, None)

    def apply(self, room_id: str, event: wire.RoomEvent) -> bool:
        """Take a state event. Return whether members have changed."""
        return room_id in self._rooms and self._rooms[room_id].apply(event)

    async def replaces(self, client: MatrixClient, old: str, new: str) -> bool:
        """Whether the room `old`, in which the bot was, says that `new` replaces it."""
        try:
            self.forget(old)
            return bool(old) and (await self.get(client, old)).replacement == new
        except Refused:
            return False

    # Direct messages

    def _is_direct(self, room_id: str) -> bool:
        return any(room_id in rooms for rooms in self._direct.values())

    def direct_with(self, user_id: str) -> list[str]:
        """The direct messages with that user, newest last."""
        return self._direct.get(user_id, [])

    def set_direct(self, direct: dict[str, Any]) -> None:
        """Take m.direct, in which the account keeps which of its rooms are direct messages."""
        self._direct = converted(direct, dict[str, list[str]]) or {}
        for room in self._rooms.values():
            room.direct = self._is_direct(room.id)

    async def load_direct(self, client: MatrixClient) -> None:
        try:
            self.set_direct(await client.get(self._setting, dict[str, Any]))
        except Refused as refused:
            if refused.status != 404:
                raise

    async def add_direct(self, client: MatrixClient, user_id: str, room_id: str) -> None:
        if not self._is_direct(room_id):
            found = {**self._direct, user_id: [*self.direct_with(user_id), room_id]}
            await client.put(self._setting, dict[str, Any], found)
            self.set_direct(found)

    @property
    def _setting(self) -> str:
        return f"/user{path(self._me)}/account_data/m.direct"
