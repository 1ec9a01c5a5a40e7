"""What the contract suite needs of a platform: an adapter there, and a person's hands."""

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
    """What an adapter does that can meet trouble."""

    SEND = "send"
    EDIT = "edit"
    TYPING = "typing"
    OPEN_THREAD = "open_thread"
    FETCH = "fetch"


class Lack(StrEnum):
    """What there is none of on a platform, for nobody."""

    EDITS = "edits"
    """People cannot change what they have said."""
    FILES = "files"
    JOINS = "joins"
    """No chat has to be begun with the bot."""
    QUOTES = "quotes"
    """People can neither forward messages nor reply to one of them."""
    POLLS = "polls"
    """There is no connection that could be lost."""
    REPEATS = "repeats"
    """An update never comes twice to who has confirmed it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A chat, or a thread in it, as the platform itself names them."""

    chat: str
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as a person sees it."""

    id: str
    place: Place
    text: str
    labels: tuple[str, ...]
    """Of its buttons."""


@dataclass(frozen=True, slots=True)
class File:
    name: str
    media_type: str
    content: bytes


class Rig(Protocol):
    """One person, called Anna, and the bot, on a platform that is there for one test."""

    @property
    def adapter(self) -> Adapter:
        """Connected."""
        ...

    @property
    def anna(self) -> str:
        """The immutable id of the person."""
        ...

    @property
    def name(self) -> str:
        """What the platform says that she is called; empty when it does not say."""
        ...

    @property
    def lacks(self) -> frozenset[Lack]: ...

    @property
    def many(self) -> int:
        """So many updates that the platform hands them out in more than one batch, if it does so
        in batches."""
        ...

    def another(self) -> Adapter:
        """One more for the same account, not connected: as after a restart."""
        ...

    @property
    def usual(self) -> str:
        """The shape of chats for what has nothing to do with shapes; it has threads if any has."""
        ...

    def has_threads(self, shape: str) -> bool:
        """Whether the bot can open threads in chats of that shape."""
        ...

    async def place(self, shape: str) -> Place:
        """A new chat of that shape, with Anna and the bot in it."""
        ...

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        """The message's id."""
        ...

    async def command(self, at: Place, text: str) -> str:
        """What the platform marks as a command, or would if it did; the message's id."""
        ...

    async def forward(self, at: Place, author: str, text: str) -> str:
        """Forward what an author of that name, a stranger to the bot, wrote elsewhere; the
        message's id."""
        ...

    async def reply(self, at: Place, message: str, text: str) -> str:
        """Reply to that message of the same chat; the id of the reply."""
        ...

    async def edit(self, message: str, text: str) -> None: ...

    async def press(self, message: str, label: str) -> None: ...

    async def join(self, at: Place) -> None: ...

    async def delete_thread(self, at: Place) -> None: ...

    async def other_bot_says(self, at: Place, text: str) -> None: ...

    # Her eyes

    async def seen(self, text: str) -> Sequence[Seen]:
        """All messages that say exactly this now, in the order in which they were sent."""
        ...

    async def typing(self, at: Place) -> int:
        """How often typing was shown there."""
        ...

    async def threads(self, at: Place) -> int:
        """How many there are in that chat."""
        ...

    # The platform

    async def repeat(self) -> None:
        """The platform delivers its last update once more."""
        ...

    async def inject(self, updates: Iterable[str]) -> None:
        """Let the platform deliver these, whatever they are."""
        ...

    def specimens(self) -> Sequence[Specimen]:
        """Good updates of several kinds."""
        ...


class RemoteRig(Rig, Protocol):
    """The same where the platform is somebody else's server, which can be in trouble."""

    def impatient(self) -> Adapter:
        """One more, not connected, whose calls count as lost after less than a second."""
        ...

    def denied(self) -> Adapter:
        """One with a token that is not valid."""
        ...

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        """The next call for that meets this; BUSY says to wait so many seconds."""
        ...

    async def calm(self) -> None: ...

    async def down(self) -> None: ...

    async def up(self) -> None: ...


class Ear:
    """Hears what an adapter receives."""

    def __init__(self, received: AsyncGenerator[Inbound | None]) -> None:
        self._received = received

    async def next(self) -> Inbound:
        """What comes next; TimeoutError when nothing does."""
        async with asyncio.timeout(BOUND):
            while (inbound := await anext(self._received)) is None:
                pass
        return inbound


@contextlib.asynccontextmanager
async def listening(adapter: Adapter) -> AsyncGenerator[Ear]:
    async with contextlib.aclosing(adapter.receive()) as received:
        yield Ear(received)


async def home_of(rig: Rig, ear: Ear, at: Place) -> Address:
    """The address of a chat: that of a plain message in it."""
    await rig.say(at, "This is home.")
    return (await ear.next()).address


async def one_attachment(rig: Rig, ear: Ear, at: Place, file: File) -> Attachment:
    """What a file that Anna sends comes to."""
    await rig.say(at, "a file", [file])
    [attachment] = (await ear.next()).attachments
    return attachment
