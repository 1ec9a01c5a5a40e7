"""Updates that wait until they are recorded."""

from __future__ import annotations

import asyncio

from segue.platforms.unrecorded import Unrecorded


async def test_an_update_stays_first_until_it_is_recorded():
    updates = Unrecorded[str]()
    waiting = asyncio.ensure_future(updates.first())
    await asyncio.sleep(0)
    assert not waiting.done()
    updates.add("1", "one")
    updates.add("2", "two")
    assert (await waiting, await updates.first()) == ("one", "one")
    updates.add("1", "one again")
    assert await updates.first() == "one again"
    for _ in range(2):
        updates.remove("1")
    assert await updates.first() == "two"


async def test_a_waiter_can_be_woken_without_an_update():
    updates = Unrecorded[str]()
    waiting = asyncio.ensure_future(updates.first())
    await asyncio.sleep(0)
    updates.wake()
    assert await waiting is None
