"""The control interface of this platform: the orders of a test, and the state it sees."""

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


# Orders


class AddUser(peers.Order, frozen=True):
    """Returns the user's id."""

    name: str
    bot: bool = False


class AddChat(peers.Order, frozen=True):
    """Returns the chat's id."""

    shape: Shape
    members: tuple[str, ...]
    """The ids of the members other than the bot."""
    name: str = ""
    topic: str = ""


class Upload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    media_type: str
    content: bytes


class Say(peers.Order, frozen=True):
    """Returns the message's id."""

    user: str
    chat: str
    text: str
    thread: str | None = None
    command: bool = False
    """The platform marks the message as a command."""
    files: tuple[Upload, ...] = ()
    forwarded_from: str | None = None
    """The name of the original author, for a message forwarded from another chat."""
    reply_to: str | None = None


class Rewrite(peers.Order, frozen=True):
    """A user edits their message."""

    message: str
    text: str


class Press(peers.Order, frozen=True):
    """A user presses the button with that label."""

    user: str
    message: str
    label: str
    data: str | None = None
    """The button's data as the user last saw it, if the button may be gone by now."""


class Join(peers.Order, frozen=True):
    """A user starts a chat with the bot, or adds the bot to a chat."""

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


# The visible state


class Message(Struct, frozen=True, kw_only=True):
    """One message as the platform shows it."""

    id: str
    chat: str
    thread: str | None
    author: str
    """A user's id, or the id of the bot's account."""
    text: str
    format: str = "plain"
    buttons: tuple[WireButton, ...] = ()
    earlier: tuple[str, ...] = ()
    """The text before each edit, oldest first."""
    key: str | None = None
    """The idempotency key of the call that sent it."""
    file: str | None = None
    """The name of the attached file."""
    forwarded_from: str | None = None
    reply_to: str | None = None
    at: float = field(default_factory=time.monotonic)
    """When it got this text, on the monotonic clock that all processes of the machine share."""


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
    """A snapshot of what a test can see."""

    threads: tuple[Thread, ...]
    typing: tuple[TypingSeen, ...]
    previews: tuple[PreviewSeen, ...]
    """Previews not yet replaced by a message."""
    menu: tuple[WireEntry, ...]
    calls: Mapping[str, int]
    """The number of calls of each method, including refused ones."""
    refused: tuple[Refused, ...]
