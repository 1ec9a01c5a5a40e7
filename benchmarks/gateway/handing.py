"""Handoffs from a terminal, from the request until the terminal may exit, with an instant model."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import bare
from benchmarks.figures import Base, Figure, milliseconds, percentile
from benchmarks.gateway.house import PLATFORM, House, house
from segue.core.address import Address, ChatType, HomeChannel
from segue.core.session import ME
from segue.core.transcript import Message, Role, spoken
from segue.handoffs import Completed, HandoffRequest, Working, hand_off
from segue.store import owners, sessions, transcripts
from segue.testing.platform import Shape, Trouble
from segue.turns import hold

CLAIMED = 8.0
COMPLETED = 80.0
"""The most that a handoff may take, as a multiple of the least that two processes can do."""
BESIDE = 2.0
"""The most that a claim may take beside a slow handoff, as a multiple of the slowest one alone."""
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
    alone, least, second = asyncio.run(_measure(count, beside))
    claimed = [moved.claimed for moved in alone]
    completed = [moved.completed for moved in alone]
    for what, took, target in (
        ("claimed", claimed, CLAIMED),
        ("completed", completed, COMPLETED),
    ):
        for percent in (50, 99):
            base = Base(name=bare.RELAY, value=percentile(least, percent))
            name = f"request → {what}: p{percent}"
            yield milliseconds(name, percentile(took, percent), base, target)
    base = Base(name="alone, the slowest", value=max(claimed))
    name = f"request → claimed beside one that takes {_SLOW:.0f} s: worst"
    yield milliseconds(name, max(second), base, BESIDE)


async def _measure(count: int, beside: int) -> tuple[list[_Moved], list[float], list[float]]:
    """What each handoff took alone, what two processes take at least, measured by turns, and what
    each took beside a slow one."""
    async with house() as place, place.gateway():
        url = place.environment["SEGUE_STORE"]
        bare.prepare(bare.beside(url))
        chat = await place.driver.chat(Shape.FORUM, [place.owner])
        home = Address(platform=PLATFORM, chat_type=ChatType.GROUP, chat_id=chat)
        await owners.set_home(place.store, ME, HomeChannel(address=home, name="Home"))
        await _move(place)  # warm-up: the first handoff also loads what the others need
        alone: list[_Moved] = []
        least: list[float] = []
        with bare.relay(url) as once:
            await asyncio.to_thread(once)
            for _ in range(count):
                alone.append(await _move(place))
                least.append(await asyncio.to_thread(once))
        return alone, least, [await _beside(place) for _ in range(beside)]


async def _move(place: House) -> _Moved:
    """Move a new terminal session to the home channel."""
    session = await sessions.create(place.store, ME, PLATFORM.LOCAL)
    here = Address(platform=PLATFORM.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
    claimed, last = 0.0, None
    async with hold(place.store, session.id, "a terminal", address=here) as held:
        now = session.started
        for number in range(_LONG):
            said = [spoken(f"{number}?", now), Message(Role.ASSISTANT, f"{number}.", now)]
            await transcripts.append(place.store, held.lease, said)
        await asyncio.sleep(random.uniform(0.0, 0.05))
        began = time.perf_counter()
        async for last in hand_off(place.store, held, HandoffRequest(PLATFORM)):
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
