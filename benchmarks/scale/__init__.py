"""What every operation costs in a large store, against a small one, in processor time.

    make bench scale                            # 1,000 to 1,000,000 sessions on SQLite
    make bench scale ARGS=--small               # 200 and 2,000, in seconds
    make bench scale ARGS=--postgres            # PostgreSQL, up to 100,000 sessions

The stores are built in a temporary folder, or in the one that `--stores` names, which is kept and
used again.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import alternation
from benchmarks.figures import Base, Figure, columns, milliseconds, number, progress
from benchmarks.scale import operations, starts, stores
from benchmarks.scale.operations import Scene
from benchmarks.scale.stores import Size
from tests.fakes import postgres

TARGET = 1.5
"""How much more an operation may cost in the largest store than in the one of FULL sessions."""
FULL = 10_000
"""The smallest store with as much of everything as one search or one list reads at most: 1,000
sessions with titles, 2,000 messages with a common word. A smaller one has less to read."""
FIRST_SEARCH = "first full-text search, per message"
WAITING = "send while messages wait for one chat"
START = "start of a gateway"

MOST = 1_000_000
_WHOLE = (1_000, 10_000, 100_000, 1_000_000)
_ON_POSTGRES = (1_000, 10_000, 100_000)
_SMALL = (200, 2_000)
_ROUNDS = 6
_STARTS = 2
_INDEXING = 4.0
"""Seconds of the first full-text search that are measured."""


class Shelf(ABC):
    """The stores to measure, smallest first. The last one is that of many owners."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.plain = [Size(sessions=count) for count in counts]
        self.shared = Size(sessions=counts[-1], has_many_owners=True)

    @abstractmethod
    def url(self, size: Size) -> str:
        """Where the store is. It is built if it is not there."""

    @abstractmethod
    def is_indexed(self, size: Size) -> bool:
        """Whether all of its messages are indexed, and not only those of its first half."""

    @abstractmethod
    def keep_indexed(self, size: Size) -> None:
        """Remember that all are indexed now."""

    def used(self) -> float:
        """The processor seconds that were used so far, here and by the database."""
        return time.process_time()


class FileShelf(Shelf):
    """SQLite stores in a folder, which may be there from an earlier run."""

    def __init__(self, counts: Sequence[int], folder: Path) -> None:
        super().__init__(counts)
        self._folder = folder

    def url(self, size: Size) -> str:
        path = self._folder / size.file
        built = path.with_suffix(".built")
        if not built.exists():
            if size.has_many_owners:
                source = self._folder / Size(sessions=size.sessions).file
                stores.share_out(size, source, path)
                self.keep_indexed(size)
            else:
                stores.build(f"sqlite://{path}", size)
            built.touch()
        return f"sqlite://{path}"

    def is_indexed(self, size: Size) -> bool:
        return self._mark(size).exists()

    def keep_indexed(self, size: Size) -> None:
        self._mark(size).touch()

    def _mark(self, size: Size) -> Path:
        return (self._folder / size.file).with_suffix(".indexed")


class ServerShelf(Shelf):
    """Databases of a PostgreSQL server, which end with it."""

    def __init__(self, counts: Sequence[int], server: postgres.Server, stack: ExitStack) -> None:
        super().__init__(counts)
        self._server = server
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._indexed: set[str] = set()

    def url(self, size: Size) -> str:
        if size.name not in self._urls:
            url = self._stack.enter_context(self._server.database())
            stores.build(url, size)
            self._urls[size.name] = url
        return self._urls[size.name]

    def is_indexed(self, size: Size) -> bool:
        return size.name in self._indexed

    def keep_indexed(self, size: Size) -> None:
        self._indexed.add(size.name)

    def used(self) -> float:
        return super().used() + sum(map(alternation.of_process, self._server.backends()))


def measure(
    *,
    quick: bool,
    on_postgres: bool = False,
    folder: Path | None = None,
    most: int = MOST,
) -> Iterator[Figure]:
    """The figures of all stores with up to `most` sessions."""
    counts = _SMALL if quick else _ON_POSTGRES if on_postgres else _WHOLE
    counts = [count for count in counts if count <= most]
    with ExitStack() as stack:
        if on_postgres:
            server = stack.enter_context(postgres.running())
            shelf = ServerShelf(counts, server, stack)
        else:
            if folder is None:
                temporary = TemporaryDirectory(prefix="segue-scale-")
                folder = Path(stack.enter_context(temporary))
            folder.mkdir(parents=True, exist_ok=True)
            shelf = FileShelf(counts, folder.resolve())
        yield from _first_searches(shelf)
        for operation, costs in _in_all(shelf).items():
            yield from _figures(operation, costs)
        if not quick:
            yield from _figures(START, asyncio.run(_starts(shelf)))


