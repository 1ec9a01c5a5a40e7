"""What a test tells the platform to do, and what it is shown: the control side in types."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from segue.testing.platform.wire import Refusal, Rules, WireButton, WireEntry


class Shape(StrEnum):
    """The kinds of chat that there are."""

    DM = "dm"
    """One person and the bot; threads are topics."""
    GROUP = "group"
    """Threads hang from a message, which the platform posts with the title."""
    CHANNEL = "channel"
    """As a group, for many."""
    FORUM = "forum"
    """A group whose threads are topics."""
    NO_THREADS = "no_threads"
    """A group that cannot have any."""
    THREADS_REFUSED = "threads_refused"
    """A group in which the bot may not open any."""


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


class _Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=str.lower):
    pass


class AddUser(_Order, frozen=True):
    """Answered with the user's id."""

    name: str
    bot: bool = False


class AddChat(_Order, frozen=True):
    """Answered with the chat's id."""

    shape: Shape
    members: tuple[str, ...]
    """The ids of those who are in it beside the bot."""
    name: str = ""
    topic: str = ""


class Upload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    media_type: str
    content: bytes


class Say(_Order, frozen=True):
    """Answered with the message's id."""

    user: str
    chat: str
    text: str
    thread: str | None = None
    command: bool = False
    """The platform marks it as a command."""
    files: tuple[Upload, ...] = ()


class Rewrite(_Order, frozen=True):
    """A person edits what they said."""

    message: str
    text: str


class Press(_Order, frozen=True):
    """A person presses the button with that label."""

    user: str
    message: str
    label: str


class Join(_Order, frozen=True):
    """A person begins a chat with the bot, or adds it to one."""

    user: str
    chat: str


class DeleteThread(_Order, frozen=True):
    thread: str


class SetRules(_Order, frozen=True):
    rules: Rules


class Fail(_Order, frozen=True):
    """Trouble for the next calls of a method; in one chat, if one is named."""

    method: str
    trouble: Trouble
    times: int = 1
    seconds: float = 0.05
    """How long BUSY says to wait, and DELAY waits."""
    chat: str | None = None


class Calm(_Order, frozen=True):
    """No more trouble; the connections of hanging calls are cut."""


class Inject(_Order, frozen=True):
    """Updates as they are, whatever they are."""

    frames: tuple[str, ...]


class Repeat(_Order, frozen=True):
    """The last updates are delivered once more, confirmed or not."""

    last: int = 1


class Hold(_Order, frozen=True):
    """Updates wait until `Release`."""


class Release(_Order, frozen=True):
    backwards: bool = False


class Shut(_Order, frozen=True):
    """The platform is down: connections to it are cut and refused."""


class Open(_Order, frozen=True):
    """The platform is there again, at the address where it was."""


class Clear(_Order, frozen=True):
    """Everything is as it was at the start."""

    rules: Rules = Rules()


class Look(_Order, frozen=True):
    """Answered with Shown, once its version is past `after`, or when the time is over."""

    after: int = -1
    seconds: float = 0.0
    chat: str | None = None
    """Only what is in this chat."""


Order: TypeAlias = (
    AddUser
    | AddChat
    | Say
    | Rewrite
    | Press
    | Join
    | DeleteThread
    | SetRules
    | Fail
    | Calm
    | Inject
    | Repeat
    | Hold
    | Release
    | Shut
    | Open
    | Clear
    | Look
)


# What is shown


class Message(Struct, frozen=True, kw_only=True):
    """One message as the platform shows it."""

    id: str
    chat: str
    thread: str | None
    author: str
    """A user's id; the bot's is that of its account."""
    text: str
    format: str = "plain"
    buttons: tuple[WireButton, ...] = ()
    earlier: tuple[str, ...] = ()
    """What it said before each edit, the oldest first."""
    key: str | None = None
    """The key that it was sent under."""
    file: str | None = None
    """The name of the file in it."""
    at: float = field(default_factory=time.monotonic)
    """When it came to say this, on the clock that all processes of the machine share."""


class Thread(Struct, frozen=True, kw_only=True):
    id: str
    chat: str
    title: str
    key: str | None = None


class TypingSeen(Struct, frozen=True, kw_only=True):
    chat: str
    thread: str | None
    times: int


class PreviewSeen(Struct, frozen=True, kw_only=True):
    chat: str
    thread: str | None
    text: str


class Refused(Struct, frozen=True, kw_only=True):
    method: str
    refusal: Refusal


class Shown(Struct, frozen=True, kw_only=True):
    """What there is to see."""

    version: int
    messages: tuple[Message, ...]
    """In the order in which they came."""
    threads: tuple[Thread, ...]
    typing: tuple[TypingSeen, ...]
    previews: tuple[PreviewSeen, ...]
    """Those that no message has taken the place of."""
    menu: tuple[WireEntry, ...]
    calls: Mapping[str, int]
    """How often each method was called, refused or not."""
    refused: tuple[Refused, ...]
    hanging: int
    """Calls that hang now."""
    unconfirmed: int
    """Updates that the bot has not confirmed."""

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]
