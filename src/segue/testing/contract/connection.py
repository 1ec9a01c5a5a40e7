"""Connections: closing and opening them, and those that fail again and again.

For `ReconnectContract`, the rig must be in this process and this event loop, whose clock jumps.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any, Protocol

import pytest

from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.base import Adapter, Inbound
from segue.platforms.connection import Reconnects
from segue.testing.clock import JumpingLoop
from segue.testing.contract.rig import BOUND, Contract, Place, Rig, home_of, part, reading
from segue.testing.peers import Outage
from segue.testing.peers.faults import RETRY_SECONDS

ATTEMPTS = 100
MOST_A_MINUTE = 60
"""Requests of one adapter. In the first minute, the pauses are short."""
MOST_AN_HOUR = 500
"""An attempt is up to six requests: who am I, where to connect, and twice to two places."""
FLOOD = 1000
"""Requests after which the test has seen enough."""
HOURS = 2 * 60 * 60.0
"""How long to watch an adapter that needs fewer attempts."""
_RECOVERY = 10 * 60.0
_FEW = 3
"""Requests that were on their way when the outage began."""
_EVERYTHING = (Outage.SILENT, Outage.BUSY, Outage.BROKEN)
"""Outages for which all other calls can fail as well. The rest is the same."""
WAYS = [*((it, False) for it in Outage), *((it, True) for it in _EVERYTHING)]


class ConnectionContract(Contract):
    async def test_a_closed_adapter_can_be_closed_and_connected_again(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        account = rig.adapter.account
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            waiting = asyncio.ensure_future(reader.next())
            await asyncio.wait([waiting], timeout=0)  # it is waiting now
            for _ in range(2):
                async with asyncio.timeout(BOUND):
                    await rig.adapter.close()
            with pytest.raises(ConnectFailed):
                await waiting
        with pytest.raises((ConnectFailed, DeliveryFailed)):
            await rig.adapter.send(home, part("Too late."), key="1")
        assert not await rig.seen("Too late.")
        await rig.adapter.connect()
        assert rig.adapter.account == account
        await rig.adapter.send(home, part("Back."), key="2")
        assert await rig.seen("Back.")

    async def test_an_adapter_that_was_never_connected_refuses_to_work(self, rig: Rig) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
        fresh = rig.another()
        with pytest.raises(ConnectFailed):
            await fresh.send(home, part("Hello."), key="1")
        with pytest.raises(ConnectFailed):
            await anext(fresh.receive())
        await fresh.close()


# Connections that fail again and again


class ReconnectRig(Protocol):
    """The parts of a RemoteRig that these tests need."""

    adapter: Any
    """A connected Adapter."""
    usual: str

    async def place(self, shape: str) -> Place: ...

    async def say(self, at: Place, text: str) -> str: ...

    async def fail_connections(self, outage: Outage, *, everything: bool) -> None: ...

    async def recover(self) -> None: ...

    async def arrivals(self) -> Sequence[float]: ...

    async def flooded(self, most: int, seconds: float) -> None: ...


class ReconnectContract(Contract):
    """Tests with a fixture `rig` on a fake that runs in the test's own event loop."""

    @pytest.fixture
    def anyio_backend(self) -> tuple[str, dict[str, object]]:
        return "asyncio", {"loop_factory": JumpingLoop}

    @pytest.mark.parametrize(("outage", "everything"), WAYS)
    async def test_connections_that_fail_cost_few_calls_and_the_adapter_receives_again(
        self, rig: ReconnectRig, outage: Outage, everything: bool
    ) -> None:
        at = await rig.place(rig.usual)
        async with kept_connected(rig.adapter) as link:
            await rig.say(at, "before")
            before = await link.received("before")
            await rig.adapter.send(before.address, part("I am here."), key="1")
            await rig.fail_connections(outage, everything=everything)
            await first(link.many_attempts(), rig.flooded(FLOOD, HOURS))
            check(await rig.arrivals())
            await rig.recover()
            await rig.say(at, "after")
            await link.received("after")

    async def test_a_platform_that_asks_to_wait_is_not_called_before(
        self, rig: ReconnectRig
    ) -> None:
        at = await rig.place(rig.usual)
        async with kept_connected(rig.adapter) as link:
            await rig.say(at, "before")
            await link.received("before")
            await rig.fail_connections(Outage.BUSY, everything=True)
            await first(link.many_attempts(), rig.flooded(FLOOD, HOURS))
            times = await rig.arrivals()
            assert len(times) > ATTEMPTS / 2
            pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
            assert min(pauses[_FEW:]) >= RETRY_SECONDS
            await rig.recover()


def check(times: Sequence[float]) -> None:
    """Check the number of requests in every minute and in every hour."""
    for seconds, most in ((60.0, MOST_A_MINUTE), (3600.0, MOST_AN_HOUR)):
        for first, one_more in zip(times, times[most:], strict=False):
            assert one_more - first >= seconds, f"more than {most} requests in {seconds:.0f} s"


async def first(*things: Coroutine[Any, Any, None]) -> None:
    """Wait for one of these, and cancel the others."""
    tasks = [asyncio.ensure_future(it) for it in things]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Link:
    """An adapter that is kept connected, as the gateway keeps it."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._received: dict[str, Inbound] = {}
        self._attempts = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        reconnects = Reconnects()
        while True:
            reconnects.begin()
            self._attempts += 1
            self._changed.set()
            failure: ConnectFailed | None = None
            try:
                await self._adapter.connect()
                await self._receive()
            except ConnectFailed as error:
                failure = error
            await reconnects.wait(failure)

    async def _receive(self) -> None:
        async with contextlib.aclosing(self._adapter.receive()) as coming:
            async for inbound in coming:
                if inbound is not None:
                    self._received[inbound.text] = inbound
                    self._changed.set()

    async def received(self, text: str) -> Inbound:
        """Wait for an update with that text."""
        async with asyncio.timeout(_RECOVERY):
            while text not in self._received:
                self._changed.clear()
                await self._changed.wait()
        return self._received[text]

    async def many_attempts(self) -> None:
        """Wait for ATTEMPTS attempts to connect, but not longer than HOURS."""
        enough = self._attempts + ATTEMPTS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOURS):
                while self._attempts < enough:
                    self._changed.clear()
                    await self._changed.wait()


@contextlib.asynccontextmanager
async def kept_connected(adapter: Adapter) -> AsyncGenerator[Link]:
    """Keep an adapter connected until the end of the `with`."""
    link = Link(adapter)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(link.run())
        yield link
        running.cancel()
