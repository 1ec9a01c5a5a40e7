"""The part of a rig that is the same for all fakes that are built on `segue.testing.peers`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Self

from segue.testing.contract.rig import Act, File, Place, RemoteRig, Seen
from segue.testing.peers import Message, Outage, Trouble, Upload


def uploads(files: Sequence[File]) -> list[Upload]:
    """The files as a fake takes them."""
    return [Upload(name=it.name, media_type=it.media_type, content=it.content) for it in files]


class FakeRig(RemoteRig):
    driver: Any
    """The fake's own kind of `segue.testing.peers.Driver`."""
    methods: Mapping[Act, str] = {act: act.value for act in Act}
    """The platform's method for each operation."""

    def __init__(self, peer: Any, driver: Any, anna: object) -> None:
        """`peer` and `driver` are the fake's own kinds."""
        self._peer = peer
        self.driver = driver
        self._annas: dict[Any, Any] = {}
        """Anna's account in each chat."""
        self._said: dict[str, Any] = {}
        """The place of each message of hers. If two have the same id, that of the later one."""
        self.anna = str(anna)
        self.adapter = self.another()

    @classmethod
    @contextlib.asynccontextmanager
    async def plugged_in(cls, peer: Any) -> AsyncGenerator[Self]:
        """A rig with a connected adapter, on the fake in its initial state."""
        async with peer.driver() as driver:
            await driver.clear()
            rig = cls(peer, driver, await driver.user(cls.name))
            await rig.prepare()
            await rig.adapter.connect()
            yield rig
            await rig.adapter.close()
            await rig.finish()
            assert await driver.errors() == ()

    async def prepare(self) -> None:
        """Do what the platform needs before the bot connects."""

    async def finish(self) -> None:
        """Undo what `prepare` did."""

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(message, text)

    async def delete(self, message: str) -> None:
        await self.driver.delete(message)

    async def seen(self, text: str) -> Sequence[Seen]:
        return [_seen(it) for it in (await self.driver.look()).messages if it.text == text]

    async def typing(self, at: Place) -> int:
        shown = (await self.driver.look(at.chat)).typing
        return sum(it.times for it in shown if it.thread == at.thread)

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        await self.driver.fail(self.methods[act], trouble, seconds=seconds)

    async def break_lookups(self, at: Place, trouble: Trouble, times: int) -> None:
        await self.driver.fail(self.lookup, trouble, seconds=0.1, times=times, chat=at.chat)

    async def calm(self) -> None:
        await self.driver.calm()

    async def down(self) -> None:
        await self.driver.down()

    async def up(self) -> None:
        await self.driver.up()

    async def fail_connections(self, outage: Outage, *, everything: bool) -> None:
        await self.driver.fail_connections(outage, everything=everything)

    async def recover(self) -> None:
        await self.driver.recover()

    async def arrivals(self) -> Sequence[float]:
        return await self.driver.arrivals()

    async def flooded(self, most: int, seconds: float) -> None:
        await self.driver.flooded(most, seconds)

    async def repeat(self) -> None:
        await self.driver.repeat()

    async def inject(self, updates: Iterable[str]) -> None:
        await self.driver.inject(updates)


def _seen(message: Message[Any]) -> Seen:
    thread = None if message.thread is None else str(message.thread)
    return Seen(str(message.id), Place(str(message.chat), thread), message.text, message.labels)
