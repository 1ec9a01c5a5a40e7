"""Jobs: what many of them cost an idle gateway, and how soon a run starts after it is due."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from datetime import timedelta

from benchmarks.figures import Figure, growth, median, milliseconds, percentile
from benchmarks.gateway.house import house
from benchmarks.store import samples
from segue.core.job import NewJob, parse_targets
from segue.core.schedule import Once
from segue.core.session import ME
from segue.store import Store, Topic, Tx, jobs
from segue.store.values import moment
from segue.testing.gateways import Process

MANY = 100_000
STARTED = 50.0
_SETTLE = 1.0
_AHEAD = 0.5
"""Seconds until the first run is due, so that the gateway is asleep by then."""
_SPREAD = 0.05
"""Seconds between two due times, on average."""


def measure(*, quick: bool) -> Iterator[Figure]:
    runs, seconds = (40, 5.0) if quick else (180, 30.0)
    none, many, late = asyncio.run(_measure(runs, seconds))
    name = f"CPU of an idle gateway with {MANY:,} jobs"
    yield Figure(name=name, value=100 * many / seconds, unit="%")
    yield growth(f"{name}, against none", none, many)
    yield milliseconds("a run that is due → started: p50", median(late), STARTED)
    yield milliseconds("a run that is due → started: p99", percentile(late, 99))


async def _measure(runs: int, seconds: float) -> tuple[float, float, list[float]]:
    async with house() as small, house() as large:
        await samples.jobs(large.store, 1, MANY)
        async with small.gateway() as without, large.gateway() as gateway:
            # At the same time, so that what else the machine does disturbs both alike.
            none, many = await asyncio.gather(_idle(without, seconds), _idle(gateway, seconds))
            return none, many, await _late(large.store, runs)


async def _idle(gateway: Process, seconds: float) -> float:
    """The CPU seconds that the gateway uses while nothing happens."""
    await asyncio.sleep(_SETTLE)
    used = _processor(gateway.pid)
    await asyncio.sleep(seconds)
    return _processor(gateway.pid) - used


def _processor(pid: int) -> float:
    """The CPU seconds of another process. /proc counts them in hundredths, which is too coarse
    here."""
    return time.clock_gettime((~pid << 3) | 2)  # the kernel's clock id of a process


async def _late(store: Store, runs: int) -> list[float]:
    """How many seconds after its due time each of `runs` reminders was started."""
    await store.write(_remind, runs)
    async with store.listen(Topic.JOBS) as wake:
        while len(found := await store.read(_started)) < runs:
            await wake.wait(0.2)
    return found


def _started(tx: Tx) -> list[float]:
    rows = tx.rows(
        "SELECT r.started - r.due FROM runs r JOIN jobs j ON j.id = r.job_id"
        " WHERE j.owner = :owner AND r.finished IS NOT NULL",
        owner=ME,
    )
    return [micros / 1e6 for (micros,) in rows]


def _remind(tx: Tx, runs: int) -> None:
    at = moment(tx.now) + timedelta(seconds=_AHEAD)
    for _ in range(runs):
        at += timedelta(seconds=random.uniform(0, 2 * _SPREAD))
        reminder = NewJob(
            prompt="measured",
            schedule=Once(at),
            zone="UTC",
            deliver=parse_targets("local"),
            verbatim=True,
        )
        jobs.create(tx, ME, reminder)
