"""A room that the bot is in. Its state is requested once, and then kept up to date by events."""

from __future__ import annotations

from dataclasses import dataclass, field

from segue.core.address import Address, ChatType, Platform
from segue.platforms.matrix.wire import RoomEvent

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

    def at(self, thread: str | None = None) -> Address:
        return address(self.id, thread, direct=self.direct)

    def apply(self, event: RoomEvent) -> None:
        """Take a state event."""
        state, user = event.content, event.state_key or ""
        match event.type:
            case "m.room.member" if state.membership in HERE:
                self.members[user] = state.displayname or user
            case "m.room.member":
                self.members.pop(user, None)
            case "m.room.name":
                self.name = state.name or ""
            case "m.room.topic":
                self.topic = state.topic or ""
            case "m.room.encryption":
                self.encrypted = True  # it cannot be turned off
            case "m.room.create":
                self.predecessor = state.predecessor.get("room_id", "")
            case "m.room.tombstone":
                self.replacement = state.replacement_room
            case _:
                pass
