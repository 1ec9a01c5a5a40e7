"""Looking up the session of a chat, with few and many chats."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC
from functools import partial

from benchmarks import bare
from benchmarks.figures import Base, Figure, growth, median, milliseconds
from benchmarks.store import samples
from benchmarks.store.places import Place
from segue import store
from segue.core.address import Address
from segue.core.reset import ResetMode, ResetPolicy
from segue.store import Store, bindings

LOOKUP = 6.0
"""The most that a lookup may take, as a multiple of one query of a bare driver in a thread."""

_QUERY = (
    "SELECT s.id, s.owner, s.active FROM bindings b JOIN sessions s ON s.no = b.session_no"
    " WHERE b.address = :address"
)
_POLICY = ResetPolicy(mode=ResetMode.BOTH)


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place, url, quick=quick))


async def _measure(place: Place, url: str, *, quick: bool) -> list[Figure]:
    name, times = place.name, 100 if quick else 3_000
    counts = (1, 1_000, place.many(quick=quick))
    async with await store.open(url) as s:
        took: dict[str, list[tuple[float, float]]] = {}
        known = 0
        for count in counts:
            await samples.chats(s, known + 1, count)
            known = count
            for what, find in _ways(s).items():
                with bare.querying(url) as fetch:
                    timed = await _timed(find, _bare(fetch), known, times)
                took.setdefault(what, []).append(timed)
    return [
        figure
        for what, medians in took.items()
        for figure in (
            *(
                milliseconds(
                    f"{name} {what}, {count:,} chats known",
                    ours,
                    Base(name=bare.driver(url), value=theirs),
                    LOOKUP,
                )
                for count, (ours, theirs) in zip(counts, medians, strict=True)
            ),
            growth(f"{name} {what}, growth", medians[0][0], medians[-1][0]),
        )
    ]


def _ways(s: Store) -> dict[str, Callable[[Address], Awaitable[object]]]:
    return {
        "find a chat's session": lambda address: bindings.resolve(
            s, address, samples.OWNER, policy=_POLICY, zone=UTC
        ),
        "find a chat's binding": partial(bindings.get, s),
    }


def _bare(fetch: bare.Fetch) -> Callable[[Address], Awaitable[object]]:
    """How a bare asyncio program finds the session of a chat."""
    return lambda address: asyncio.to_thread(fetch, _QUERY, address=address.key)


async def _timed(
    find: Callable[[Address], Awaitable[object]],
    other: Callable[[Address], Awaitable[object]],
    known: int,
    times: int,
) -> tuple[float, float]:
    """The median seconds of both, by turns."""
    took: list[float] = []
    others: list[float] = []
    for _ in range(times):
        address = samples.chat(random.randint(1, known))
        began = time.perf_counter()
        await find(address)
        between = time.perf_counter()
        await other(address)
        others.append(time.perf_counter() - between)
        took.append(between - began)
    return median(took), median(others)
