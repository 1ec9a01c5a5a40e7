"""The control interface that all fakes share: the orders of a test, and the state it sees."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct


class Trouble(StrEnum):
    """A fault injected into a call."""

    BUSY = "busy"
    """429 with a retry time; the call has no effect."""
    BROKEN = "broken"
    """500; the call has no effect, but the bot cannot know that."""
    FORBIDDEN = "forbidden"
    """403; the call has no effect."""
    DROP_BEFORE = "drop_before"
    """The connection is dropped before the call has an effect, but the bot cannot know that."""
    DROP_AFTER = "drop_after"
    """The call takes effect, and the connection is dropped before the answer."""
    GARBLED = "garbled"
    """The call takes effect, and the answer is 200 with an invalid body."""
    DELAY = "delay"
    """The call takes effect after some seconds."""
    HANG = "hang"
    """The call has no effect and no answer, until `Calm` drops the connection."""
    HANG_AFTER = "hang_after"
    """The call takes effect but gets no answer, until `Calm` drops the connection."""


# Orders


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=str.lower):
    """Base class of all orders."""


class Fail(Order, frozen=True):
    """Inject a fault into the next calls of a method, only in `chat` if it is given."""

    method: str
    trouble: Trouble
    times: int = 1
    seconds: float = 0.05
    """How long BUSY asks the bot to wait, and how long DELAY waits."""
    chat: str | None = None


class Calm(Order, frozen=True):
    """Remove all faults, and drop the connections of hanging calls."""


class Inject(Order, frozen=True):
    """Deliver these frames as updates without checking them."""

    frames: tuple[str, ...]


class Repeat(Order, frozen=True):
    """Deliver the last updates again, confirmed or not."""

    last: int = 1


class Hold(Order, frozen=True):
    """Hold updates back until `Release`."""


class Release(Order, frozen=True):
    backwards: bool = False


class Shut(Order, frozen=True):
    """Take the platform down: drop its connections and refuse new ones."""


class Open(Order, frozen=True):
    """Bring the platform back up at the same address."""


Shared: TypeAlias = Fail | Calm | Inject | Repeat | Hold | Release | Shut | Open
"""The orders that every fake takes."""

Chat = TypeVar("Chat")
Settings = TypeVar("Settings")


class Clear(Order, Generic[Settings], frozen=True):
    """Reset the fake to its initial state, with these settings."""

    settings: Settings


class Look(Order, Generic[Chat], frozen=True):
    """Return what is shown once its version exceeds `after`, or when `seconds` have passed."""

    after: int = -1
    seconds: float = 0.0
    chat: Chat | None = None
    """Show only this chat."""


# The visible state


class _Message(Protocol):
    @property
    def text(self) -> str: ...


Message = TypeVar("Message", bound=_Message)


class Shown(Struct, Generic[Message], frozen=True, kw_only=True):
    """A snapshot of what a test can see."""

    version: int
    messages: tuple[Message, ...]
    """In order of arrival."""
    hanging: int
    """The number of calls that hang now."""
    unconfirmed: int
    """The number of updates that the bot has not confirmed."""

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]
