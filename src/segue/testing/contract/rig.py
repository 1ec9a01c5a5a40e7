"""The rig: what the contract suite needs from a platform in order to test its adapter."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pytest

from segue.core.address import Address
from segue.core.errors import DeliveryFailed
from segue.platforms.base import Adapter, Attachment, Inbound, InboundKind, Part
from segue.testing.contract.malformed import Specimen
from segue.testing.peers import Trouble

BOUND = 15.0
"""Seconds after which a test stops waiting for an update."""


class Act(StrEnum):
    """The operations of an adapter that can fail."""

    SEND = "send"
    EDIT = "edit"
    TYPING = "typing"
    OPEN_THREAD = "open_thread"
    FETCH = "fetch"


class Feature(StrEnum):
    """What platforms have, except for what their adapters declare as `Capabilities`.

    A rig names the features that its platform lacks, and the suite skips the tests that need them.
    """

    EDITS = "edits by users"
    FILES = "files from users"
    JOINS = "an event when a user starts a chat with the bot"
    FORWARDS = "forwarded messages"
    FORWARD_AUTHORS = "the name of the author of a forwarded message"
    REPLIES = "replies to a message"
    REPLY_TEXTS = "the text of the message that a reply answers"
    BOTS = "other bots"
    THREAD_DELETION = "a way to delete a thread"
    EDIT_REPEATS = "a second edit after one whose outcome is unknown"
    CAPTION_EDITS = "edits of the text of a file"
    EDIT_CHECKS = "an error for the edit of a message that does not exist"
    RETRY_TIMES = "a time to wait in the answer of a busy platform"
    CONNECTION = "a connection for updates, which can be lost"
    REPEATS = "repeated delivery of a confirmed update"
    REDELIVERY = "redelivery of an unconfirmed update after a restart of the adapter"
    BACKLOG = "delivery of messages that were sent while the adapter was disconnected"
    RAW_UPDATES = "updates that the adapter parses itself, so that they need not be JSON"


@dataclass(frozen=True, slots=True)
class Place:
    """A chat, or a thread in it, by the platform's own ids."""

    chat: str
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as a user sees it."""

    id: str
    place: Place
    text: str
    labels: tuple[str, ...] = ()
    """The labels of its buttons."""


@dataclass(frozen=True, slots=True)
class File:
    name: str
    media_type: str
    content: bytes


class Rig(ABC):
    """One user, Anna, and the bot, on a platform that exists for one test.

    The abstract methods are required. The others are called only if the adapter's capabilities, or
    the features of the platform, call for them.
    """

    adapter: Adapter
    """A connected adapter."""
    anna: str
    """Anna's immutable user id."""
    name: str = "Anna"
    """Anna's display name on the platform; empty if the platform does not send it."""
    lacks: frozenset[Feature] = frozenset()
    many: int = 5
    """A number of updates that takes more than one batch, if the platform uses batches."""
    usual: str = "dm"
    """The default shape of a chat. It has threads if any shape does."""

    @abstractmethod
    def another(self) -> Adapter:
        """Another, unconnected adapter for the same account, as after a restart."""

    @abstractmethod
    async def place(self, shape: str) -> Place:
        """Create a chat of that shape with Anna and the bot. A shape is any word that the rig
        understands: `dm`, `group`, `group without permissions`."""

    def has_threads(self, shape: str) -> bool:
        """Return whether the bot can open threads in chats of that shape."""
        return False

    # Anna

    @abstractmethod
    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        """Send a message and return its id."""

    async def command(self, at: Place, text: str) -> str:
        """Send a message that the platform marks as a command, if it marks them. Return its id."""
        return await self.say(at, text)

    async def forward(self, at: Place, author: str, text: str) -> str:
        """Forward a message by an author with that name, whom the bot does not know.

        Return its id.
        """
        raise NotImplementedError

    async def reply(self, at: Place, message: str, text: str) -> str:
        """Reply to a message of the same chat and return the reply's id."""
        raise NotImplementedError

    async def edit(self, message: str, text: str) -> None:
        raise NotImplementedError

    async def press(self, message: str, label: str) -> None:
        raise NotImplementedError

    async def join(self, at: Place) -> None:
        raise NotImplementedError

    async def delete_thread(self, at: Place) -> None:
        raise NotImplementedError

    async def other_bot_says(self, at: Place, text: str) -> None:
        raise NotImplementedError

    # Reading

    @abstractmethod
    async def seen(self, text: str) -> Sequence[Seen]:
        """All messages whose current text is exactly this, in the order they were sent. A message
        of the bot counts if this is its text as sent, or as displayed without its markup."""

    async def typing(self, at: Place) -> int:
        """The number of typing indicators shown there. A platform without typing indicators in
        threads shows them in the chat of the thread."""
        raise NotImplementedError

    async def threads(self, at: Place) -> int:
        """The number of threads in that chat."""
        return 0

    # The platform

    async def repeat(self) -> None:
        """Deliver the platform's last update again, or try to."""
        return

    @abstractmethod
    async def inject(self, updates: Iterable[str]) -> None:
        """Deliver these updates without checking them."""

    @abstractmethod
    def specimens(self) -> Sequence[Specimen]:
        """Valid updates of several kinds."""


