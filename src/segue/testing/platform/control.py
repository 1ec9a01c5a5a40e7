"""What a test tells this platform to do, and what it is shown: the control side in types."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from segue.testing import peers
from segue.testing.peers import Clear, Look, Shared
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


# What to do


class AddUser(peers.Order, frozen=True):
    """Answered with the user's id."""

    name: str
    bot: bool = False


class AddChat(peers.Order, frozen=True):
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


class Say(peers.Order, frozen=True):
    """Answered with the message's id."""

    user: str
    chat: str
    text: str
    thread: str | None = None
    command: bool = False
    """The platform marks it as a command."""
    files: tuple[Upload, ...] = ()
    forwarded_from: str | None = None
    """The name of who wrote it first, in another chat."""
    reply_to: str | None = None


class Rewrite(peers.Order, frozen=True):
    """A person edits what they said."""

    message: str
    text: str


class Press(peers.Order, frozen=True):
    """A person presses the button with that label."""

    user: str
    message: str
    label: str
    data: str | None = None
    """What it stood for when that person last looked, if it may be gone by now."""


class Join(peers.Order, frozen=True):
    """A person begins a chat with the bot, or adds it to one."""

    user: str
    chat: str


class DeleteThread(peers.Order, frozen=True):
    thread: str


class SetRules(peers.Order, frozen=True):
    rules: Rules


Order: TypeAlias = (
    AddUser
    | AddChat
    | Say
    | Rewrite
    | Press
    | Join
    | DeleteThread
    | SetRules
    | Clear[Rules]
    | Look[str]
    | Shared
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
    forwarded_from: str | None = None
    reply_to: str | None = None
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


class Shown(peers.Shown[Message], frozen=True, kw_only=True):
    """What there is to see."""

    threads: tuple[Thread, ...]
    typing: tuple[TypingSeen, ...]
    previews: tuple[PreviewSeen, ...]
    """Those that no message has taken the place of."""
    menu: tuple[WireEntry, ...]
    calls: Mapping[str, int]
    """How often each method was called, refused or not."""
    refused: tuple[Refused, ...]
