"""The delay from a request in one process to its claim in another, and concurrent claims."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator

from benchmarks import bare, workers
from benchmarks.alternation import of_process
from benchmarks.figures import Base, Figure, milliseconds, percentile, rate
from benchmarks.store import samples
from benchmarks.store.places import Place
from benchmarks.workers import GO, Line
from segue import store
from segue.core.address import Platform
from segue.handoffs import queries as handoffs
from segue.store import Topic, bindings

P50 = 8.0
P99 = 8.0
"""The most that a claim may take, as a multiple of the least that two processes can do."""
IDLE_CPU = 6.0
"""The most that a process which waits may use, as a multiple of a bare asyncio program."""
CLAIMED = 0.3
"""The part of the bare commits' rate to reach, by as many processes."""
CLAIMANTS = 8
CLAIMS = 1_000
CLAIMS_QUICKLY = 200

_PLATFORMS = (Platform.TELEGRAM,)
_SETTLE = 0.5
_LEASE = 3_600.0


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    with place.empty() as url:
        yield from _wake_up(place.name, url, quick=quick)
    with place.empty() as url:
        yield from _race(place.name, url, CLAIMS_QUICKLY if quick else CLAIMS)


def _now() -> int:
    """Nanoseconds on a monotonic clock that all processes of the machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


# One requester, one gateway


def _wake_up(name: str, url: str, *, quick: bool) -> Iterator[Figure]:
    count, idle_seconds = (40, 1.0) if quick else (600, 10.0)
    asyncio.run(_create(url, count))
    bare.prepare(bare.beside(url))
    least: list[float] = []
    with (
        bare.relay(url) as once,
        workers.started(1, _gateway, url, count, idle_seconds) as [gateway],
    ):
        once()
        idle, bare_idle = gateway.hear()
        requested = asyncio.run(_request(url, count, lambda: least.append(once())))
        claimed: dict[str, int] = gateway.hear()
    took = [(claimed[key] - moment) / 1e9 for key, moment in requested.items()]
    for percent, target in ((50, P50), (99, P99)):
        base = Base(name=bare.RELAY, value=percentile(least, percent))
        what = f"{name} request → claimed: p{percent}"
        yield milliseconds(what, percentile(took, percent), base, target)
    yield milliseconds(f"{name} request → claimed: worst", max(took))
    yield Figure(
        name=f"{name} idle CPU of who waits",
        value=idle,
        unit="%",
        base=Base(name="bare asyncio program", value=bare_idle),
        target=IDLE_CPU,
    )


async def _create(url: str, sessions: int) -> None:
    async with await store.open(url) as s:
        await samples.chats(s, 1, sessions)


async def _request(url: str, count: int, other: Callable[[], None]) -> dict[str, int]:
    """Request the handoffs and return the time of each request, by session. Do something else
    after each."""
    requested: dict[str, int] = {}
    async with await store.open(url) as s:
        for number in range(1, count + 1):
            binding = await bindings.get(s, samples.chat(number))
            assert binding is not None
            await asyncio.sleep(random.uniform(0.002, 0.02))
            requested[binding.session_id] = _now()
            await handoffs.request(s, binding.session_id, Platform.TELEGRAM)
            await asyncio.sleep(random.uniform(0.002, 0.02))
            other()
    return requested


def _gateway(line: Line, url: str, count: int, idle_seconds: float) -> None:
    asyncio.run(_serve(line, url, count, idle_seconds))


async def _serve(line: Line, url: str, count: int, idle_seconds: float) -> None:
    claimed: dict[str, int] = {}
    async with await store.open(url) as s, s.listen(Topic.HANDOFFS) as wake:
        line.tell(await _idle(idle_seconds))
        while len(claimed) < count:
            while claim := await handoffs.claim_next(s, _PLATFORMS):
                claimed[claim.session_id] = _now()
                await handoffs.fail(s, claim, "only measured")
            if len(claimed) < count:
                await wake.wait()
    line.tell(claimed)


async def _idle(seconds: float) -> tuple[float, float]:
    """The percentage of one core that a listening process uses, and a bare one meanwhile."""
    async with bare.waiting() as pid:
        await asyncio.sleep(_SETTLE)
        began = time.perf_counter()
        used = time.process_time()
        bare_used = of_process(pid)
        await asyncio.sleep(seconds)
        lasted = time.perf_counter() - began
        return (
            100 * (time.process_time() - used) / lasted,
            100 * (of_process(pid) - bare_used) / lasted,
        )


# Many claimants


def _race(name: str, url: str, claims: int) -> Iterator[Figure]:
    asyncio.run(_queue(url, claims))
    bare.prepare(bare.beside(url))
    each = claims // CLAIMANTS
    least = max(workers.together(CLAIMANTS, _commit, bare.beside(url), each))
    told: list[dict[int, int]] = []
    with workers.started(CLAIMANTS, _claimant, url, each) as lines:
        for line in lines:
            line.hear()
        began = _now()
        for line in lines:
            line.tell(GO)
        told = [line.hear() for line in lines]
        for line in lines:
            line.tell(GO)
    won = [handoff for claimed in told for handoff in claimed]
    assert len(won) == len(set(won)) == claims, "a handoff was claimed twice, or by nobody"
    took = (max(moment for claimed in told for moment in claimed.values()) - began) / 1e9
    what = f"{name} {claims:,} claims by {CLAIMANTS} processes"
    base = Base(name=f"{bare.driver(url)}, commits", value=claims / least)
    yield rate(what, "claims", claims / took, base, CLAIMED)


async def _queue(url: str, claims: int) -> None:
    async with await store.open(url) as s:
        await samples.sessions(s, 1, claims)
        await samples.handoffs(s, "pending", 1, claims)


def _claimant(line: Line, url: str, claims: int) -> None:
    asyncio.run(_claim(line, url, claims))


async def _claim(line: Line, url: str, claims: int) -> None:
    claimed: dict[int, int] = {}
    async with await store.open(url) as s:
        await handoffs.pending(s)
        line.wait_for_go()
        while len(claimed) < claims:
            if claim := await handoffs.claim_next(s, _PLATFORMS, seconds=_LEASE):
                claimed[claim.id] = _now()
        line.tell(claimed)
        line.hear()  # until all are done: the handoffs of an ended process would be claimed again


def _commit(line: Line, url: str, times: int) -> None:
    """Commit so often with the bare driver, and say how many seconds it took."""
    with bare.committing(url) as commit:
        commit(1)
        line.wait_for_go()
        began = time.perf_counter()
        for _ in range(times):
            commit(1)
        line.tell(time.perf_counter() - began)
