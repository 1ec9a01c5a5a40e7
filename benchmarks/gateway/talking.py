"""Five hundred conversations at once on one gateway, with an instant model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

from benchmarks import bare
from benchmarks.figures import (
    Base,
    Figure,
    growth,
    median,
    milliseconds,
    percentile,
    progress,
    rate,
)
from benchmarks.gateway.house import House, house
from tests.harness.crowd import Crowd, Talk
from tests.harness.gateway_processes import Process

CHATS = 500
FEW = 20
"""The number of busy chats with which the CPU cost per message is compared."""
PACE = 60.0
"""Messages per second, at a rate that users who wait for answers would send."""
TAKES = 40.0
"""The most that a message may take at that pace, as a multiple of a bare echo and a commit."""
AT_ONCE = 0.05
"""The part of the rate to reach at which a bare program echoes and commits, one after another."""
CPU = 15.0
"""The most that it may cost, as a multiple of a bare echo and a commit."""
MOST_GROWTH = 10.0
"""Megabytes of growth allowed between 5,000 and 20,000 turns."""
_EARLY, _LATE = 5_000, 20_000
_BARE = "a bare echo and a commit"


def measure(*, quick: bool) -> Iterator[Figure]:
    yield from asyncio.run(_measure(quick=quick))


async def _measure(*, quick: bool) -> list[Figure]:
    each, seconds = (1, 4) if quick else (4, 30)
    async with house() as place:
        crowd = await Crowd.of(place.driver, place.owner, CHATS)
        async with place.gateway() as gateway:
            await crowd.at_once(within=120)  # creates the session of every chat
            used = gateway.processor
            took = await crowd.at_once(each, within=120)
            many = (gateway.processor - used) / (CHATS * each)
            used = gateway.processor
            await crowd.at_once(10 * each, chats=FEW, within=120)
            few = (gateway.processor - used) / (FEW * 10 * each)
            count = int(PACE * seconds)
            used = gateway.processor
            talks = await crowd.at_pace(PACE, count, within=120)
            used = gateway.processor - used
            waits = [wait for talk in talks for wait in talk.seconds]
            trips, least = await _least(place, 200)
            figures = [
                rate(
                    f"messages of {CHATS} chats at once",
                    "messages",
                    CHATS * each / took,
                    Base(name=_BARE, value=1 / median(trips)),
                    AT_ONCE,
                ),
                growth(f"CPU of a message of {CHATS} chats against {FEW}", few, many),
                *(
                    milliseconds(
                        f"overhead of a message at {PACE:.0f}/s: p{percent}",
                        percentile(waits, percent),
                        Base(name=_BARE, value=percentile(trips, percent)),
                        TAKES,
                    )
                    for percent in (50, 99)
                ),
                milliseconds(
                    f"CPU of a message at {PACE:.0f}/s",
                    used / count,
                    Base(name=_BARE, value=least),
                    CPU,
                ),
            ]
            if not quick:
                figures.append(
                    await _growth(crowd, gateway, (CHATS + 10 * FEW) * (1 + each) + count)
                )
            _check(await crowd.talks())
            return figures


async def _least(place: House, times: int) -> tuple[list[float], float]:
    """How long an echo and a durable commit take, and how much processor time."""
    url = bare.beside(place.environment["SEGUE_STORE"])
    bare.prepare(url)
    took: list[float] = []
    async with bare.echo() as once:
        with bare.committing(url) as commit:
            await once()
            used = time.process_time()
            for _ in range(times):
                began = time.perf_counter()
                await once()
                commit(1)
                took.append(time.perf_counter() - began)
            return took, (time.process_time() - used) / times


async def _growth(crowd: Crowd, gateway: Process, done: int) -> Figure:
    """The memory that the gateway gains between `_EARLY` and `_LATE` turns."""
    memory: list[float] = []
    for turns in (_EARLY, _LATE):
        while done < turns:
            await crowd.at_once(within=120)
            done += CHATS
            progress(f"gateway: {done:,} turns, {gateway.memory:.1f} MB")
        memory.append(gateway.memory)
    name = f"memory that grew between {_EARLY:,} and {_LATE:,} turns"
    return Figure(name=name, value=memory[1] - memory[0], unit="MB", target=MOST_GROWTH)


def _check(talks: Sequence[Talk]) -> None:
    wrong = [talk for talk in talks if talk.answered != talk.said]
    assert not wrong, f"lost, doubled or out of order: {wrong[0]}"
