"""Reading a conversation: all of it, its end, and the window that the model sees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from benchmarks import bare
from benchmarks.figures import Base, Figure, growth, median, milliseconds
from benchmarks.store import samples
from benchmarks.store.places import Place
from segue import store
from segue.store import Store, transcripts
from segue.store.values import MESSAGE_COLUMNS

SHORT, MIDDLE = 1_000, 10_000
TARGET = 4.0
"""The most that loading may cost, as a multiple of fetching the same rows with a bare driver."""
TAIL = 200
WINDOW = 128_000
FEWEST, ENOUGH = 3, 15
_ROWS = (
    f"SELECT {MESSAGE_COLUMNS} FROM messages"
    " WHERE id > CAST(:no AS BIGINT) * 4294967296"
    " AND id < CAST(:no AS BIGINT) * 4294967296 + 4294967296 ORDER BY id"
)
ROUNDS = 200
"""How often an end is read. A transcript of n messages is read ROUNDS × 1,000 / n times."""


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from asyncio.run(_measure(place, url, quick=quick))


async def _measure(place: Place, url: str, *, quick: bool) -> list[Figure]:
    name = place.name
    rounds = ROUNDS // 5 if quick else ROUNDS
    enough = 5 if quick else ENOUGH
    long = place.many(quick=quick)
    found: list[Figure] = []
    async with await store.open(url) as s:
        sessions = {
            length: await samples.conversation(s, length) for length in (SHORT, MIDDLE, long)
        }
        with bare.querying(url) as fetch:
            for length, session in sessions.items():
                times = FEWEST if length > MIDDLE else max(rounds * SHORT // length, enough)
                ((no,),) = fetch("SELECT no FROM sessions WHERE id = :id", id=session)
                ways: dict[str, Callable[[], Awaitable[object]]] = {
                    "ours": lambda n=session: transcripts.load(s, n),
                    "bare": lambda n=no: asyncio.to_thread(fetch, _ROWS, no=n),
                }
                took = await _by_turns(ways, times)
                base = Base(name=bare.driver(url), value=median(took["bare"]))
                title = f"{name} load {length:,} messages"
                found.append(milliseconds(title, median(took["ours"]), base, TARGET))
        for end, read in _ends(s).items():
            few = median(await _timed(lambda r=read: r(sessions[SHORT]), rounds))
            many = median(await _timed(lambda r=read: r(sessions[long]), rounds))
            found.append(milliseconds(f"{name} {end} of {SHORT:,}", few))
            found.append(milliseconds(f"{name} {end} of {long:,}", many))
            found.append(growth(f"{name} {end}, growth", few, many))
    return found


def _ends(s: Store) -> dict[str, Callable[[str], Awaitable[object]]]:
    return {
        f"last {TAIL} messages": lambda session: transcripts.last(s, session, TAIL),
        f"window of {WINDOW:,} tokens": lambda session: transcripts.window(s, session, WINDOW),
    }


async def _by_turns(
    ways: dict[str, Callable[[], Awaitable[object]]], times: int
) -> dict[str, list[float]]:
    """The seconds of each of the ways, each time one after another."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(times):
        for name, way in ways.items():
            took[name] += await _timed(way, 1)
    return took


async def _timed(read: Callable[[], Awaitable[object]], times: int) -> list[float]:
    """The seconds of each read, after one that fills the caches."""
    await read()
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await read()
        took.append(time.perf_counter() - began)
    return took
