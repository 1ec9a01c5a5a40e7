"""Jobs: what many of them cost an idle gateway, and how soon a run starts after it is due."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import timedelta

from benchmarks import bare
from benchmarks.alternation import of_process
from benchmarks.figures import Base, Figure, growth, milliseconds, percentile
from benchmarks.gateway.house import House, house
from benchmarks.store import samples
from segue.core.session import ME
from segue.jobs.queries import jobs
from segue.jobs.schedule import Once
from segue.jobs.values import NewJob, parse_targets
from segue.store import Store, Topic, Tx
from segue.store.values import moment
from tests.harness.gateway_processes import Process

MANY = 100_000
STARTED = 20.0
"""The most that a run may be late, as a multiple of what another process takes to commit."""
_SETTLE = 1.0
_AHEAD = 0.5
"""Seconds until the first run is due, so that the gateway is asleep by then."""
_SPREAD = 0.05
"""Seconds between two due times, on average."""


def measure(*, quick: bool) -> Iterator[Figure]:
    runs, seconds = (40, 3.0) if quick else (180, 30.0)
    none, many, late, least = asyncio.run(_measure(runs, seconds))
    name = f"CPU of an idle gateway with {MANY:,} jobs"
    yield Figure(name=name, value=100 * many / seconds, unit="%")
    yield growth(f"{name}, against none", none, many)
    for percent in (50, 99):
        base = Base(name=bare.RELAY, value=percentile(least, percent))
        name = f"a run that is due → started: p{percent}"
        yield milliseconds(name, percentile(late, percent), base, STARTED)


async def _measure(runs: int, seconds: float) -> tuple[float, float, list[float], list[float]]:
    async with house() as small, house() as large:
        await samples.jobs(large.store, 1, MANY)
        async with small.gateway() as without, large.gateway() as gateway:
            # At the same time, so that what else the machine does disturbs both alike.
            none, many = await asyncio.gather(_idle(without, seconds), _idle(gateway, seconds))
            late = await _late(large.store, runs)
            return none, many, late, await asyncio.to_thread(_relays, large, runs)


def _relays(place: House, times: int) -> list[float]:
    """How long two processes take at least, in the folder of the store."""
    url = place.environment["SEGUE_STORE"]
    bare.prepare(bare.beside(url))
    with bare.relay(url) as once:
        once()
        return [once() for _ in range(times)]


async def _idle(gateway: Process, seconds: float) -> float:
    """The CPU seconds that the gateway uses while nothing happens."""
    await asyncio.sleep(_SETTLE)
    used = of_process(gateway.pid)
    await asyncio.sleep(seconds)
    return of_process(gateway.pid) - used


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
