"""The contract suite's rig for Signal."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from segue.core.address import Platform
from segue.platforms import registry
from segue.platforms.base import Adapter
from segue.platforms.spec import PlatformSettings
from segue.testing.contract.fake import FakeRig
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import Act, Feature, File, Place, Seen
from segue.testing.peers import Trouble
from segue.testing.signal import ME, NUMBER, Driver, Kind, Message, Peer, Settings, Upload
from tests.platforms.signal.specimens import SPECIMENS

NONE = frozenset(
    {
        *(Feature.JOINS, Feature.FORWARDS, Feature.BOTS, Feature.REDELIVERY),
        *(Feature.EDIT_CHECKS, Feature.EDIT_REPEATS, Feature.CAPTION_EDITS),
    }
)


class Shape(StrEnum):
    DM = "dm"
    GROUP = "group"
    SELF = "self"
    """Note to Self, in which Anna writes with the phone that the account is linked to."""


class SignalRig(FakeRig):
    """Anna on Signal.

    A user has only one direct message with the account, so each that a test asks for is with
    another account of Anna.
    """

    driver: Driver
    methods: Mapping[Act, str] = {
        Act.SEND: "send",
        Act.EDIT: "edit",
        Act.TYPING: "sendTyping",
        Act.FETCH: "getAttachment",
    }
    lacks = NONE
    usual = Shape.DM
    credential = "account"

    def __init__(self, peer: Peer, driver: Driver, anna: str) -> None:
        self._peer = peer
        self.driver = driver
        self._annas: dict[str, str] = {}
        """Anna's account in each chat."""
        self._chats: dict[str, str] = {}
        """The chat of each of her messages."""
        self.anna = anna
        self.adapter = self.another()

    def another(self, account: str = NUMBER, **more: Any) -> Adapter:
        values = {"account": account, "url": self._peer.url}
        spec = registry.SPECS[Platform.SIGNAL]
        make: Any = registry.load(spec, spec.make)
        return make(PlatformSettings(platform=Platform.SIGNAL, values=values), **more)

    def impatient(self) -> Adapter:
        return self.another(silence=0.6)

    def denied(self) -> Adapter:
        return self.another("+4915199999999")

    def can_fail(self, act: Act, trouble: Trouble) -> bool:
        """Files that users sent are on the daemon's disk."""
        return (act, trouble) != (Act.FETCH, Trouble.BUSY)

    async def place(self, shape: str) -> Place:
        if shape == Shape.GROUP:
            chat = await self.driver.chat(Kind.GROUP, [self.anna])
        elif shape == Shape.SELF:
            chat = self.anna = ME.id
            self.name = ME.name
        else:
            self.anna = await self.driver.user(self.name)
            chat = await self.driver.chat(Kind.DM, [self.anna])
        self._annas[chat] = self.anna
        return Place(chat)

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        return await self._say(at, text, files)

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self._say(at, text, reply_to=message)

    async def _say(
        self, at: Place, text: str, files: Sequence[File] = (), reply_to: str | None = None
    ) -> str:
        sent = [Upload(name=f.name, media_type=f.media_type, content=f.content) for f in files]
        anna = self._annas[at.chat]
        said = await self.driver.say(anna, at.chat, text, files=sent, reply_to=reply_to)
        self._chats[said] = at.chat
        return said

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(self._chats[message], message, text)

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        return [_seen(it) for it in (await self.driver.look()).messages if it.text == text]

    async def typing(self, at: Place) -> int:
        return sum(seen.times for seen in (await self.driver.look(at.chat)).typing)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


@contextlib.asynccontextmanager
async def plugged_in(peer: Peer, settings: Settings | None = None) -> AsyncGenerator[SignalRig]:
    """A rig on a fake in its initial state."""
    async with peer.driver() as driver:
        await driver.clear(settings)
        rig = SignalRig(peer, driver, await driver.user("Anna"))
        await rig.adapter.connect()
        yield rig
        await rig.adapter.close()
        assert await driver.errors() == ()


def _seen(message: Message) -> Seen:
    return Seen(message.id, Place(message.chat), message.text)
