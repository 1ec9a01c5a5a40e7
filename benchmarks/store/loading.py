"""Reading a conversation: whole, its end, and what the model is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.figures import Figure, growth, median, milliseconds
from benchmarks.store import samples
from benchmarks.store.places import Place
from segue import store
from segue.store import Store

SHORT, MIDDLE, LONG = 1_000, 10_000, 100_000
LOAD = {SHORT: 3.05, MIDDLE: 45.0, LONG: None}
TAIL = 200
WINDOW = 128_000
ROUNDS = 200
"""How often an end is read, and, in messages × rounds / 1,000, a whole."""


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place, url, quick=quick))


async def _measure(place: Place, url: str, *, quick: bool) -> list[Figure]:
    name = place.name
    rounds = ROUNDS // 5 if quick else ROUNDS
    found: list[Figure] = []
    async with await store.open(url) as s:
        sessions = {length: await samples.conversation(s, length) for length in LOAD}
        for length, target in LOAD.items():
            times = max(1, rounds * SHORT // length)
            took = await _timed(lambda n=length: s.transcripts.load(sessions[n]), times)
            aim = target if place.anchored else None
            found.append(milliseconds(f"{name} load {length:,} messages", took, aim))
        for end, read in _ends(s).items():
            short = await _timed(lambda r=read: r(sessions[SHORT]), rounds)
            long = await _timed(lambda r=read: r(sessions[LONG]), rounds)
            found.append(milliseconds(f"{name} {end} of {SHORT:,}", short))
            found.append(milliseconds(f"{name} {end} of {LONG:,}", long))
            found.append(growth(f"{name} {end}, growth", short, long))
    return found


def _ends(s: Store) -> dict[str, Callable[[str], Awaitable[object]]]:
    return {
        f"last {TAIL} messages": lambda session: s.transcripts.last(session, TAIL),
        f"window of {WINDOW:,} tokens": lambda session: s.transcripts.window(session, WINDOW),
    }


async def _timed(read: Callable[[], Awaitable[object]], times: int) -> float:
    """The median of several, after one that fills the caches."""
    await read()
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await read()
        took.append(time.perf_counter() - began)
    return median(took)
