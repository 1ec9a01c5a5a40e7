"""Connecting and closing."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.testing.contract.base import Contract
from segue.testing.contract.rig import BOUND, Rig, home_of, listening, part


class ConnectionContract(Contract):
    async def test_a_closed_adapter_can_be_closed_and_connected_again(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        account = rig.adapter.account
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            waiting = asyncio.ensure_future(ear.next())
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
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
        fresh = rig.another()
        with pytest.raises(ConnectFailed):
            await fresh.send(home, part("Hello."), key="1")
        with pytest.raises(ConnectFailed):
            await anext(fresh.receive())
        await fresh.close()
