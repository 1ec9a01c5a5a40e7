"""What a gateway looks for while no job is due, with few and many jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure, growth, median, milliseconds
from benchmarks.store import samples
from benchmarks.store.places import Place
from segue import store
from segue.core.address import Platform
from segue.jobs.queries import jobs, reports, runs
from segue.store import Tx
from segue.store.values import moment

FEW = 1

_QUERIES: dict[str, Callable[[Tx], object]] = {
    "find the next due job": jobs.next_wake,
    "look for a run to claim": runs.claim,
    "look for reports to deliver": lambda tx: (
        reports.waiting(tx, Platform),
        reports.failed(tx),
        reports.stranded(tx, moment(tx.now)),
    ),
}


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place, url, quick=quick))


async def _measure(place: Place, url: str, *, quick: bool) -> list[Figure]:
    times = 100 if quick else 2_000
    found: list[Figure] = []
    took: dict[str, list[float]] = {what: [] for what in _QUERIES}
    async with await store.open(url) as s:
        known = 0
        for count in (FEW, place.many(quick=quick)):
            await samples.jobs(s, known + 1, count)
            known = count
            for what, query in _QUERIES.items():
                took[what].append(median(await s.write(_timed, query, times)))
                name = f"{place.name} {what} among {count:,}"
                found.append(milliseconds(name, took[what][-1]))
    return found + [growth(f"{place.name} {what}, growth", *took[what]) for what in _QUERIES]


def _timed(tx: Tx, query: Callable[[Tx], object], times: int) -> list[float]:
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        query(tx)
        took.append(time.perf_counter() - began)
    return took
