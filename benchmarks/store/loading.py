"""Reading a conversation: all of it, its end, and the window that the model sees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.figures import Figure, growth, median, milliseconds
from benchmarks.store import samples
from benchmarks.store.places import Place
from segue import store
from segue.store import Store

SHORT, MIDDLE = 1_000, 10_000
TARGETS = {SHORT: 3.05, MIDDLE: 45.0}
TAIL = 200
WINDOW = 128_000
FEWEST, ENOUGH = 3, 15
ROUNDS = 200
"""How often an end is read. A transcript of n messages is read ROUNDS × 1,000 / n times."""


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place, url, quick=quick))


async def _measure(place: Place, url: str, *, quick: bool) -> list[Figure]:
    name = place.name
    rounds = ROUNDS // 5 if quick else ROUNDS
    long = place.many(quick=quick)
    found: list[Figure] = []
    async with await store.open(url) as s:
        sessions = {
            length: await samples.conversation(s, length) for length in (SHORT, MIDDLE, long)
        }
        for length, session in sessions.items():
            times = FEWEST if length > MIDDLE else max(rounds * SHORT // length, ENOUGH)
            took = median(await _timed(lambda n=session: s.transcripts.load(n), times))
            target = TARGETS.get(length)
            found.append(milliseconds(f"{name} load {length:,} messages", took, target))
        for end, read in _ends(s).items():
            few = median(await _timed(lambda r=read: r(sessions[SHORT]), rounds))
            many = median(await _timed(lambda r=read: r(sessions[long]), rounds))
            found.append(milliseconds(f"{name} {end} of {SHORT:,}", few))
            found.append(milliseconds(f"{name} {end} of {long:,}", many))
            found.append(growth(f"{name} {end}, growth", few, many))
    return found


def _ends(s: Store) -> dict[str, Callable[[str], Awaitable[object]]]:
    return {
        f"last {TAIL} messages": lambda session: s.transcripts.last(session, TAIL),
        f"window of {WINDOW:,} tokens": lambda session: s.transcripts.window(session, WINDOW),
    }


async def _timed(read: Callable[[], Awaitable[object]], times: int) -> list[float]:
    """The seconds of each read, after one that fills the caches."""
    await read()
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await read()
        took.append(time.perf_counter() - began)
    return took
