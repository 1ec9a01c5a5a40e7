"""The contract suite's rig for Signal."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum
from typing import Any

from segue.core.address import Address
from segue.platforms.base import Adapter
from segue.platforms.signal.adapter import SignalAdapter
from segue.testing.contract.fake import FakeRig, uploads
from segue.testing.contract.history import only
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import (
    Act,
    Feature,
    File,
    Place,
    Seen,
    UpdateReader,
    home_of,
    reading,
)
from segue.testing.peers import Trouble
from tests.fakes.signal import ME, NUMBER, Driver, Kind, Message
from tests.rigs.signal import SignalRig
from tests.rigs.signal.specimens import ANNA, SPECIMENS


class Shape(StrEnum):
    DM = "dm"
    GROUP = "group"
    SELF = "self"
    """Note to Self, in which Anna writes with the phone that the account is linked to."""


class AnnaOnSignal(FakeRig):
    """Anna on Signal. A user has only one direct message with the account, so each that a test asks
    for is with another account of Anna."""

    driver: Driver
    author = ANNA
    methods = SignalRig.methods
    lacks = frozenset(
        {
            *(Feature.JOINS, Feature.FORWARDS, Feature.BOTS, Feature.REDELIVERY),
            *(Feature.HISTORY, Feature.OTHERS, Feature.USER_THREADS),
            *(Feature.EDIT_CHECKS, Feature.EDIT_REPEATS, Feature.CAPTION_EDITS),
        }
    )
    credential = "account"

    @property
    def url(self) -> str:
        return self._peer.url

    def another(self, account: str = NUMBER, **more: Any) -> Adapter:
        return SignalAdapter(account, self.url, **more)

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
            chat = ME.id
            self.anna = ME.id
            self.name = ME.name
        else:
            self.anna = await self.driver.user(self.name)
            chat = await self.driver.chat(Kind.DM, [self.anna])
        self._annas[chat] = self.anna
        return Place(chat)

    @contextlib.asynccontextmanager
    async def talking(
        self, shape: Shape = Shape.DM
    ) -> AsyncGenerator[tuple[Place, UpdateReader, Address]]:
        """A chat of that shape, a reader of the updates there, and the chat's address."""
        at = await self.place(shape)
        async with reading(self.adapter) as reader:
            yield at, reader, await home_of(self, reader, at)

    @contextlib.asynccontextmanager
    async def in_group(self) -> AsyncGenerator[tuple[Address, str]]:
        """The address of a group of Anna, whose messages are wanted, and Eve; and Eve's id."""
        eve = await self.driver.user("Eve")
        chat = await self.driver.chat(Kind.GROUP, [self.anna, eve])
        self._annas[chat] = self.anna
        self.adapter.remember({}, wanted=only(self.anna))
        async with reading(self.adapter) as reader:
            yield await home_of(self, reader, Place(chat)), eve

    async def noticed(self) -> None:
        """The daemon notices only when it writes to a connection that is gone."""
        await self.driver.down()
        await self.driver.up()

    async def newest(self) -> Message:
        return (await self.driver.look()).messages[-1]

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = (), **more: Any) -> str:
        anna = self._annas[at.chat]
        sent = uploads(files)
        said = await self.driver.say(anna, at.chat, text, files=sent, **more)
        self._said[said] = at.chat
        return said

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self.say(at, text, reply_to=message)

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(self._said[message], message, text)

    async def delete(self, message: str) -> None:
        await self.driver.delete(self._said[message], message)

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        bob = await self.driver.user("Bob")
        await self.driver.populate(at.chat, [self.anna, bob] if with_anna else [bob])

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        found = (await self.driver.look()).messages
        return [Seen(it.id, Place(it.chat), it.text) for it in found if it.text == text]

    async def typing(self, at: Place) -> int:
        return sum(seen.times for seen in (await self.driver.look(at.chat)).typing)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS
