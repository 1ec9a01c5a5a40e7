"""The rig: what the contract suite needs from a platform in order to test its adapter.

`Rig` and `RemoteRig` are the classes to derive from. After them comes what the parts of the suite
share.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import pytest

from segue.core.address import Address
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.base import Adapter, Attachment, Inbound, InboundKind, Part
from segue.testing.contract.malformed import Specimen
from segue.testing.peers import Outage, Trouble

BOUND = 15.0
"""Seconds after which a test stops waiting for an update."""
HOME = "This is home."
CHATTER = "chatter"
"""What others write."""


class Act(StrEnum):
    """The operations of an adapter that can fail."""

    CONNECT = "connect"
    SEND = "send"
    EDIT = "edit"
    TYPING = "typing"
    OPEN_THREAD = "open_thread"
    FETCH = "fetch"
    HISTORY = "history"
    """Reading a page of a history."""


class Feature(StrEnum):
    """What platforms have, except for what their adapters declare as `Capabilities`.

    A rig names the features that its platform lacks, and the suite skips the tests that need them.
    """

    EDITS = "edits by users"
    DELETIONS = "an event when a user deletes a message"
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
    EDIT_BACKLOG = "delivery of their edits right after them"
    HISTORY = "a history that the adapter reads, because the platform keeps no updates for it"
    READERS = "a way to see who can read a chat"
    OTHERS = "chats in which others write too"
    USER_THREADS = "threads that users begin under a message"
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
    flood: int = 105
    """A number of messages that takes more than one page of a history."""
    many: int = 5
    """A number of updates that takes more than one batch, if the platform uses batches."""
    author: object = None
    """The user id of the sender of `specimens`, as they contain it. None if there is one only."""
    scene: object = None
    """The chat of `specimens`, as they contain it. None if they contain none."""
    serial: str = ""
    """The text in `specimens` by which the adapter knows an update again. Empty if it does not."""
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

    async def delete(self, message: str) -> None:
        raise NotImplementedError

    async def press(self, message: str, label: str) -> None:
        raise NotImplementedError

    async def join(self, at: Place) -> None:
        raise NotImplementedError

    async def begin_thread(self, at: Place, message: str) -> Place:
        """Let Anna begin a thread under that message of hers, if that takes more than a message in
        it. Return the thread."""
        raise NotImplementedError

    async def delete_thread(self, at: Place) -> None:
        raise NotImplementedError

    async def others(self, at: Place, count: int) -> None:
        """Let others send that many messages there, each with the text CHATTER."""
        raise NotImplementedError

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        """Let Bob come into a chat with Anna, or Anna leave it."""
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

    lookup: str = ""
    """The platform's method by which the adapter asks about the chat of an update. Empty if it does
    not ask."""
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

    async def break_lookups(self, at: Place, trouble: Trouble, times: int) -> None:
        """Inject a fault into the next calls with `lookup` about that chat, until `calm`."""
        raise NotImplementedError

    @abstractmethod
    async def calm(self) -> None:
        """Remove the fault, and drop the connections of hanging calls."""

    async def noticed(self) -> None:
        """Wait until the platform knows that the adapter is away, and tries no more to deliver
        events that it does not keep."""

    async def restarted(self) -> Adapter:
        """The connected adapter of a new process. It is closed with the rig."""
        await self.adapter.close()
        self.adapter = self.another()
        await self.adapter.connect()
        return self.adapter

    @abstractmethod
    async def down(self) -> None:
        """Drop all connections and refuse new ones."""

    @abstractmethod
    async def up(self) -> None: ...

    async def fail_connections(self, outage: Outage, *, everything: bool) -> None:
        """Drop the adapter's connections for updates, and let new ones fail in that way, and
        `everything` else too."""
        raise NotImplementedError

    async def recover(self) -> None:
        """End what `fail_connections` began."""
        raise NotImplementedError

    async def arrivals(self) -> Sequence[float]:
        """The times of the adapter's requests since `fail_connections`, by the clock of the event
        loop."""
        raise NotImplementedError

    async def flooded(self, most: int, seconds: float) -> None:
        """Wait for more than so many of these requests, but not longer than so many seconds."""
        raise NotImplementedError


# For the parts of the suite

ODD_TEXTS = (
    "Grüße, 世界! Ελληνικά, עברית, العربية",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 e\u0301 \U0001f9d1\u200d\U0001f680",
    "<b>not bold</b> & *not* _this_ either [x](y) `z` \\ \\n {0} %s $HOME",
    "two\nlines\n\nand a\ttab",
    "/not a command",
    "@everyone <!channel> <@U1>",
)
PHOTO = File("photo.png", "image/png", bytes(range(256)) * 40)


class Contract:
    """Tests with a fixture `rig`, which the subclass or its module must have."""

    pytestmark: ClassVar = [pytest.mark.anyio]

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def shape(self, rig: Rig) -> str:
        """The kind of chat that a test takes place in."""
        return rig.usual


def require(rig: Rig, *features: Feature) -> None:
    """Skip the test unless the platform has all of these features."""
    for feature in features:
        if feature in rig.lacks:
            pytest.skip(f"the platform lacks {feature}")


class UpdateReader:
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
async def reading(adapter: Adapter) -> AsyncGenerator[UpdateReader]:
    async with contextlib.aclosing(adapter.receive()) as received:
        yield UpdateReader(received)


class ReconnectingReader:
    """Reads what an adapter receives, as the gateway does: it connects again after a failure, and
    acknowledges what can be."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._received = adapter.receive()

    async def aclose(self) -> None:
        await self._received.aclose()

    async def until(self, text: str) -> Inbound:
        """Return the first update that ends with that text. Raise TimeoutError if there is none."""
        async with asyncio.timeout(BOUND):
            while True:
                inbound = await self._next()
                if inbound is not None and inbound.text.endswith(text):
                    return inbound
                if inbound is not None and inbound.press_id:
                    self._adapter.acknowledge(inbound)

    async def _next(self) -> Inbound | None:
        try:
            return await anext(self._received)
        except ConnectFailed:
            await self._received.aclose()
            await self._adapter.connect()
            self._received = self._adapter.receive()
            return None


async def received(adapter: Adapter, text: str) -> Inbound:
    """Return the first update with that text."""
    async with contextlib.aclosing(ReconnectingReader(adapter)) as reader:
        return await reader.until(text)


async def home_of(rig: Rig, reader: UpdateReader, at: Place) -> Address:
    """The address of a chat, taken from a plain message in it."""
    await rig.say(at, HOME)
    return (await reader.next()).address


async def one_attachment(rig: Rig, reader: UpdateReader, at: Place, file: File) -> Attachment:
    """Let Anna send a file and return the resulting attachment."""
    await rig.say(at, "a file", [file])
    [attachment] = (await reader.next()).attachments
    return attachment


def part(text: str) -> Part:
    return Part(text=text, plain=text)


async def failure(operation: Awaitable[object]) -> DeliveryFailed:
    """Return the error that the operation fails with."""
    with pytest.raises(DeliveryFailed) as caught:
        await operation
    return caught.value
