"""Leases that are kept: renewed in time and together, and a loss is noticed at once."""

from __future__ import annotations

import asyncio
import logging

import pytest

from segue.core.address import Platform
from segue.core.errors import SessionMoved
from segue.core.session import EndReason, Session, Ticks
from segue.store import Store, leases, sessions, sqlite, transcripts
from segue.store.lease_keeper import HeldLease
from segue.store.leases import LEASE_SECONDS
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import hold, on_sqlite, said

SOON = 20.0
SHORT = 0.15
NEVER = Ticks(0)


async def renewed(held: HeldLease, *, at: Ticks = NEVER) -> None:
    """Wait until it is renewed once more, and by a renewal that started after `at`."""
    before = held.lease
    async with asyncio.timeout(SOON):
        while True:
            if held.lease is not before and held.lease.until > at:
                return
            await asyncio.sleep(0.01)


async def many(store: Store, count: int, seconds: float) -> list[HeldLease]:
    """That many sessions, all of them held."""
    made = [await sessions.create(store, "me", Platform.LOCAL) for _ in range(count)]
    return [store.keeper.add(await hold(store, s.id), seconds) for s in made]


async def test_a_kept_lease_is_renewed_repeatedly(store: Store, session: Session, clock: FakeClock):
    held = store.keeper.add(await hold(store, session.id), SHORT)
    for _ in range(3):
        clock.advance(LEASE_SECONDS)
        await renewed(held, at=clock.ticks())
        assert await leases.get(store, session.id) == held.lease
    store.keeper.remove(held)


async def test_a_lease_that_was_let_go_is_not_renewed(store: Store, session: Session):
    other, held = (
        await many(store, 1, SHORT),
        store.keeper.add(await hold(store, session.id), SHORT),
    )
    before = held.lease
    store.keeper.remove(held)
    await renewed(other[0])
    await renewed(other[0])
    assert held.lease is before
    assert not held.lost.is_set()


async def test_losing_one_of_many_leases_is_noticed_at_once_and_the_others_stay(
    store: Store, open_store: OpenStore
):
    held = await many(store, 20, LEASE_SECONDS)
    lost = held[7]
    other = await open_store()
    await leases.acquire(other, lost.lease.session_id, "another terminal", take_over=True)
    async with asyncio.timeout(SOON):
        await lost.lost.wait()
    assert isinstance(lost.moved, SessionMoved)
    assert "another terminal" in str(lost.moved)
    assert [h for h in held if h.lost.is_set()] == [lost]
    for h in held:
        if h is not lost:
            await transcripts.append(store, h.lease, [said("still here")])


async def test_the_next_renewal_notices_a_lost_lease(
    store: Store, session: Session, clock: FakeClock
):
    """The notification of a lease that expired and was taken may have come before anything
    listened."""
    lease = await hold(store, session.id)
    await leases.release(store, lease)
    held = store.keeper.add(lease, SHORT)
    async with asyncio.timeout(SOON):
        await held.lost.wait()


@on_sqlite
async def test_wake_ups_do_not_make_the_keeper_renew_early(
    store: Store, open_store: OpenStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    """Writes of other processes wake every listener repeatedly, which must not cause more
    writes."""
    monkeypatch.setattr(sqlite, "POLL_SECONDS", 0.05)
    held = await many(store, 50, LEASE_SECONDS)
    before = [h.lease.until for h in held]
    other = await open_store()
    clock.advance(1)
    async with store.listen() as wake:
        for number in range(3):
            session = await sessions.create(other, "me", Platform.LOCAL)
            await sessions.end(other, session.id, EndReason.NEW)
            assert await wake.wait(SOON), number
    assert [h.lease.until for h in held] == before
    assert [await leases.get(store, h.lease.session_id) for h in held] == [h.lease for h in held]


async def test_a_lease_that_expires_sooner_is_renewed_first(
    store: Store, session: Session, clock: FakeClock
):
    await many(store, 3, LEASE_SECONDS)
    await asyncio.sleep(0)
    clock.advance(1)
    await renewed(store.keeper.add(await hold(store, session.id), SHORT))


async def test_closing_the_store_stops_the_keeper_silently(
    open_store: OpenStore, session: Session, caplog: pytest.LogCaptureFixture
):
    store = await open_store()
    held = store.keeper.add(await hold(store, session.id), LEASE_SECONDS)
    async with store.listen() as wake:
        await wake.wait(0)
    await store.close()
    await asyncio.sleep(0.05)
    assert not held.lost.is_set()
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
