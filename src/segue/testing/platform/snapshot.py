"""The state of the test platform, as types."""

from __future__ import annotations

from enum import StrEnum

from segue.testing import peers
from segue.testing.platform.wire import WireChat, WireEntry


class Shape(StrEnum):
    """The kinds of chat."""

    DM = "dm"
    """One user and the bot; threads are topics."""
    GROUP = "group"
    """Threads start at a message that the platform posts with the title."""
    CHANNEL = "channel"
    """Like a group, with many members."""
    FORUM = "forum"
    """A group whose threads are topics."""
    NO_THREADS = "no_threads"
    """A group without threads."""
    THREADS_REFUSED = "threads_refused"
    """A group in which the bot may not open threads."""


class Chat(peers.Chat[str], frozen=True, kw_only=True):
    shape: Shape
    topic: str
    public: bool = False
    """Anyone can read it."""

    def wire(self) -> WireChat:
        kind = self.shape.value if self.shape in (Shape.DM, Shape.CHANNEL) else "group"
        return WireChat(
            id=self.id, type=kind, name=self.title, topic=self.topic, members=len(self.members)
        )


class Thread(peers.Thread[str], frozen=True, kw_only=True):
    key: str | None = None
    """The idempotency key of the call that opened it."""


class Message(peers.Message[str], frozen=True, kw_only=True):
    format: str = "plain"
    key: str | None = None
    """The idempotency key of the call that sent it."""
    forwarded_from: str | None = None


class Shown(peers.Shown[str, Message, Thread], frozen=True, kw_only=True):
    menu: tuple[WireEntry, ...]
    refused: tuple[str, ...]
    """The code of each refused call."""
