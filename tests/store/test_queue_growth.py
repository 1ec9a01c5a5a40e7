"""What a gateway asks again and again costs the same in a store that holds much more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path

import pytest

import segue.store
from segue.approvals import queries as approvals
from segue.core.address import Platform
from segue.core.reset import ResetMode, ResetPolicies, ResetPolicy
from segue.core.session import Session
from segue.handoffs import queries as handoffs
from segue.jobs.queries import reports, runs
from segue.store import Store, bindings, deliveries, inbox, leases, outbox, sessions
from segue.store.base import Tx
from segue.store.sqlite import SqliteTx
from segue.store.values import moment
from segue.testing.clock import FakeClock
from tests.harness import stores
from tests.store import filling
from tests.store.job_samples import DAILY, claimed, make
from tests.store.samples import DM, TOPIC, draft

CHATS = frozenset(Platform)
RESETS = ResetPolicies(default=ResetPolicy(mode=ResetMode.IDLE, idle=timedelta(days=400)))
WEEK = timedelta(days=7)

WORK: dict[str, Callable[[Tx], object]] = {
    "newest": lambda tx: inbox.newest(tx, Platform.TELEGRAM, "bot"),
    "record": lambda tx: inbox.record(tx, "bot", "new", DM, "hello"),
    "brought": lambda tx: inbox.moved_turn(tx, DM),
    "is_answering": lambda tx: inbox.is_answering(tx, "none"),
    "stale": lambda tx: bindings.stale(tx, RESETS, UTC, CHATS),
    "list_bindings": lambda tx: bindings.list_bindings(tx, "me"),
    "prune inbox": lambda tx: inbox._prune(tx, moment(tx.now) - WEEK),
    "prune outbox": lambda tx: outbox._prune(tx, moment(tx.now) - WEEK),
    "prune runs": lambda tx: runs._prune(tx, moment(tx.now) - WEEK),
    "run_out": lambda tx: leases.run_out(tx, "desk-1-gone"),
    "sent_as": lambda tx: outbox.sent_as(tx, DM, "none"),
    "undelivered": lambda tx: deliveries.undelivered(tx, DM, "none", "gone"),
    "troubled": lambda tx: outbox.troubled(tx, reported=False),
    "asking": lambda tx: outbox.asking(tx, "approval:5"),
    "approvals": lambda tx: approvals.waiting_at(tx, DM),
    "in_flight": handoffs.in_flight,
    "failed": reports.failed,
    "stranded": lambda tx: reports.stranded(tx, moment(tx.now)),
    "claim run": runs.claim,
}


def _steps(tx: Tx, work: Callable[[Tx], object]) -> int:
    """The work in steps of SQLite's virtual machine."""
    assert isinstance(tx, SqliteTx)
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    tx._connection.set_progress_handler(step, 1)
    try:
        work(tx)
    finally:
        tx._connection.set_progress_handler(None)
    return count


def _fill(tx: Tx, sessions: int) -> None:
    filling.fill(tx.change, sessions=sessions, messages=1, now=tx.now)


async def _costs(path: Path, sessions: int) -> dict[str, int]:
    async with await segue.store.open(stores.create(path), clock=FakeClock()) as store:
        await store.write(_fill, sessions)
        for prune in (inbox.prune, runs.prune):
            await prune(store, FakeClock().now() - WEEK)  # what it keeps is not looked at again
        return {name: await store.write(_steps, work) for name, work in WORK.items()}


async def test_the_work_of_a_gateway_does_not_grow_with_the_store(tmp_path: Path):
    few = await _costs(tmp_path / "small.db", 1_000)
    many = await _costs(tmp_path / "large.db", 10_000)
    assert {name: (few[name], many[name]) for name in WORK if many[name] > 1.5 * few[name]} == {}


async def test_only_the_places_of_the_last_updates_are_returned(
    store: Store, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
):
    monkeypatch.setattr(inbox, "PLACES", 2)
    for number, address in enumerate((DM, TOPIC, DM)):
        clock.advance(1)
        await inbox.record(store, "bot", str(number), address, "hello")
    assert await inbox.newest(store, DM.platform, "bot") == {DM: "2", TOPIC: "1"}
    monkeypatch.setattr(inbox, "PLACES", 1)
    assert await inbox.newest(store, DM.platform, "bot") == {DM: "2"}


async def test_an_entry_that_was_kept_is_pruned_once_its_chat_goes_on(
    store: Store, clock: FakeClock
):
    no = await inbox.record(store, "bot", "1", DM, "hello")
    assert no is not None
    await inbox.finish(store, [no])
    clock.advance(8 * 24 * 3600)
    assert await inbox.prune(store, clock.now() - WEEK) == 0
    assert await inbox.prune(store, clock.now() - WEEK) == 0
    await inbox.record(store, "bot", "2", DM, "again")
    assert await inbox.prune(store, clock.now() - WEEK) == 1


async def test_more_entries_than_one_transaction_looks_at_are_pruned(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inbox, "_PRUNED", 2)
    monkeypatch.setattr(outbox, "_PRUNED", 2)
    for number in range(5):
        no = await inbox.record(store, "bot", str(number), DM, "hello")
        assert no is not None
        await inbox.finish(store, [no])
        await outbox.enqueue(store, draft(str(number)))
        for claim in await deliveries.claim(store, [DM.platform]):
            await deliveries.sent(store, claim)
    clock.advance(8 * 24 * 3600)
    await inbox.record(store, "bot", "last", DM, "hello")
    assert await inbox.prune(store, clock.now() - WEEK) == 5
    assert await outbox.prune(store, clock.now() - WEEK) == 5


async def test_runs_that_were_kept_are_pruned_once_their_job_goes_on(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs, "KEPT", 1)
    await make(store, DAILY)
    clock.advance(3600)
    await runs.finish(store, await claimed(store), None)
    assert await runs.prune(store, clock.now() + WEEK) == 0
    assert await runs.prune(store, clock.now() + WEEK) == 0
    clock.advance(24 * 3600)
    await runs.finish(store, await claimed(store), None)
    assert await runs.prune(store, clock.now() + WEEK) == 1


async def test_a_session_that_was_displaced_is_not_stale(
    store: Store, session: Session, clock: FakeClock
):
    resets = ResetPolicies(default=ResetPolicy(mode=ResetMode.IDLE, idle=timedelta(hours=1)))
    other = await sessions.create(store, "me", Platform.LOCAL)
    for one in (session, other):
        await bindings.rebind(store, one.id, DM, bindings.Origin.RESUME)
    clock.advance(7200)
    found = await bindings.stale(store, resets, UTC, CHATS, 20)
    assert [it.id for it in found] == [other.id]
