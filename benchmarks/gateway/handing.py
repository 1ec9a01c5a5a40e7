"""Handoffs from a terminal, from the request until the terminal may exit, with an instant model."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.figures import Figure, median, milliseconds, percentile
from benchmarks.gateway.house import PLATFORM, House, house
from segue.core.address import Address, ChatType, HomeChannel
from segue.core.session import ME
from segue.core.transcript import Message, Role, spoken
from segue.handoff import Completed, Working, hand_off
from segue.testing.platform import Shape, Trouble
from segue.turns import hold

CLAIMED, CLAIMED_P99, COMPLETED, BESIDE = 5.0, 25.0, 60.0, 25.0
_SLOW = 3.0
"""Seconds that the slow handoff takes to open its thread."""
_LONG = 20
"""The number of exchanges in the session that moves."""


@dataclass(frozen=True, slots=True)
class _Moved:
    claimed: float
    completed: float


def measure(*, quick: bool) -> Iterator[Figure]:
    count, beside = (40, 2) if quick else (300, 5)
    alone, second = asyncio.run(_measure(count, beside))
    claimed = [moved.claimed for moved in alone]
    completed = [moved.completed for moved in alone]
    yield milliseconds("request → claimed: p50", median(claimed), CLAIMED)
    yield milliseconds("request → claimed: p99", percentile(claimed, 99), CLAIMED_P99)
    yield milliseconds("request → completed: p50", median(completed), COMPLETED)
    yield milliseconds("request → completed: p99", percentile(completed, 99))
    yield milliseconds(
        f"request → claimed beside one that takes {_SLOW:.0f} s: worst", max(second), BESIDE
    )


async def _measure(count: int, beside: int) -> tuple[list[_Moved], list[float]]:
    async with house() as place, place.gateway():
        chat = await place.driver.chat(Shape.FORUM, [place.owner])
        home = Address(platform=PLATFORM, chat_type=ChatType.GROUP, chat_id=chat)
        await place.store.owners.set_home(ME, HomeChannel(address=home, name="Home"))
        await _move(place)  # warm-up: the first handoff also loads what the others need
        alone = [await _move(place) for _ in range(count)]
        return alone, [await _beside(place) for _ in range(beside)]


async def _move(place: House) -> _Moved:
    """Move a new terminal session to the home channel."""
    session = await place.store.sessions.create(ME, PLATFORM.LOCAL)
    here = Address(platform=PLATFORM.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
    claimed, last = 0.0, None
    async with hold(place.store, session.id, "a terminal", address=here) as held:
        now = session.started
        for number in range(_LONG):
            said = [spoken(f"{number}?", now), Message(Role.ASSISTANT, f"{number}.", now)]
            await place.store.transcripts.append(held.lease, said)
        await asyncio.sleep(random.uniform(0.0, 0.05))
        began = time.perf_counter()
        async for last in hand_off(place.store, held, PLATFORM.value):
            if isinstance(last, Working) and not claimed:
                claimed = time.perf_counter()
        assert isinstance(last, Completed), last
        return _Moved(claimed - began, time.perf_counter() - began)


async def _beside(place: House) -> float:
    """The claim time of a handoff while another one waits for its thread."""
    await place.driver.fail("open_thread", Trouble.DELAY, seconds=_SLOW)
    threads = (await place.driver.look()).calls.get("open_thread", 0)
    slow = asyncio.create_task(_move(place))
    await place.driver.until(lambda shown: shown.calls.get("open_thread", 0) > threads)
    claimed = (await _move(place)).claimed
    assert not slow.done(), "the slow one was quick"
    await slow
    return claimed
