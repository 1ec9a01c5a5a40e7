"""Listing pending handoffs, with few and many sessions and completed handoffs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from benchmarks import bare
from benchmarks.figures import Base, Figure, growth, median, milliseconds
from benchmarks.store import samples
from benchmarks.store.places import Place
from segue import store
from segue.handoffs import queries as handoffs
from segue.store import Store, Tx

FEW = 1_000
WAITING = 5
LIST = 6.0
"""The most that the query may take, as a multiple of the same rows from a bare driver."""
_QUERY = "SELECT * FROM handoffs WHERE state = 'pending' ORDER BY id LIMIT 50"


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place, url, quick=quick))


async def _measure(place: Place, url: str, *, quick: bool) -> list[Figure]:
    name, times = place.name, 100 if quick else 2_000
    found: list[Figure] = []
    inside: list[float] = []
    async with await store.open(url) as s:
        known = 0
        for count in (FEW, place.many(quick=quick)):
            await samples.sessions(s, known + 1, count)
            await samples.handoffs(s, "completed", known + 1, count)
            if not known:
                await samples.handoffs(s, "pending", 1, WAITING)
            known = count
            what = f"{name} list {WAITING} pending among {count:,} sessions"
            # First the query alone, then with the round trip to the store's thread.
            inside.append(median(await s.write(_timed, times)))
            with bare.querying(url) as fetch:
                base = Base(name=bare.driver(url), value=_fetched(fetch, times))
                found.append(milliseconds(what, inside[-1], base, LIST))
                took, least = await _called(s, fetch, times)
            base = Base(name=f"{bare.driver(url)} in a thread", value=least)
            found.append(milliseconds(f"{what}, as its caller sees it", took, base, LIST))
    found.append(growth(f"{name} list pending, growth", *inside))
    return found


def _timed(tx: Tx, times: int) -> list[float]:
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        handoffs.pending(tx)
        took.append(time.perf_counter() - began)
    return took


async def _called(s: Store, fetch: bare.Fetch, times: int) -> tuple[float, float]:
    """The median seconds of ours and of the bare driver in a thread, by turns."""
    took: list[float] = []
    least: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        listed = await handoffs.pending(s)
        between = time.perf_counter()
        await asyncio.to_thread(fetch, _QUERY)
        least.append(time.perf_counter() - between)
        took.append(between - began)
        assert len(listed) == WAITING
    return median(took), median(least)


def _fetched(fetch: bare.Fetch, times: int) -> float:
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        fetch(_QUERY)
        took.append(time.perf_counter() - began)
    return median(took)
