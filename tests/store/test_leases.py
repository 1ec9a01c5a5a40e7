"""Which process may write to a session, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

import segue.store
from segue.approvals import queries as approvals
from segue.core.address import Platform
from segue.core.errors import SessionHeld, SessionMoved, SessionNotFound
from segue.core.session import EndReason, Lease, Origin, Session
from segue.store import Store, bindings, leases, sessions, transcripts
from segue.store.leases import LEASE_SECONDS
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import DM, answered, hold, on_sqlite, said, texts

Use = Callable[[Store, Lease], Awaitable[object]]

WRITES: dict[str, Use] = {
    "append": lambda store, lease: transcripts.append(store, lease, [said("me too")]),
    "renew": leases.renew,
    "describe": lambda store, lease: sessions.describe(store, lease, cwd="/elsewhere"),
    "undo": transcripts.undo,
    "restore": transcripts.restore,
    "grant": lambda store, lease: approvals.grant(store, lease, "0badcafe"),
    "end": lambda store, lease: sessions.end(store, lease.session_id, EndReason.NEW, lease=lease),
    "delete": lambda store, lease: sessions.delete(store, lease.session_id, lease=lease),
}


async def test_a_process_that_acquires_a_free_session_may_write_to_it(
    store: Store, session: Session, clock: FakeClock
):
    lease = await leases.acquire(store, session.id, "a terminal on desk", seconds=10)
    assert lease.until == clock.ticks() + 10_000_000
    assert (lease.session_id, lease.process) == (session.id, store.process)
    assert await leases.get(store, session.id) == lease
    assert await transcripts.append(store, lease, [said("hello")]) == 1


async def test_a_held_session_is_refused_naming_its_holder(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    with pytest.raises(SessionHeld, match="a terminal on desk"):
        await leases.acquire(await open_store(), session.id, "another")
    with pytest.raises(SessionHeld, match="a terminal on desk"):
        await leases.acquire(store, session.id, "another window of the same program")
    assert await leases.get(store, session.id) == lease


async def test_of_many_concurrent_callers_one_acquires_the_lease(
    store: Store, session: Session, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    tries = [leases.acquire(o, session.id, f"{i}") for i in range(3) for o in openings]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    got = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
    assert len(got) == 1
    assert all(isinstance(o, SessionHeld) for o in outcomes if o is not got[0])
    assert await leases.get(store, session.id) == got[0]


async def test_a_session_that_does_not_exist_cannot_be_held(store: Store):
    with pytest.raises(SessionNotFound):
        await leases.acquire(store, "20260101_120000_00000000", "me")
    assert await leases.get(store, "20260101_120000_00000000") is None


async def test_a_released_session_is_free(store: Store, session: Session, open_store: OpenStore):
    lease = await hold(store, session.id)
    assert await leases.release(store, lease)
    assert await leases.get(store, session.id) is None
    assert not await leases.release(store, lease)
    assert await leases.acquire(await open_store(), session.id, "another")


async def test_a_takeover_invalidates_the_old_lease(store: Store, open_store: OpenStore):
    for other in (await open_store(), store):
        session = await sessions.create(store, "me", Platform.LOCAL)
        stale = await hold(store, session.id, said("hello"), answered("hi"))
        newest = await leases.acquire(other, session.id, "a terminal on sofa", take_over=True)
        before = await sessions.get(store, session.id)
        for use in WRITES.values():
            with pytest.raises(SessionMoved, match="in a terminal on sofa"):
                await use(store, stale)
        assert not await leases.release(store, stale)
        assert await sessions.get(store, session.id) == before
        assert await leases.get(store, session.id) == newest
        assert texts(await transcripts.load(store, session.id)) == ["hello", "hi"]
        assert await transcripts.append(other, newest, [said("mine now")]) == 3


async def test_a_lease_of_another_process_cannot_be_used_even_with_the_right_epoch(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id, said("hello"))
    forged = Lease(
        session_id=session.id,
        holder=lease.holder,
        process="somebody-else-1-00000000",
        epoch=lease.epoch,
        until=lease.until,
    )
    for use in WRITES.values():
        with pytest.raises(SessionMoved):
            await use(store, forged)
    assert not await leases.release(store, forged)


async def test_the_epoch_only_grows(store: Store, session: Session, clock: FakeClock):
    epochs: list[int] = []
    for _ in range(3):
        lease = await leases.acquire(store, session.id, "released")
        epochs.append(lease.epoch)
        await leases.release(store, lease)
        epochs.append((await leases.acquire(store, session.id, "lapsed")).epoch)
        clock.advance(LEASE_SECONDS)
        lease = await leases.acquire(store, session.id, "over a lapsed one")
        epochs.append(lease.epoch)
        epochs.append((await leases.acquire(store, session.id, "taken", take_over=True)).epoch)
        await sessions.end(
            store, session.id, EndReason.NEW, lease=await leases.get(store, session.id)
        )
    assert epochs == sorted(set(epochs))


async def test_an_ended_session_does_not_give_its_epoch_to_the_next_holder(
    store: Store, session: Session
):
    stale = await hold(store, session.id, said("hello"))
    await sessions.end(store, session.id, EndReason.NEW, lease=stale)
    with pytest.raises(SessionMoved, match="not open anywhere"):
        await transcripts.append(store, stale, [said("one more")])
    await leases.acquire(store, session.id, "a terminal on sofa")
    with pytest.raises(SessionMoved, match="a terminal on sofa"):
        await transcripts.append(store, stale, [said("one more")])


async def test_a_renewed_lease_keeps_the_session(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    lease = await hold(store, session.id)
    for _ in range(5):
        clock.advance(LEASE_SECONDS - 1)
        lease = await leases.renew(store, lease)
        with pytest.raises(SessionHeld):
            await leases.acquire(other, session.id, "another")
    assert lease.epoch == 1


async def test_an_expired_lease_that_was_not_taken_can_be_renewed_and_used(
    store: Store, session: Session, clock: FakeClock
):
    lease = await hold(store, session.id, said("before a long sleep"))
    clock.advance(10 * LEASE_SECONDS)
    assert await leases.get(store, session.id) is None
    assert await transcripts.append(store, lease, [said("after it")]) == 2
    renewed = await leases.renew(store, lease)
    assert (renewed.epoch, renewed.until) == (lease.epoch, clock.ticks() + int(LEASE_SECONDS * 1e6))
    assert await leases.get(store, session.id) == renewed


async def test_an_expired_lease_that_was_taken_cannot_be_renewed(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    lease = await hold(store, session.id)
    clock.advance(LEASE_SECONDS)
    await leases.acquire(await open_store(), session.id, "a terminal on sofa")
    with pytest.raises(SessionMoved, match="a terminal on sofa"):
        await leases.renew(store, lease)


async def test_a_lease_expires_exactly_at_its_end(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    await leases.acquire(store, session.id, "me", seconds=2)
    clock.advance(1.999)
    with pytest.raises(SessionHeld):
        await leases.acquire(other, session.id, "another")
    clock.advance(0.001)
    assert await leases.acquire(other, session.id, "another")


async def test_the_lease_of_a_process_that_ended_is_free_at_once(
    store: Store, session: Session, open_store: OpenStore
):
    dying = await open_store()
    await hold(dying, session.id, said("hello"))
    await dying.close()
    assert await leases.get(store, session.id) is None
    assert (await leases.acquire(store, session.id, "another")).epoch == 2


async def test_the_lease_of_a_process_that_ended_is_free_after_its_time(
    store: Store, session: Session, url: str, clock: FakeClock
):
    async with await segue.store.open(url, clock=clock) as dying:
        await hold(dying, session.id, said("hello"))
    clock.advance(LEASE_SECONDS)
    assert await leases.get(store, session.id) is None
    assert await leases.acquire(store, session.id, "another")


async def test_a_jump_of_the_wall_clock_does_not_expire_a_lease(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    lease = await hold(store, session.id)
    for hours in (1, -2):
        clock.set_wall(clock.now() + timedelta(hours=hours))
        with pytest.raises(SessionHeld):
            await leases.acquire(other, session.id, "another")
    assert await leases.get(store, session.id) == lease


@on_sqlite
async def test_a_restart_of_the_machine_ends_all_leases(
    session: Session, store: Store, open_store: OpenStore, clock: FakeClock
):
    await hold(store, session.id)
    clock.restart()
    assert await leases.acquire(await open_store(), session.id, "after the restart")


async def test_acquiring_an_ended_session_opens_it_again(store: Store, session: Session):
    await sessions.end(store, session.id, EndReason.IDLE)
    await hold(store, session.id, said("back again"))
    again = await sessions.get(store, session.id)
    assert again is not None
    assert (again.ended, again.end_reason) == (None, None)


async def test_leases_on_different_sessions_are_independent(store: Store, session: Session):
    other = await sessions.create(store, "me", session.source)
    mine = await hold(store, session.id)
    theirs = await hold(store, other.id)
    assert await transcripts.append(store, theirs, [said("there")]) == 1
    assert await leases.get(store, session.id) == mine
    assert texts(await transcripts.load(store, session.id)) == []


async def test_the_error_after_losing_a_session_names_the_holder_and_the_chat(
    store: Store, session: Session, open_store: OpenStore
):
    stale = await hold(store, session.id)
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    await leases.acquire(await open_store(), session.id, "a gateway", take_over=True)
    with pytest.raises(SessionMoved, match="in a gateway, on telegram dm 42"):
        await transcripts.append(store, stale, [said("hello?")])


async def test_writing_to_a_deleted_session_raises_session_not_found(
    store: Store, session: Session
):
    lease = await hold(store, session.id)
    await sessions.delete(store, session.id, lease=lease)
    with pytest.raises(SessionNotFound):
        await transcripts.append(store, lease, [said("hello?")])
