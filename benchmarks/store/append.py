"""Appending messages, which are durable when the call returns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import workers
from benchmarks.figures import Figure, median, milliseconds, rate
from benchmarks.store import samples
from benchmarks.store.places import Place
from benchmarks.workers import Line
from segue import store
from segue.core.lease import Lease
from segue.store import Store

ONE_PROCESS = 2 * 1_929
FOUR_PROCESSES = 3 * 1_405
WORST_STALL = 200

_WARM_UP = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`processes` that append at once, each to `conversations` at once."""

    name: str
    processes: int = 1
    conversations: int = 1
    batch: int = 1
    target: float | None = None


LOADS = (
    Load(name="1 process", target=ONE_PROCESS),
    Load(name="1 process, 8 conversations at once", conversations=8, target=ONE_PROCESS),
    Load(name="1 process, 100 messages at a time", batch=100),
    Load(name="4 processes", processes=4, target=FOUR_PROCESSES),
    Load(
        name="4 processes, 8 conversations at once in each",
        processes=4,
        conversations=8,
        target=FOUR_PROCESSES,
    ),
)


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    seconds = 0.7 if quick else 5.0
    with place.empty() as url:
        asyncio.run(_create(url))
        for load in LOADS:
            yield from _figures(f"{place.name} append, {load.name}", url, load, seconds)


def _figures(name: str, url: str, load: Load, seconds: float) -> Iterator[Figure]:
    told: list[list[float]] = workers.together(load.processes, _worker, url, load, seconds)
    took = [second for process in told for second in process]
    # Every conversation is always waiting for an append, so this is the elapsed time.
    lasted = sum(took) / (load.processes * load.conversations)
    yield rate(name, "msg", len(took) * load.batch / lasted, load.target)
    yield milliseconds(f"{name}: p50", median(took))
    yield milliseconds(f"{name}: worst stall", max(took), WORST_STALL)


async def _create(url: str) -> None:
    async with await store.open(url) as s:
        await s.owners.ensure(samples.OWNER)


def _worker(line: Line, url: str, load: Load, seconds: float) -> None:
    asyncio.run(_work(line, url, load, seconds))


async def _work(line: Line, url: str, load: Load, seconds: float) -> None:
    async with await store.open(url) as s:
        leases = [await _new_lease(s) for _ in range(load.conversations)]
        for _ in range(_WARM_UP):
            await s.transcripts.append(leases[0], [samples.message()] * load.batch)
        line.wait_for_go()
        end = time.perf_counter() + seconds
        took = await asyncio.gather(*(_append(s, lease, load.batch, end) for lease in leases))
    line.tell([second for conversation in took for second in conversation])


async def _new_lease(s: Store) -> Lease:
    return await s.leases.acquire(await samples.new_session(s), "a benchmark")


async def _append(s: Store, lease: Lease, batch: int, end: float) -> list[float]:
    said = [samples.message()] * batch
    took: list[float] = []
    while (began := time.perf_counter()) < end:
        await s.transcripts.append(lease, said)
        took.append(time.perf_counter() - began)
    return took
