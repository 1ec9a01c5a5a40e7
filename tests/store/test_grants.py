"""Grants for a session stay valid wherever the session goes, and in no other session."""

from __future__ import annotations

import pytest

import segue.store
from segue.approvals import queries as approvals
from segue.core.address import Platform
from segue.core.errors import SessionMoved, SessionNotFound
from segue.core.session import EndReason, Session
from segue.handoffs import queries as handoffs
from segue.store import Store, Tx, leases, sessions
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import DM, hold

ONE, TWO = "1" * 64, "2" * 64


async def test_a_grant_is_stored_once_and_for_its_session_only(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    lease = await hold(store, session.id)
    assert await approvals.granted(store, session.id) == frozenset()
    for fingerprint in (ONE, TWO, ONE):
        await approvals.grant(store, lease, fingerprint)
    assert await approvals.granted(store, session.id) == {ONE, TWO}
    assert await approvals.granted(store, other.id) == frozenset()
    assert await approvals.granted(store, "20260101_120000_00000000") == frozenset()


async def test_a_grant_survives_a_restart(store: Store, url: str, clock: FakeClock):
    async with await segue.store.open(url, clock=clock) as first:
        session = await sessions.create(first, "me", Platform.LOCAL)
        await approvals.grant(first, await hold(first, session.id), ONE)
    assert await approvals.granted(store, session.id) == {ONE}


async def test_a_grant_survives_a_handoff(store: Store, session: Session, open_store: OpenStore):
    gateway = await open_store()
    lease = await hold(store, session.id)
    await approvals.grant(store, lease, ONE)
    await handoffs.request(store, session.id, Platform.TELEGRAM, lease=lease)
    claim = await handoffs.claim_next(gateway, {Platform.TELEGRAM})
    assert claim
    assert await handoffs.complete(gateway, claim, address=DM)
    assert await approvals.granted(gateway, session.id) == {ONE}
    with pytest.raises(SessionMoved, match="telegram dm 42"):
        await approvals.grant(store, lease, TWO)
    await approvals.grant(gateway, await hold(gateway, session.id), TWO)
    assert await approvals.granted(store, session.id) == {ONE, TWO}


async def test_a_process_that_lost_the_session_cannot_grant(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    await leases.acquire(await open_store(), session.id, "a terminal on sofa", take_over=True)
    with pytest.raises(SessionMoved, match="a terminal on sofa"):
        await approvals.grant(store, lease, ONE)
    assert await approvals.granted(store, session.id) == frozenset()


async def test_a_grant_survives_the_end_and_reopening_of_its_session(
    store: Store, session: Session
):
    lease = await hold(store, session.id)
    await approvals.grant(store, lease, ONE)
    await sessions.end(store, session.id, EndReason.IDLE, lease=lease)
    await hold(store, session.id)
    assert await approvals.granted(store, session.id) == {ONE}


async def test_grants_are_deleted_with_their_session(store: Store, session: Session):
    lease = await hold(store, session.id)
    await approvals.grant(store, lease, ONE)
    await sessions.delete(store, session.id, lease=lease)
    assert await approvals.granted(store, session.id) == frozenset()
    assert await store.write(count) == 0
    with pytest.raises(SessionNotFound):
        await approvals.grant(store, lease, ONE)


def count(tx: Tx) -> int:
    return tx.one("SELECT count(*) FROM grants")[0]
