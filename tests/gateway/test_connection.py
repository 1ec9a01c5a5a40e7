"""Reconnecting an adapter: pauses grow with each failure, and a success resets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from segue.core.errors import ConnectFailed
from segue.gateway.connection import PlatformConnection
from segue.gateway.pace import Backoff
from segue.gateway.service import Gateway
from segue.platforms.base import Inbound
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.gateway.conftest import TELEGRAM, House
from tests.harness.quiet_adapter import Quiet
from tests.turns.conftest import Offered

DROPS = 8


class Dropping(Quiet):
    """Loses its connection repeatedly, after one successful poll or after none."""

    def __init__(self, backoff: Backoff, *, works: bool) -> None:
        super().__init__(TELEGRAM)
        self._backoff = backoff
        self._works = works
        self.attempts: list[int] = []
        """The number of the pause before each connection."""
        self.enough = asyncio.Event()

    async def connect(self) -> None:
        self.attempts.append(self._backoff.attempt)
        if len(self.attempts) > DROPS:
            self.enough.set()

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        if self._works:
            yield None
        raise ConnectFailed(platform=TELEGRAM, reason="the connection broke")


@pytest.mark.parametrize(
    ("works", "attempts"), [(True, [0, *[1] * DROPS]), (False, list(range(DROPS + 1)))]
)
async def test_a_successful_poll_resets_the_backoff(house: House, works: bool, attempts: list[int]):
    backoff = Backoff(least=0.0001, most=0.0001)
    adapter = Dropping(backoff, works=works)
    async with Turns(
        house.store, Agents(house.store, house.settings, Offered(house.model))
    ) as turns:
        gateway = Gateway(house.store, turns, house.settings, [adapter])
        connection = PlatformConnection(
            house.store, adapter, gateway.receiver, lambda: None, backoff
        )
        running = asyncio.create_task(connection.run())
        await asyncio.wait(
            {running, asyncio.create_task(adapter.enough.wait())},
            return_when=asyncio.FIRST_COMPLETED,
        )
        running.cancel()
        await asyncio.wait({running})
    assert adapter.attempts[: DROPS + 1] == attempts
