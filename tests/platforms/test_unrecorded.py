"""Updates that wait until they are recorded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from segue.platforms.unrecorded import Deliveries


@dataclass(frozen=True)
class TimedUpdate:
    id: str
    timestamp: float


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_delivery_waits_for_one_that_it_has_overtaken():
    clock, early, late = Clock(), TimedUpdate("a", 1), TimedUpdate("b", 2)
    updates = Deliveries[TimedUpdate](5.0, clock)
    requests = [asyncio.ensure_future(updates.record([it])) for it in (late, early)]
    await asyncio.wait(requests, timeout=0)
    waiting = asyncio.ensure_future(updates.first())
    await asyncio.wait([waiting], timeout=0)
    assert not waiting.done()
    waiting.cancel()
    clock.now = 5.0
    assert await updates.first() == early
    assert await updates.first() == early, "it is not recorded yet"
    updates.recorded(early)
    assert await updates.first() == late
    assert [request.done() for request in requests] == [False, False]
    assert await requests[1]
    updates.recorded(late)
    assert await requests[0]


async def test_within_a_second_the_order_of_arrival_counts():
    updates = Deliveries[TimedUpdate](0.0)
    them = [TimedUpdate(name, 1) for name in "zay"]
    request = asyncio.ensure_future(updates.record(them))
    for expected in them:
        while (found := await updates.first()) is None:
            pass
        assert found == expected
        updates.recorded(found)
    assert await request


async def test_deliveries_that_are_dropped_are_not_confirmed():
    updates = Deliveries[TimedUpdate](0.0)
    request = asyncio.ensure_future(updates.record([TimedUpdate("a", 1)]))
    await asyncio.wait([request], timeout=0)
    updates.drop()
    assert not await request
    assert await updates.first(0.0) is None
    assert await updates.record([]), "a request without updates"