class RemoteRig(Rig):
    """A rig for a platform on a remote server, which can fail."""

    credential: str = "token"
    """What identifies the account, as the adapter's messages call it."""

    @abstractmethod
    def impatient(self) -> Adapter:
        """Another, unconnected adapter, whose calls time out after less than a second."""

    @abstractmethod
    def denied(self) -> Adapter:
        """An adapter with an invalid credential."""

    def can_fail(self, act: Act, trouble: Trouble) -> bool:
        """Return whether the adapter notices that fault. If the platform's library waits by itself
        while the platform is busy, it does not."""
        return True

    @abstractmethod
    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        """Inject a fault into the adapter's next call of that operation, and into the attempts to
        repeat it that the platform's library makes by itself.

        BUSY asks to wait that many seconds.
        """

    @abstractmethod
    async def calm(self) -> None:
        """Remove the fault, and drop the connections of hanging calls."""

    @abstractmethod
    async def down(self) -> None:
        """Drop all connections and refuse new ones."""

    @abstractmethod
    async def up(self) -> None: ...


def require(rig: Rig, *features: Feature) -> None:
    """Skip the test unless the platform has all of these features."""
    for feature in features:
        if feature in rig.lacks:
            pytest.skip(f"the platform lacks {feature}")


class Ear:
    """Reads what an adapter receives."""

    def __init__(self, received: AsyncGenerator[Inbound | None]) -> None:
        self._received = received

    async def next(self) -> Inbound:
        """Return the next Inbound that is not about a message of ours that arrived. Raises
        TimeoutError if there is none."""
        async with asyncio.timeout(BOUND):
            inbound = None
            while inbound is None or inbound.kind is InboundKind.DELIVERED:
                inbound = await anext(self._received)
        return inbound


@contextlib.asynccontextmanager
async def listening(adapter: Adapter) -> AsyncGenerator[Ear]:
    async with contextlib.aclosing(adapter.receive()) as received:
        yield Ear(received)


async def home_of(rig: Rig, ear: Ear, at: Place) -> Address:
    """The address of a chat, taken from a plain message in it."""
    await rig.say(at, "This is home.")
    return (await ear.next()).address


async def one_attachment(rig: Rig, ear: Ear, at: Place, file: File) -> Attachment:
    """Let Anna send a file and return the resulting attachment."""
    await rig.say(at, "a file", [file])
    [attachment] = (await ear.next()).attachments
    return attachment


def part(text: str) -> Part:
    return Part(text=text, plain=text)


async def failure(operation: Awaitable[object]) -> DeliveryFailed:
    """Return the error that the operation fails with."""
    with pytest.raises(DeliveryFailed) as caught:
        await operation
    return caught.value
