"""Many callers, few threads, and an event loop that never waits for a disk."""

from __future__ import annotations

import asyncio
import fcntl
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from segue.core.address import Platform
from segue.core.errors import OwnerNotFound, StoreClosed, StoreError
from segue.core.session import Session
from segue.store import Store, Topic, Tx, errors, owners, sessions, threads, transcripts
from segue.store.threads import CallResult, StoreCall
from tests.store.conftest import OpenStore
from tests.store.samples import hold, on_sqlite, said, texts

HANDFUL = 5
LONG = 30.0
"""Seconds after which a failed test is released."""


def open_threads() -> int:
    return sum(thread.name.startswith("segue-store") for thread in threading.enumerate())


class Stuck:
    """Work that says when it has begun, and ends when it is told to."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self._end = threading.Event()

    def __call__(self, tx: Tx) -> str:
        self._begun.set()
        assert self._end.wait(LONG)
        return "done"

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, LONG)

    def end(self) -> None:
        self._end.set()


@asynccontextmanager
async def all_writers_stuck(store: Store) -> AsyncGenerator[None]:
    """Every thread that could write is busy inside."""
    stuck = [Stuck() for _ in range(HANDFUL)]
    tasks = [asyncio.ensure_future(store.write(work)) for work in stuck]
    await stuck[0].begun()
    try:
        yield
    finally:
        for work in stuck:
            work.end()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_thousand_callers_use_a_handful_of_threads(store: Store, session: Session):
    lease = await hold(store, session.id)
    most = 0

    async def call(number: int) -> None:
        nonlocal most
        if number % 2:
            await transcripts.append(store, lease, [said(f"{number}")])
        else:
            await sessions.get(store, session.id)
        most = max(most, open_threads())

    await asyncio.gather(*(call(number) for number in range(1000)))
    assert 1 <= most <= HANDFUL
    assert len(await transcripts.load(store, session.id)) == 500


async def test_a_slow_write_does_not_block_the_event_loop(store: Store):
    stuck = Stuck()
    writing = asyncio.ensure_future(store.write(stuck))
    await stuck.begun()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not writing.done()
    stuck.end()
    assert await writing == "done"


async def test_a_slow_write_does_not_keep_others_from_reading(store: Store, session: Session):
    stuck = Stuck()
    writing = asyncio.ensure_future(store.write(stuck))
    await stuck.begun()
    assert await sessions.get(store, session.id) == session
    assert not writing.done()
    stuck.end()
    await writing


async def test_work_of_a_cancelled_caller_that_has_not_begun_is_not_done(store: Store):
    async with all_writers_stuck(store):
        waiting = asyncio.create_task(owners.ensure(store, "too late"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await owners.ensure(store, "after")
    assert await owners.get(store, "too late") is None


async def test_work_of_a_cancelled_caller_that_has_begun_is_finished(
    store: Store, open_store: OpenStore
):
    other = await open_store()
    stuck = Stuck()

    def work(tx: Tx) -> None:
        owners.ensure(tx, "begun", "")
        stuck(tx)

    writing = asyncio.ensure_future(store.write(work))
    await stuck.begun()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    stuck.end()
    await store.close()
    assert await owners.get(other, "begun")


async def test_one_failing_call_does_not_take_its_neighbours_with_it(store: Store):
    def half(tx: Tx, number: int) -> None:
        owners.ensure(tx, f"half {number}", "")
        raise ZeroDivisionError

    async with all_writers_stuck(store):
        waiting: list[asyncio.Future[Any]] = []
        for number in range(5):
            waiting.append(asyncio.ensure_future(owners.ensure(store, f"whole {number}")))
            waiting.append(asyncio.ensure_future(store.write(half, number)))
            create = sessions.create(store, "nobody", Platform.LOCAL)
            waiting.append(asyncio.ensure_future(create))
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(o) for o in outcomes[1::3]] == [ZeroDivisionError] * 5
    assert [type(o) for o in outcomes[2::3]] == [OwnerNotFound] * 5
    known = {owner.id for owner in await owners.all_owners(store)}
    assert known == {"me", *(f"whole {number}" for number in range(5))}


async def test_several_operations_in_one_write_are_kept_all_or_none(store: Store):
    def two(tx: Tx) -> None:
        owners.ensure(tx, "first", "")
        owners.found(tx, "nobody")

    with pytest.raises(OwnerNotFound):
        await store.write(two)
    assert await owners.get(store, "first") is None


async def listen(store: Store) -> None:
    async with asyncio.timeout(3), store.listen(Topic.HANDOFFS) as wake:
        while await wake.wait():
            pass


async def test_a_closed_store_refuses_everything(store: Store, session: Session):
    lease = await hold(store, session.id)
    await store.close()
    with pytest.raises(StoreClosed):
        await sessions.get(store, session.id)
    with pytest.raises(StoreClosed):
        await transcripts.append(store, lease, [said("too late")])
    with pytest.raises(StoreClosed):
        await listen(store)


async def test_closing_twice_is_harmless(store: Store, open_store: OpenStore):
    other = await open_store()
    await store.close()
    await store.close()
    async with other:
        assert await owners.get(other, "me")


async def test_closing_at_the_same_time_is_harmless(store: Store):
    await asyncio.gather(store.close(), store.close())


async def test_closing_finishes_what_was_submitted(
    store: Store, session: Session, open_store: OpenStore
):
    other = await open_store()
    lease = await hold(store, session.id)
    stuck = Stuck()
    blocking = asyncio.ensure_future(store.write(stuck))
    await stuck.begun()
    appends = [
        asyncio.create_task(transcripts.append(store, lease, [said(f"{i}")])) for i in range(100)
    ]
    reads = [asyncio.create_task(sessions.get(store, session.id)) for _ in range(10)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    stuck.end()
    await closing
    assert await blocking == "done"
    assert len(await asyncio.gather(*appends)) == 100
    assert len(await asyncio.gather(*reads)) == 10
    kept = texts(await transcripts.load(other, session.id))
    assert sorted(kept, key=int) == [f"{i}" for i in range(100)]


async def test_a_closed_store_leaves_no_thread_behind(store: Store, session: Session):
    await asyncio.gather(*(sessions.get(store, session.id) for _ in range(20)))
    assert open_threads() >= 1
    await store.close()
    assert open_threads() == 0


async def test_a_caller_whose_work_does_not_start_in_time_gets_store_busy(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    async with all_writers_stuck(store):
        monkeypatch.setattr(threads, "START_TIMEOUT", 0.05)
        with pytest.raises(StoreError, match="locked for too long"):
            await owners.ensure(store, "too late")
    monkeypatch.undo()
    await owners.ensure(store, "in time")
    assert await owners.get(store, "too late") is None


@on_sqlite
async def test_a_writer_behind_a_lock_of_another_process_fails_in_the_end(
    store: Store, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(threads, "START_TIMEOUT", 0.05)
    with (tmp_path / "segue.db-run" / "gate").open("rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=r"segue\.db locked for too long"):
            await owners.ensure(store, "too late")
        assert await sessions.get(store, session.id) == session
    monkeypatch.undo()
    await owners.ensure(store, "in time")
    assert await owners.get(store, "too late") is None


@on_sqlite
async def test_one_opening_that_writes_without_end_does_not_starve_another(
    store: Store, open_store: OpenStore
):
    other = await open_store()
    enough = False

    async def write_on() -> int:
        count = 0
        while not enough:
            await owners.ensure(other, "busy")
            count += 1
        return count

    busy = [asyncio.create_task(write_on()) for _ in range(20)]
    for number in range(20):
        await owners.ensure(store, f"patient {number}")
    enough = True
    assert sum(await asyncio.gather(*busy)) > 0
    assert len(await owners.all_owners(store)) == 22


UNUSUAL = (
    StopIteration,
    StopAsyncIteration,
    GeneratorExit,
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    MemoryError,
    RecursionError,
)


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("how", ["read", "write", "mark"])
async def test_a_caller_gets_any_error_of_its_work_and_the_store_goes_on(
    store: Store, kind: type[BaseException], how: str
):
    def fails(tx: Tx) -> None:
        raise kind

    async with asyncio.timeout(LONG):
        with pytest.raises((threads.WorkFailed, MemoryError, RecursionError)) as raised:
            await getattr(store, how)(fails)
    error = raised.value
    assert kind in (type(error), type(error.__cause__))
    await owners.ensure(store, "after")
    assert await owners.get(store, "after")


async def test_an_unusual_error_undoes_only_its_own_call(store: Store):
    def half(tx: Tx) -> None:
        owners.ensure(tx, "half", "")
        raise SystemExit

    async with all_writers_stuck(store):
        before = asyncio.ensure_future(owners.ensure(store, "before"))
        failing = asyncio.ensure_future(store.write(half))
        after = asyncio.ensure_future(owners.ensure(store, "after"))
        await asyncio.sleep(0)
    async with asyncio.timeout(LONG):
        with pytest.raises(threads.WorkFailed):
            await failing
        await asyncio.gather(before, after)
    assert {owner.id for owner in await owners.all_owners(store)} == {"me", "before", "after"}


class Worker:
    """Threads whose run raises at its own level, not in the work of a caller."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.threads = threads.Threads("segue-store-test", count=1, run=self.run, done=lambda: None)

    def run(self, calls: list[StoreCall]) -> list[CallResult]:
        if self.error is not None:
            raise self.error
        return [CallResult(call, "done") for call in calls if call.begin()]

    async def call(self) -> str:
        call = StoreCall(lambda _: None, lambda: errors.busy("it"))
        async with asyncio.timeout(LONG):
            return await self.threads.submit(call)


