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
from segue.store import Tx, handoffs

FEW = 1_000
WAITING = 5
LIST = 6.0
"""The most that the query may take, as a multiple of the same rows from a bare driver."""
_QUERY = "SELECT * FROM handoffs WHERE state = 'pending' ORDER BY id LIMIT 50"


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place, url, quick=quick))


async def _measure(place: Place, url: str, *, quick: bool) -> list[Figure]:
    name, times = place.name, 300 if quick else 2_000
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
            took: list[float] = []
            for _ in range(times):
                began = time.perf_counter()
                listed = await s.list_pending_handoffs()
                took.append(time.perf_counter() - began)
                assert len(listed) == WAITING
            found.append(milliseconds(f"{what}, as its caller sees it", median(took)))
    found.append(growth(f"{name} list pending, growth", *inside))
    return found


def _timed(tx: Tx, times: int) -> list[float]:
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        handoffs.pending(tx)
        took.append(time.perf_counter() - began)
    return took


def _fetched(fetch: bare.Fetch, times: int) -> float:
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        fetch(_QUERY)
        took.append(time.perf_counter() - began)
    return median(took)
