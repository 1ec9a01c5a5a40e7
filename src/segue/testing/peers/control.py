"""What a test tells any fake to do, and what it is shown: the control side in types."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct


class Trouble(StrEnum):
    """What can happen to a call."""

    BUSY = "busy"
    """429, and when to come back; nothing was done."""
    BROKEN = "broken"
    """500; nothing was done, which the bot cannot know."""
    FORBIDDEN = "forbidden"
    """403; nothing was done."""
    DROP_BEFORE = "drop_before"
    """The connection is cut; nothing was done, which the bot cannot know."""
    DROP_AFTER = "drop_after"
    """It is done, and the connection is cut before the answer."""
    GARBLED = "garbled"
    """It is done, and the answer is 200 and nonsense."""
    DELAY = "delay"
    """It is done after some seconds."""
    HANG = "hang"
    """Nothing happens, until `Calm` cuts the connection."""
    HANG_AFTER = "hang_after"
    """It is done, and no answer comes, until `Calm` cuts the connection."""


# What to do


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=str.lower):
    """The base of all of them."""


class Fail(Order, frozen=True):
    """Trouble for the next calls of a method; in one chat, if one is named."""

    method: str
    trouble: Trouble
    times: int = 1
    seconds: float = 0.05
    """How long BUSY says to wait, and DELAY waits."""
    chat: str | None = None


class Calm(Order, frozen=True):
    """No more trouble; the connections of hanging calls are cut."""


class Inject(Order, frozen=True):
    """Updates as they are, whatever they are."""

    frames: tuple[str, ...]


class Repeat(Order, frozen=True):
    """The last updates are delivered once more, confirmed or not."""

    last: int = 1


class Hold(Order, frozen=True):
    """Updates wait until `Release`."""


class Release(Order, frozen=True):
    backwards: bool = False


class Shut(Order, frozen=True):
    """The platform is down: connections to it are cut and refused."""


class Open(Order, frozen=True):
    """The platform is there again, at the address where it was."""


Shared: TypeAlias = Fail | Calm | Inject | Repeat | Hold | Release | Shut | Open
"""Those that are the same for every fake."""

Chat = TypeVar("Chat")
Settings = TypeVar("Settings")


class Clear(Order, Generic[Settings], frozen=True):
    """Everything is as it was at the start, with these settings."""

    settings: Settings


class Look(Order, Generic[Chat], frozen=True):
    """Answered with what is shown, once its version is past `after`, or when the time is over."""

    after: int = -1
    seconds: float = 0.0
    chat: Chat | None = None
    """Only what is in this chat."""


# What is shown


class _Message(Protocol):
    @property
    def text(self) -> str: ...


Message = TypeVar("Message", bound=_Message)


class Shown(Struct, Generic[Message], frozen=True, kw_only=True):
    """What there is to see."""

    version: int
    messages: tuple[Message, ...]
    """In the order in which they came."""
    hanging: int
    """Calls that hang now."""
    unconfirmed: int
    """Updates that the bot has not confirmed."""

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]
