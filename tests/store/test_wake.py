"""A waiter is woken as soon as its change is there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

import segue.store
from segue.approvals import queries as approvals
from segue.approvals.queries import Approval
from segue.core.address import Platform, Sender
from segue.core.approval import Answer
from segue.core.errors import SessionHeld, SessionMoved, SessionNotFound, StoreError
from segue.core.session import EndReason, Lease, Origin, Session, Usage
from segue.handoffs import queries as handoff_queries
from segue.handoffs.values import Step
from segue.jobs.queries import jobs
from segue.jobs.schedule import Once
from segue.jobs.values import LOCAL, NewJob
from segue.store import (
    Store,
    Topic,
    Tx,
    Waiter,
    bindings,
    connections,
    deliveries,
    gateways,
    inbox,
    leases,
    outbox,
    owners,
    pages,
    sessions,
    sqlite,
    threads,
    transcripts,
)
from segue.store import wake as wake_ups
from segue.store.leases import LEASE_SECONDS
from segue.testing.clock import FakeClock
from segue.turns import queries
from tests.harness import stores
from tests.store.conftest import OpenStore
from tests.store.samples import (
    CHANNEL,
    DM,
    TOPIC,
    answered,
    draft,
    hold,
    on_postgres,
    on_sqlite,
    said,
    settled,
)

T = TypeVar("T")

SOON = 20.0
"""Seconds within which a waiter is woken, on the slowest machine."""
TRIES = 20
"""How often to try: the engines also poll, so one wake-up may have another cause."""


async def take_over(store: Store, lease: Lease) -> None:
    await leases.acquire(store, lease.session_id, "another", take_over=True)


async def hand_off(store: Store, lease: Lease) -> None:
    await handoff_queries.request(store, lease.session_id, Platform.TELEGRAM, lease=lease)
    claim = await handoff_queries.claim_next(store, {Platform.TELEGRAM})
    assert claim
    assert await handoff_queries.complete(store, claim, address=DM)


async def end(store: Store, lease: Lease) -> None:
    await sessions.end(store, lease.session_id, EndReason.NEW, lease=lease)


async def delete(store: Store, lease: Lease) -> None:
    await sessions.delete(store, lease.session_id, lease=lease)


LOSSES = {work.__name__: work for work in (take_over, hand_off, end, delete)}


@dataclass(frozen=True)
class OtherProcess:
    """Another process, which finds a session in a chat that waits for an answer."""

    store: Store
    lease: Lease
    asked: Approval


async def answer(process: OtherProcess) -> None:
    await approvals.give(process.store, process.asked.id, "me", DM, Answer.NEVER)


async def void(process: OtherProcess) -> None:
    await sessions.void_approvals(process.store, process.lease.session_id)


async def move_away(process: OtherProcess) -> None:
    await bindings.rebind(process.store, process.lease.session_id, CHANNEL, Origin.RESUME)


async def speak(process: OtherProcess) -> None:
    await process.store.write(queries.add, process.lease, answered("hi"), Usage(), deliver_to=DM)


async def fail_to_hand_off(process: OtherProcess) -> None:
    asked = await handoff_queries.request(
        process.store, process.lease.session_id, Platform.TELEGRAM, lease=process.lease
    )
    claim = await handoff_queries.claim(process.store, asked.id)
    assert claim
    await handoff_queries.record_step(process.store, claim, Step.OPENING, thread=TOPIC)
    await handoff_queries.fail(process.store, claim, "no")


async def deliver(process: OtherProcess) -> None:
    await outbox.enqueue(process.store, draft("1"))
    (outgoing,) = await deliveries.claim(process.store, set(Platform))
    await deliveries.sent(process.store, outgoing)


async def announce(process: OtherProcess) -> None:
    await gateways.announce(process.store, "gateway", [Platform.TELEGRAM])


async def withdraw(process: OtherProcess) -> None:
    await gateways.withdraw(process.store)


NUDGES = [
    (answer, Topic.APPROVALS),
    (void, Topic.APPROVALS),
    (move_away, Topic.APPROVALS),
    (move_away, Topic.OUTBOX),
    (speak, Topic.OUTBOX),
    (fail_to_hand_off, Topic.OUTBOX),
    (deliver, Topic.SENT),
    (announce, Topic.HANDOFFS),
    (withdraw, Topic.HANDOFFS),
]


async def ask(store: Store) -> None:
    session = await sessions.create(store, "me", Platform.LOCAL)
    await handoff_queries.request(store, session.id, Platform.TELEGRAM)


async def drained(wake: Waiter) -> None:
    """Wait until no wake-up is pending."""
    while await wake.wait(SOON):
        pass


async def test_a_woken_listener_sees_the_change(store: Store, open_store: OpenStore):
    terminal = await open_store()
    async with store.listen(Topic.HANDOFFS) as wake:
        for count in range(1, 6):
            asking = asyncio.create_task(ask(terminal))
            while len(await handoff_queries.pending(store)) < count:
                assert await wake.wait(SOON)
            await asking


async def test_a_wake_up_that_arrives_while_busy_is_remembered(store: Store, open_store: OpenStore):
    terminal = await open_store()
    async with store.listen(Topic.HANDOFFS) as wake, store.listen(Topic.HANDOFFS) as other:
        await settled(other)
        await settled(wake)
        await ask(terminal)
        await ask(terminal)
        assert await other.wait(SOON)  # it has arrived by now
        assert await wake.wait(SOON)


async def test_several_wake_ups_that_arrive_while_busy_count_as_one(store: Store):
    async with store.listen(Topic.HANDOFFS) as wake:
        for _ in range(TRIES):
            await settled(wake)
            for _ in range(3):
                await ask(store)
            await wake.wait(SOON)
            if not await wake.wait(0):
                break
        else:
            pytest.fail("woken again and again for nothing")


async def test_every_topic_wakes_its_own_waiter(  # noqa: C901 - a case for each topic
    store: Store, open_store: OpenStore, session: Session
):
    other = await open_store()
    for topic in Topic:
        async with store.listen(topic) as wake:
            await settled(wake)
            match topic:
                case Topic.HANDOFFS:
                    await handoff_queries.request(other, session.id, Platform.TELEGRAM)
                case Topic.INBOX:
                    await inbox.record(other, "bot", "1", DM, "hello")
                case Topic.OUTBOX:
                    await outbox.enqueue(other, draft("1"))
                case Topic.SENT:
                    (outgoing,) = await deliveries.claim(other, set(Platform))
                    await deliveries.sent(other, outgoing)
                case Topic.LEASES | Topic.SESSIONS:
                    await leases.acquire(store, session.id, "me", take_over=True)
                    await leases.acquire(other, session.id, "another", take_over=True)
                case Topic.JOBS:
                    at = datetime.now(UTC) + timedelta(days=1)
                    await jobs.create(
                        other,
                        "me",
                        NewJob(prompt="look", schedule=Once(at), zone="UTC", deliver=(LOCAL,)),
                    )
                case Topic.APPROVALS:
                    lease = await leases.acquire(store, session.id, "me", take_over=True)
                    asked = await approvals.ask(store, lease, "1", "f", "rm", DM, seconds=9)
                    await approvals.give(other, asked.id, "me", DM, Answer.NEVER)
                case Topic.PAGES:
                    page = await pages.begin(other, "me", "Sums", key="1")
                    await pages.say(other, page.id, "1", "b1", "hello")
                case Topic.OWNERS:
                    sender = Sender(platform=Platform.TELEGRAM, user_id="1")
                    await owners.link(other, sender, "me")
                    await owners.unlink(other, Platform.TELEGRAM, "1")
            assert await wake.wait(SOON)


async def test_a_waiter_is_not_woken_by_other_topics(store: Store, open_store: OpenStore):
    terminal = await open_store()
    async with store.listen(Topic.HANDOFFS) as handoffs, store.listen(Topic.OUTBOX) as outbox:
        for _ in range(TRIES):
            await settled(handoffs)
            await settled(outbox)
            await ask(terminal)
            assert await handoffs.wait(SOON)
            if not await outbox.wait(0):
                break
        else:
            pytest.fail("every handoff woke the outbox")


async def test_a_waiter_is_not_woken_by_a_failed_write(store: Store, open_store: OpenStore):
    terminal = await open_store()

    def fail(tx: Tx) -> None:
        tx.nudge(Topic.INBOX)
        raise ZeroDivisionError

    async with store.listen(Topic.INBOX) as wake, store.listen(Topic.OUTBOX) as other_wake:
        for number in range(TRIES):
            await settled(wake)
            await settled(other_wake)
            with pytest.raises(ZeroDivisionError):
                await terminal.write(fail)
            await outbox.enqueue(terminal, draft(f"{number}"))
            assert await other_wake.wait(SOON)
            if not await wake.wait(0):
                break
        else:
            pytest.fail("what failed was heard of every time")


async def test_frequent_changes_wake_a_waiter_together(
    store: Store, open_store: OpenStore, session: Session, monkeypatch: pytest.MonkeyPatch
):
    for module, name in ((sqlite, "POLL"), (connections, "POLL"), (wake_ups, "SOON")):
        monkeypatch.setattr(module, f"{name}_SECONDS", 3600.0)
    other = await open_store()
    lease = await hold(other, session.id)
    sent = list[frozenset[str]]()
    nudge = other._engine.notifier._nudge

    async def record(topics: Iterable[str]) -> None:
        sent.append(frozenset(topics))
        await nudge(topics)

    async with store.listen(Topic.SESSIONS) as wake:
        await settled(wake)
        monkeypatch.setattr(other._engine.notifier, "_nudge", record)
        for number in range(5):
            await transcripts.append(other, lease, [said(f"{number}")])
        assert not sent
        await other.close()  # sends what waits
        assert await wake.wait(SOON)
    assert sent == [{Topic.SESSIONS}]


async def test_a_waiter_in_the_writing_process_is_woken(store: Store):
    async with store.listen(Topic.OUTBOX) as wake:
        await settled(wake)
        await outbox.enqueue(store, draft("1"))
        assert await wake.wait(SOON)


@pytest.fixture
def never_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a nudge wakes a listener."""
    for engine in (sqlite, connections):
        monkeypatch.setattr(engine, "POLL_SECONDS", 1000.0)


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("loss", LOSSES)
async def test_a_process_that_loses_a_session_is_woken(
    store: Store, open_store: OpenStore, session: Session, loss: str
):
    other = await open_store()
    async with store.listen(Topic.LEASES) as wake:
        lease = await hold(store, session.id)
        await settled(wake)
        await LOSSES[loss](other, lease)
        assert await wake.wait(SOON)
        assert await leases.get(store, session.id) != lease
        with pytest.raises((SessionMoved, SessionNotFound)):
            await leases.renew(store, lease)


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize(("act", "topic"), NUDGES, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_listener_is_woken_by_its_change(
    store: Store,
    open_store: OpenStore,
    session: Session,
    act: Callable[[OtherProcess], Awaitable[None]],
    topic: Topic,
):
    other = await open_store()
    await bindings.rebind(other, session.id, DM, Origin.MESSAGE)
    lease = await hold(other, session.id)
    asked = await approvals.ask(other, lease, "1", "f", "rm", DM, seconds=60)
    async with store.listen(topic) as wake:
        await settled(wake)
        await act(OtherProcess(other, lease, asked))
        assert await wake.wait(SOON)


@pytest.mark.usefixtures("never_looking")
async def test_every_step_of_a_handoff_wakes_its_followers(
    store: Store, open_store: OpenStore, session: Session
):
    other = await open_store()
    async with store.listen(Topic.HANDOFFS) as wake:

        async def wakes(step: Awaitable[T]) -> T:
            await settled(wake)
            done = await step
            assert await wake.wait(SOON)
            return done

        asked = await wakes(handoff_queries.request(other, session.id, Platform.TELEGRAM))
        assert await wakes(handoff_queries.cancel(other, asked.id))
        asked = await wakes(handoff_queries.request(other, session.id, Platform.TELEGRAM))
        claim = await wakes(handoff_queries.claim(other, asked.id))
        assert claim is not None
        assert await wakes(handoff_queries.record_step(other, claim, Step.OPENING))
        assert await wakes(handoff_queries.fail(other, claim, "no"))
        await handoff_queries.request(other, session.id, Platform.TELEGRAM)
        claim = await wakes(handoff_queries.claim_next(other, {Platform.TELEGRAM}))
        assert claim is not None
        assert await wakes(handoff_queries.complete(other, claim, address=DM))


@pytest.mark.usefixtures("never_looking")
async def test_a_process_that_slept_and_lost_a_session_is_woken(
    store: Store, open_store: OpenStore, session: Session, clock: FakeClock
):
    other = await open_store()
    async with store.listen(Topic.LEASES) as wake:
        await hold(store, session.id)
        clock.advance(LEASE_SECONDS)
        await settled(wake)
        await leases.acquire(other, session.id, "another")
        assert await wake.wait(SOON)


async def use_freely(store: Store, session_id: str) -> None:
    """Everything that is done with a session that no other process holds."""
    lease = await leases.acquire(store, session_id, "another")
    with pytest.raises(SessionHeld):
        await leases.acquire(store, session_id, "a third")
    await transcripts.append(store, await leases.renew(store, lease), [said("hello")])
    await leases.release(store, lease)
    await leases.release(store, await leases.acquire(store, session_id, "me", take_over=True))
    await sessions.end(store, session_id, EndReason.NEW)
    await sessions.delete(store, session_id)


@pytest.mark.usefixtures("never_looking")
async def test_taking_and_releasing_a_session_wakes_no_listener(
    store: Store, open_store: OpenStore, session: Session
):
    other = await open_store()
    async with store.listen(Topic.LEASES) as wake, store.listen(Topic.OUTBOX) as other_wake:
        await settled(wake)
        await settled(other_wake)
        await use_freely(other, session.id)
        await outbox.enqueue(other, draft("1"))
        assert await other_wake.wait(SOON)  # any other wake-up has arrived by now
        assert not await wake.wait(0)


async def test_a_waiter_without_a_wake_up_times_out(store: Store):
    async with store.listen(Topic.OUTBOX) as wake:
        await settled(wake)
        for _ in range(TRIES):
            if not await wake.wait(0.001):
                break
        else:
            pytest.fail("never told that there was nothing")


async def test_all_listeners_in_all_processes_are_woken(store: Store, open_store: OpenStore):
    openings = [store, *[await open_store() for _ in range(3)]]

    async def listen(opening: Store, ready: asyncio.Semaphore) -> bool:
        async with opening.listen(Topic.HANDOFFS) as wake:
            await settled(wake)
            ready.release()
            return await wake.wait(SOON)

    ready = asyncio.Semaphore(0)
    listeners = [asyncio.create_task(listen(o, ready)) for o in openings for _ in range(8)]
    for _ in listeners:
        await ready.acquire()
    await ask(store)
    assert all(await asyncio.gather(*listeners))


async def test_listeners_come_and_go_without_disturbing_each_other(
    store: Store, open_store: OpenStore
):
    terminal = await open_store()

    async def come_and_go() -> None:
        for _ in range(5):
            async with store.listen(Topic.HANDOFFS):
                await asyncio.sleep(0)

    await asyncio.gather(*(come_and_go() for _ in range(10)))
    async with store.listen(Topic.HANDOFFS) as wake:
        await asyncio.gather(*(come_and_go() for _ in range(3)))
        await settled(wake)
        await ask(terminal)
        assert await wake.wait(SOON)


async def test_a_listener_is_woken_for_a_change_made_before_it_listened(
    store: Store, open_store: OpenStore
):
    terminal = await open_store()
    await ask(terminal)
    async with store.listen(Topic.HANDOFFS) as wake:
        assert await wake.wait(SOON)


async def test_a_store_that_is_closed_while_listening_does_not_affect_others(
    store: Store, open_store: OpenStore
):
    ended = await open_store()
    listening = ended.listen(Topic.HANDOFFS)
    await listening.__aenter__()
    await ended.close()
    async with store.listen(Topic.HANDOFFS) as wake:
        await settled(wake)
        await ask(await open_store())
        assert await wake.wait(SOON)
    await listening.__aexit__(None, None, None)


@on_sqlite
@pytest.mark.usefixtures("url", "never_looking")
async def test_a_store_with_a_path_too_long_for_a_socket_wakes_its_waiters(
    tmp_path: Path, clock: FakeClock
):
    for length in (60, 150, 200):
        folder = tmp_path / ("x" * length)
        folder.mkdir()
        url = stores.create(folder / "segue.db")
        async with (
            await segue.store.open(url, clock=clock) as gateway,
            await segue.store.open(url, clock=clock) as terminal,
            gateway.listen(Topic.HANDOFFS) as wake,
        ):
            await owners.ensure(terminal, "me")
            await settled(wake)
            await ask(terminal)
            assert await wake.wait(SOON)


@on_sqlite
async def test_polling_makes_up_for_a_lost_nudge_on_sqlite(
    store: Store, open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite, "POLL_SECONDS", 0.05)
    terminal = await open_store()
    async with store.listen(Topic.HANDOFFS) as wake:
        (tmp_path / "segue.db-run" / f"{store.process}.sock").unlink()
        await settled(wake)
        await ask(terminal)
        assert await wake.wait(SOON)
    async with store.listen(Topic.HANDOFFS) as wake:
        await settled(wake)
        await ask(terminal)
        assert await wake.wait(SOON)


@on_postgres
async def test_polling_makes_up_for_a_lost_nudge_on_postgres(
    store: Store, open_store: OpenStore, url: str
):
    terminal = await open_store()
    async with store.listen(Topic.HANDOFFS) as wake:
        await settled(wake)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
            cut = await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
                " AND datname = current_database()"
            )
            assert await cut.fetchall() == [(True,), (True,)]
        await ask(terminal)
        while not await handoff_queries.pending(store):
            assert await wake.wait(SOON)
        for _ in range(3):
            await settled(wake)
            await ask(terminal)
            assert await wake.wait(SOON)


@on_sqlite
async def test_a_store_that_cannot_be_watched_raises_an_error_in_every_waiter(
    store: Store, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    terminal = await open_store()
    stuck = threading.Event()

    def read(_: Tx) -> None:
        stuck.wait(SOON)

    monkeypatch.setattr(threads, "START_TIMEOUT", 0.05)
    async with store.listen(Topic.HANDOFFS) as wake:
        await settled(wake)
        slow = [asyncio.ensure_future(store._engine.read(read)) for _ in range(3)]
        with pytest.raises(StoreError, match="locked for too long"):
            await drained(wake)
        stuck.set()
        await asyncio.gather(*slow, return_exceptions=True)
        monkeypatch.undo()
        async with store.listen(Topic.HANDOFFS) as later:
            await settled(later)
            await ask(terminal)
            assert await later.wait(SOON)
