"""The interface that the contract suite needs from a platform: an adapter, and a user to act as."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from segue.core.address import Address
from segue.platforms.base import Adapter, Attachment, Inbound
from segue.testing.platform import Trouble
from tests.platforms.malformed import Specimen

BOUND = 15.0


class Act(StrEnum):
    """The operations of an adapter that can fail."""

    SEND = "send"
    EDIT = "edit"
    TYPING = "typing"
    OPEN_THREAD = "open_thread"
    FETCH = "fetch"


class Lack(StrEnum):
    """Features that a platform does not have for any account."""

    EDITS = "edits"
    """Users cannot edit their messages."""
    FILES = "files"
    JOINS = "joins"
    """A user does not need to start a chat with the bot."""
    QUOTES = "quotes"
    """Users can neither forward messages nor reply to them."""
    POLLS = "polls"
    """There is no connection that could be lost."""
    REPEATS = "repeats"
    """A confirmed update is never delivered again."""


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
    labels: tuple[str, ...]
    """The labels of its buttons."""


@dataclass(frozen=True, slots=True)
class File:
    name: str
    media_type: str
    content: bytes


class Rig(Protocol):
    """One user, Anna, and the bot, on a platform that exists for one test."""

    @property
    def adapter(self) -> Adapter:
        """A connected adapter."""
        ...

    @property
    def anna(self) -> str:
        """Anna's immutable user id."""
        ...

    @property
    def name(self) -> str:
        """Anna's display name on the platform; empty if the platform does not send it."""
        ...

    @property
    def lacks(self) -> frozenset[Lack]: ...

    @property
    def many(self) -> int:
        """A number of updates that takes more than one batch, if the platform uses batches."""
        ...

    def another(self) -> Adapter:
        """Another, unconnected adapter for the same account, as after a restart."""
        ...

    @property
    def usual(self) -> str:
        """The default shape of a chat. It has threads if any shape does."""
        ...

    def has_threads(self, shape: str) -> bool:
        """Return whether the bot can open threads in chats of that shape."""
        ...

    async def place(self, shape: str) -> Place:
        """Create a chat of that shape with Anna and the bot."""
        ...

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        """Send a message and return its id."""
        ...

    async def command(self, at: Place, text: str) -> str:
        """Send a message that the platform marks as a command, if it marks them. Return its id."""
        ...

    async def forward(self, at: Place, author: str, text: str) -> str:
        """Forward a message by an author with that name, whom the bot does not know.

        Return its id.
        """
        ...

    async def reply(self, at: Place, message: str, text: str) -> str:
        """Reply to a message of the same chat and return the reply's id."""
        ...

    async def edit(self, message: str, text: str) -> None: ...

    async def press(self, message: str, label: str) -> None: ...

    async def join(self, at: Place) -> None: ...

    async def delete_thread(self, at: Place) -> None: ...

    async def other_bot_says(self, at: Place, text: str) -> None: ...

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        """All messages whose current text is exactly this, in the order they were sent."""
        ...

    async def typing(self, at: Place) -> int:
        """The number of typing indicators shown there."""
        ...

    async def threads(self, at: Place) -> int:
        """The number of threads in that chat."""
        ...

    # The platform

    async def repeat(self) -> None:
        """Deliver the platform's last update again."""
        ...

    async def inject(self, updates: Iterable[str]) -> None:
        """Deliver these updates without checking them."""
        ...

    def specimens(self) -> Sequence[Specimen]:
        """Valid updates of several kinds."""
        ...


class RemoteRig(Rig, Protocol):
    """A rig for a platform on a remote server, which can fail."""

    def impatient(self) -> Adapter:
        """Another, unconnected adapter, whose calls time out after less than a second."""
        ...

    def denied(self) -> Adapter:
        """An adapter with an invalid token."""
        ...

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        """Inject a fault into the next call of that operation.

        BUSY asks to wait that many seconds.
        """
        ...

    async def calm(self) -> None: ...

    async def down(self) -> None: ...

    async def up(self) -> None: ...


class Ear:
    """Reads what an adapter receives."""

    def __init__(self, received: AsyncGenerator[Inbound | None]) -> None:
        self._received = received

    async def next(self) -> Inbound:
        """Return the next Inbound. Raises TimeoutError if there is none."""
        async with asyncio.timeout(BOUND):
            while (inbound := await anext(self._received)) is None:
                pass
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