def _figures(operation: str, costs: Mapping[Size, float]) -> Iterator[Figure]:
    """A figure for each store. The largest ones have a target."""
    small = _small(list(costs))
    largest = max(size.sessions for size in costs)
    base = Base(name=f"{small.sessions:,} sessions", value=costs[small])
    for size, cost in costs.items():
        name = f"{operation}: {size.name}"
        if size.sessions > small.sessions:
            target = TARGET if size.sessions == largest else None
            yield milliseconds(name, cost, base, target)
        else:
            yield milliseconds(name, cost)


def _small(sizes: Sequence[Size]) -> Size:
    """The store that larger ones are compared with: that of FULL sessions, if there is a larger
    one."""
    full = [size for size in sizes if size.sessions >= FULL]
    largest = max(size.sessions for size in sizes)
    return full[0] if full and full[0].sessions < largest else sizes[0]


# The first search


def _first_searches(shelf: Shelf) -> Iterator[Figure]:
    """The cost of a message, in the middle of indexing all of them."""
    costs: dict[Size, float] = {}
    for size in shelf.plain:
        shelf.url(size)  # builds it
        if not shelf.is_indexed(size):
            progress(f"scale: {size.name}: first search")
            costs[size] = asyncio.run(_index(shelf, size))
            shelf.keep_indexed(size)
    if len(costs) == len(shelf.plain):
        yield from _figures(FIRST_SEARCH, costs)


async def _index(shelf: Shelf, size: Size) -> float:
    """Index the rest of the store: for some time by a search, then in bulk. Return the processor
    seconds that the search took for each message."""
    async with operations.opened(shelf.url(size), size) as scene:
        before = await scene.store.read(stores.indexed)
        used = shelf.used()
        await operations.index_for(scene, _INDEXING)
        used = shelf.used() - used
        after = await scene.store.read(stores.indexed)
        await stores.index(scene.store, size, size.sessions // 2, size.sessions)
    return used / max(after - before, 1)


# Everything else


def _in_all(shelf: Shelf) -> dict[str, dict[Size, float]]:
    urls = {size: shelf.url(size) for size in shelf.plain}
    urls[shelf.shared] = shelf.url(shelf.shared)
    if not shelf.is_indexed(shelf.shared):
        asyncio.run(_index(shelf, shelf.shared))
        shelf.keep_indexed(shelf.shared)
    return asyncio.run(_by_operation(urls, shelf.used))


async def _by_operation(
    urls: Mapping[Size, str], used: Callable[[], float]
) -> dict[str, dict[Size, float]]:
    """The costs of each operation, in all stores by turns."""
    costs: dict[str, dict[Size, float]] = {}
    async with AsyncExitStack() as stack:
        scenes: list[Scene] = []
        for size, url in urls.items():
            scenes.append(await stack.enter_async_context(operations.opened(url, size)))
        ways = {scene.size: operations.reading_and_writing(scene) for scene in scenes}
        for operation in ways[scenes[0].size]:
            progress(f"scale: {operation}")
            each = {size: by_name[operation] for size, by_name in ways.items()}
            costs[operation] = await alternation.costs_by_turns(each, _ROUNDS, used)
        progress(f"scale: {WAITING}")
        sending = {
            scene.size: await stack.enter_async_context(operations.waiting(scene))
            for scene in scenes
        }
        costs[WAITING] = await alternation.costs_by_turns(sending, _ROUNDS, used)
    return costs


async def _starts(shelf: Shelf) -> dict[Size, float]:
    sizes = [_small(shelf.plain), shelf.plain[-1], shelf.shared]
    costs: dict[Size, list[float]] = {size: [] for size in sizes}
    async with AsyncExitStack() as stack:
        ways = {
            size: await stack.enter_async_context(starts.starting(shelf.url(size)))
            for size in sizes
        }
        for round_ in range(_STARTS + 1):
            progress(f"scale: {START}")
            for size, start in ways.items():
                cost = await start()
                if round_:  # the first one only fills caches
                    costs[size].append(cost)
    return {size: min(found) for size, found in costs.items()}


# The table


def table(figures: Sequence[Figure]) -> str:
    """One line for each operation: its cost in a small store and in the largest ones."""
    rows = [("processor time, ms", "small", "large", "ratio", "many owners", "ratio", "")]
    rows += cells(figures)
    return "\n".join(columns(rows))


def cells(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """For each operation: its cost in a small store, and in the largest ones, with ratios."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        operation, _, _ = figure.name.rpartition(": ")
        found.setdefault(operation, []).append(figure)
    rows: list[tuple[str, ...]] = []
    for operation, each in found.items():
        judged = [figure for figure in each if figure.target is not None]
        bases = [figure.base.value for figure in judged if figure.base is not None]
        row = [operation, number(bases[0] if bases else each[0].value)]
        for figure in judged:
            row += [number(figure.value), f"{number(figure.ratio or 0)} ×"]
        row += ["", ""] * (2 - len(judged))
        is_flat = all(figure.meets for figure in judged)
        rows.append((*row, "ok" if is_flat else "MISSED"))
    return rows
