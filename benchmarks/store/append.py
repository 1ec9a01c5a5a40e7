"""Appending messages, which are durable when the call returns, and the same with a bare driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks import bare, workers
from benchmarks.figures import Base, Figure, median, milliseconds, rate
from benchmarks.store import samples
from benchmarks.store.places import Place
from benchmarks.workers import Line
from segue import store
from segue.core.session import Lease
from segue.store import Store, leases, owners, transcripts

RATES = {"sqlite": 0.6, "postgres": 0.8}
"""The part of the bare driver's rate to reach, with as many processes."""
CPU = {"sqlite": 3.0, "postgres": 6.0}
"""The most processor time that a message may take, as a multiple of the bare driver's. Ours also
checks the lease, counts tokens and keeps the session's time."""
WORST_STALL = 1.0
"""As a multiple of the bare driver's, if several processes write: it lets them starve."""

_WARM_UP = 20
_SLICES = 4
_SLICES_QUICKLY = 2
"""How often ours and the bare driver take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`processes` that append at once, each to `conversations` at once."""

    name: str
    processes: int = 1
    conversations: int = 1
    batch: int = 1


LOADS = (
    Load(name="1 process"),
    Load(name="1 process, 8 conversations at once", conversations=8),
    Load(name="1 process, 100 messages at a time", batch=100),
    Load(name="4 processes", processes=4),
    Load(name="4 processes, 8 conversations at once in each", processes=4, conversations=8),
)


class Slice(NamedTuple):
    """What all processes did in one slice of time."""

    took: list[float]
    """Seconds of each append, or of each commit."""
    lasted: float
    used: float
    """Processor seconds."""


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    slices, seconds = (_SLICES_QUICKLY, 0.3) if quick else (_SLICES, 2.0)
    with place.empty() as url:
        asyncio.run(_create(url))
        bare.prepare(bare.beside(url))
        for load in LOADS[::2] if quick else LOADS:
            yield from _figures(place, url, load, slices, seconds)


def _figures(place: Place, url: str, load: Load, slices: int, seconds: float) -> Iterator[Figure]:
    ours: list[Slice] = []
    theirs: list[Slice] = []
    for _ in range(slices):
        ours.append(_slice(_worker, url, load, seconds, load.conversations))
        theirs.append(_slice(_bare_worker, bare.beside(url), load, seconds, 1))
    name = f"{place.name} append, {load.name}"
    driver = bare.driver(url)
    base = Base(name=driver, value=_rate(theirs, load))
    # In a batch, the disk takes the smaller part: what the driver does not do costs more.
    target = RATES[place.name] / (2 if load.batch > 1 else 1)
    yield rate(name, "msg", _rate(ours, load), base, target)
    base = Base(name=driver, value=_used(theirs, load))
    yield milliseconds(f"{name}: CPU of a message", _used(ours, load), base, CPU[place.name])
    took = [second for each in ours for second in each.took]
    yield milliseconds(f"{name}: p50", median(took))
    base = Base(name=driver, value=max(second for each in theirs for second in each.took))
    target = WORST_STALL if load.processes > 1 else None
    yield milliseconds(f"{name}: worst stall", max(took), base, target)


def _slice(
    worker: Callable[..., None], url: str, load: Load, seconds: float, at_once: int
) -> Slice:
    told: list[tuple[list[float], float]] = workers.together(
        load.processes, worker, url, load, seconds
    )
    took = [second for process, _ in told for second in process]
    # Every conversation is always waiting for an append, so this is the elapsed time.
    lasted = sum(took) / (load.processes * at_once)
    return Slice(took, lasted, sum(used for _, used in told))


def _rate(slices: Sequence[Slice], load: Load) -> float:
    return median([len(each.took) * load.batch / each.lasted for each in slices])


def _used(slices: Sequence[Slice], load: Load) -> float:
    return min(each.used / (len(each.took) * load.batch) for each in slices)


async def _create(url: str) -> None:
    async with await store.open(url) as s:
        await owners.ensure(s, samples.OWNER)


def _worker(line: Line, url: str, load: Load, seconds: float) -> None:
    asyncio.run(_work(line, url, load, seconds))


async def _work(line: Line, url: str, load: Load, seconds: float) -> None:
    async with await store.open(url) as s:
        leases = [await _new_lease(s) for _ in range(load.conversations)]
        for _ in range(_WARM_UP):
            await transcripts.append(s, leases[0], [samples.message()] * load.batch)
        line.wait_for_go()
        end = time.perf_counter() + seconds
        used = time.process_time()
        took = await asyncio.gather(*(_append(s, lease, load.batch, end) for lease in leases))
        used = time.process_time() - used
    line.tell(([second for conversation in took for second in conversation], used))


async def _new_lease(s: Store) -> Lease:
    return await leases.acquire(s, await samples.new_session(s), "a benchmark")


async def _append(s: Store, lease: Lease, batch: int, end: float) -> list[float]:
    said = [samples.message()] * batch
    took: list[float] = []
    while (began := time.perf_counter()) < end:
        await transcripts.append(s, lease, said)
        took.append(time.perf_counter() - began)
    return took


def _bare_worker(line: Line, url: str, load: Load, seconds: float) -> None:
    took: list[float] = []
    with bare.committing(url) as commit:
        commit(load.batch)
        line.wait_for_go()
        end = time.perf_counter() + seconds
        used = time.process_time()
        while (began := time.perf_counter()) < end:
            commit(load.batch)
            took.append(time.perf_counter() - began)
        used = time.process_time() - used
    line.tell((took, used))
