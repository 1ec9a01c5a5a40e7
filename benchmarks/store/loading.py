"""Reading a conversation: whole, its end, and what the model is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.figures import Figure, growth, median, milliseconds
from benchmarks.store import samples
from benchmarks.store.places import Place
from segue import store

SHORT, MIDDLE, LONG = 1_000, 10_000, 100_000
LOAD = {SHORT: 3.05, MIDDLE: 45.0, LONG: None}
TAIL = 200
WINDOW = 128_000
ROUNDS = 200
"""How often an end is read, and, in messages × rounds / 1,000, a whole."""


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place.name, url, quick=quick))


async def _measure(name: str, url: str, *, quick: bool) -> list[Figure]:
    rounds = ROUNDS // 4 if quick else ROUNDS
    found: list[Figure] = []
    async with await store.open(url) as s:
        sessions = {length: await samples.conversation(s, length) for length in LOAD}
        for length, target in LOAD.items():
            times = max(3, rounds * SHORT // length)
            took = await _timed(lambda n=length: s.transcripts.load(sessions[n]), times)
            found.append(milliseconds(f"{name} load {length:,} messages", took, target))
        for end, read in {
            f"last {TAIL} messages": lambda n: s.transcripts.last(sessions[n], TAIL),
            f"window of {WINDOW:,} tokens": lambda n: s.transcripts.window(sessions[n], WINDOW),
        }.items():
            took = {n: await _timed(lambda n=n, r=read: r(n), rounds) for n in (SHORT, LONG)}
            found += [milliseconds(f"{name} {end} of {n:,}", took[n]) for n in took]
            found.append(growth(f"{name} {end}, growth", took[SHORT], took[LONG]))
    return found


async def _timed(read: Callable[[], Awaitable[object]], times: int) -> float:
    """The median of several, after one that fills the caches."""
    await read()
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await read()
        took.append(time.perf_counter() - began)
    return median(took)
