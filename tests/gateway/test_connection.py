"""Reconnecting an adapter: pauses grow until a connection has lasted. What only the user can fix is
not tried again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

import pytest

from segue.core.errors import ConnectFailed, SetupNeeded
from segue.gateway.connections import PlatformConnection
from segue.gateway.service import Gateway
from segue.platforms.base import Inbound
from segue.platforms.connection import STEADY_SECONDS, Reconnects
from segue.store import Topic, gateways
from segue.store.gateways import LinkState, PlatformHealth
from segue.system.backoff import Backoff
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.harness.house import TELEGRAM, House, Offered
from tests.harness.quiet_adapter import Quiet

DROPS = 8


class Dropping(Quiet):
    """Loses its connection repeatedly, some seconds after one update, or before any."""

    def __init__(self, *, works: bool = False, lasts: float = 0.0) -> None:
        super().__init__(TELEGRAM)
        self.backoff = Backoff(least=0.0001, most=0.0001)
        self.reconnects = Reconnects(self.backoff, lambda: self._now)
        self._now = 0.0
        self._works = works
        self._lasts = lasts
        self.attempts: list[int] = []
        """The number of the pause before each connection."""
        self.enough = asyncio.Event()

    async def connect(self) -> None:
        self.attempts.append(self.backoff.attempt)
        if len(self.attempts) > DROPS:
            self.enough.set()

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        if self._works:
            yield None
        self._now += self._lasts
        raise ConnectFailed(platform=TELEGRAM, reason="the connection broke")


class Unconfigured(Dropping):
    async def connect(self) -> None:
        self.attempts.append(self.backoff.attempt)
        raise SetupNeeded(platform=TELEGRAM, reason="there is no token")


@contextlib.asynccontextmanager
async def connecting(house: House, adapter: Dropping) -> AsyncGenerator[PlatformConnection]:
    agents = Agents(house.store, house.settings, Offered(house.model))
    async with Turns(house.store, agents) as turns:
        gateway = Gateway(house.store, turns, house.settings, [adapter])
        connection = PlatformConnection(
            house.store, adapter, gateway.receiver, lambda: None, adapter.reconnects
        )
        running = asyncio.create_task(connection.run())
        yield connection
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize("works", [True, False])
async def test_pauses_grow_while_connections_end_early_even_if_something_arrives(
    house: House, works: bool
):
    adapter = Dropping(works=works, lasts=STEADY_SECONDS - 1)
    async with connecting(house, adapter):
        await adapter.enough.wait()
    assert adapter.attempts[: DROPS + 1] == list(range(DROPS + 1))


async def test_a_connection_that_lasted_resets_the_pauses(house: House):
    adapter = Dropping(works=True, lasts=STEADY_SECONDS)
    async with connecting(house, adapter):
        await adapter.enough.wait()
    assert adapter.attempts[: DROPS + 1] == [0, *[1] * DROPS]


def test_the_time_that_a_platform_asks_for_is_waited():
    reconnects = Reconnects(Backoff(least=1.0, most=60.0), lambda: 0.0)
    assert reconnects.pause(ConnectFailed(platform=TELEGRAM, reason="busy", after=300.0)) == 300.0
    assert 1.5 <= reconnects.pause(ConnectFailed(platform=TELEGRAM, reason="busy", after=0.1)) < 3


async def test_the_same_failure_is_logged_once(house: House, caplog: pytest.LogCaptureFixture):
    adapter = Dropping()
    adapter.connect = lambda: _refuse(adapter)
    with caplog.at_level(logging.INFO):
        async with connecting(house, adapter):
            await adapter.enough.wait()
    told = [it for it in caplog.messages if it.startswith("disconnected platform=telegram")]
    assert told == ["disconnected platform=telegram: it is away"]


async def _refuse(adapter: Dropping) -> None:
    await Dropping.connect(adapter)
    raise ConnectFailed(platform=TELEGRAM, reason="it is away")


async def link_of(house: House) -> PlatformHealth:
    [gateway] = await gateways.alive(house.store)
    return gateway.links[TELEGRAM]


async def test_what_only_the_user_can_fix_is_tried_once_and_shown(
    house: House, caplog: pytest.LogCaptureFixture
):
    adapter = Unconfigured()
    await gateways.announce(house.store, "a gateway", [TELEGRAM])
    async with connecting(house, adapter):
        async with asyncio.timeout(10), house.store.listen(Topic.HANDOFFS) as wake:
            while (link := await link_of(house)).state is not LinkState.DOWN:
                await wake.wait(0.1)
        for _ in range(1000):  # it has time for another attempt
            await asyncio.sleep(0)
        assert link.detail == "there is no token"
    assert adapter.attempts == [0]
    assert caplog.messages.count("disconnected platform=telegram: there is no token") == 1