@pytest.mark.parametrize("kind", UNUSUAL)
async def test_a_thread_survives_any_error(kind: type[BaseException]):
    worker = Worker()
    worker.error = kind()
    with pytest.raises((threads.WorkFailed, MemoryError, RecursionError)) as raised:
        await worker.call()
    assert kind in (type(raised.value), type(raised.value.__cause__))
    worker.error = None
    assert await worker.call() == "done"
    assert await worker.threads.close()


async def test_a_thread_that_cannot_be_started_fails_its_call_and_not_the_next(
    monkeypatch: pytest.MonkeyPatch,
):
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker = Worker()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        with pytest.raises(RuntimeError, match="can't start"):
            await worker.call()
    assert await worker.call() == "done"
    assert await worker.threads.close()


async def test_a_thread_that_has_died_is_replaced(monkeypatch: pytest.MonkeyPatch):
    worker = Worker()
    with monkeypatch.context() as patched:
        patched.setattr(threads.Threads, "_main", lambda _: None)
        call = StoreCall(lambda _: None, lambda: errors.busy("it"))
        worker.threads.submit(call)
        for thread in worker.threads._threads:
            thread.join(LONG)
    assert await worker.call() == "done"
    assert await asyncio.wait_for(call.future, LONG) == "done"
    assert await worker.threads.close()


async def test_a_failing_follow_up_of_one_call_does_not_keep_others_waiting(store: Store):
    def fails() -> None:
        raise ZeroDivisionError

    failing = StoreCall(lambda _: None, lambda: errors.busy("it"))
    failing.then = fails
    next_one = StoreCall(lambda _: None, lambda: errors.busy("it"))
    with pytest.raises(ZeroDivisionError):
        threads.deliver([CallResult(failing, 1), CallResult(next_one, 2)])
    assert [await failing, await next_one] == [1, 2]
