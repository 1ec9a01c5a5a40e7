"""Handoffs in the store: claiming, and the expiry of those that are not claimed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from segue.core.address import Platform
from segue.core.errors import SessionError
from segue.core.session import EndReason, Session
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import CLAIM_SECONDS, LEASE_SECONDS
from segue.handoffs.values import MAX_ATTEMPTS, REASONS, Failure, State, Step
from segue.store import Store, sessions
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.handoffs.samples import (
    TELEGRAM,
    claimed,
    state,
)
from tests.store.samples import (
    TOPIC,
    answered,
)

# Claiming


async def test_a_claim_has_a_holder_and_an_expiry(store: Store, session: Session, clock: FakeClock):
    asked = await handoffs.request(store, session.id, TELEGRAM)
    clock.advance(1)
    claim = await handoffs.claim(store, asked.id, seconds=10)
    assert claim is not None
    assert (claim.state, claim.claimed_by) == (State.RUNNING, store.process)
    assert (claim.attempt, claim.fence, claim.step) == (1, 1, Step.CLAIMED)
    assert (claim.claimed, claim.lease_until) == (clock.now(), clock.ticks() + 10_000_000)
    assert await state(store, session.id) == claim


async def test_of_two_claims_one_wins(store: Store, session: Session, open_store: OpenStore):
    gateways = [store, await open_store()]
    for _ in range(8):
        asked = await handoffs.request(store, session.id, TELEGRAM)
        claims = await asyncio.gather(*(handoffs.claim(g, asked.id) for g in gateways))
        assert len([claim for claim in claims if claim]) == 1
        assert (await state(store, session.id)).attempt == 1
        await handoffs.cancel(store, asked.id)


async def test_two_gateways_never_claim_the_same_handoff(store: Store, open_store: OpenStore):
    gateways = [store, await open_store(), await open_store()]
    asked: set[int] = set()
    for _ in range(9):
        session = await sessions.create(store, "me", Platform.LOCAL)
        asked.add((await handoffs.request(store, session.id, TELEGRAM)).id)
    rounds = [handoffs.claim_next(g, {TELEGRAM}) for g in gateways for _ in range(4)]
    claims = [claim.id for claim in await asyncio.gather(*rounds) if claim]
    left = [claim.id for g in gateways if (claim := await handoffs.claim_next(g, {TELEGRAM}))]
    assert sorted(claims + left) == sorted(asked)


async def test_a_gateway_claims_the_oldest_request_for_its_platforms(store: Store):
    wanted = (Platform.SLACK, Platform.TELEGRAM, Platform.SLACK)
    asked: list[int] = []
    for platform in wanted:
        session = await sessions.create(store, "me", Platform.LOCAL)
        asked.append((await handoffs.request(store, session.id, platform)).id)
    first = await handoffs.claim_next(store, {TELEGRAM, Platform.MATRIX})
    assert first is not None
    assert first.id == asked[1]
    assert await handoffs.claim_next(store, {TELEGRAM, Platform.MATRIX}) is None
    assert await handoffs.claim_next(store, set()) is None
    then = await handoffs.claim_next(store, {Platform.SLACK})
    assert then is not None
    assert then.id == asked[0]


async def test_a_request_past_its_deadline_is_neither_claimed_nor_listed(
    store: Store, session: Session, clock: FakeClock
):
    asked = await handoffs.request(store, session.id, TELEGRAM, claim_seconds=5)
    clock.advance(5)
    assert await handoffs.pending(store) == ()
    assert await handoffs.claim(store, asked.id) is None
    assert await handoffs.claim_next(store, {TELEGRAM}) is None


async def test_a_request_can_be_claimed_until_the_last_moment(
    store: Store, session: Session, clock: FakeClock
):
    asked = await handoffs.request(store, session.id, TELEGRAM, claim_seconds=5)
    clock.advance(4.999)
    assert await handoffs.claim(store, asked.id)


async def test_an_unknown_handoff_cannot_be_claimed(store: Store):
    assert await handoffs.claim(store, 12345) is None
    assert await handoffs.claim_next(store, {TELEGRAM}) is None


async def test_heartbeats_keep_a_claim(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    claim = await claimed(store, session.id)
    for _ in range(10):
        clock.advance(LEASE_SECONDS - 1)
        assert await handoffs.heartbeat(store, claim)
        assert await handoffs.claim(other, claim.id) is None
        assert await handoffs.claim_next(other, {TELEGRAM}) is None
    assert await handoffs.expire(store) == 0
    assert await handoffs.complete(store, claim, address=TOPIC)


async def test_a_claim_that_was_not_renewed_is_taken_over_with_its_step_and_thread(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    claim = await claimed(store, session.id)
    assert await handoffs.record_step(store, claim, Step.OPENING, thread=TOPIC)
    assert await handoffs.record_step(store, claim, Step.REPLYING)
    clock.advance(LEASE_SECONDS)
    other = await open_store()
    taken = await handoffs.claim_next(other, {TELEGRAM})
    assert taken is not None
    assert (taken.id, taken.attempt, taken.fence) == (claim.id, 2, 2)
    assert (taken.step, taken.thread) == (Step.REPLYING, TOPIC)
    assert taken.claimed_by == other.process


async def test_the_handoff_of_a_dead_gateway_is_taken_over_at_once(
    store: Store, session: Session, open_store: OpenStore
):
    dying = await open_store()
    claim = await claimed(dying, session.id)
    await handoffs.record_step(dying, claim, Step.OPENING, thread=TOPIC)
    await dying.close()
    taken = await handoffs.claim_next(store, {TELEGRAM})
    assert taken is not None
    assert (taken.id, taken.fence, taken.thread) == (claim.id, 2, TOPIC)


async def test_a_gateway_does_not_claim_its_own_running_handoff_again(
    store: Store, session: Session, clock: FakeClock
):
    claim = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    assert await handoffs.claim_next(store, {TELEGRAM}, exclude=[claim.id]) is None
    assert await handoffs.heartbeat(store, claim)
    clock.advance(LEASE_SECONDS)
    again = await handoffs.claim_next(store, {TELEGRAM})
    assert again is not None
    assert (again.id, again.attempt) == (claim.id, 2)


async def test_a_jump_of_the_wall_clock_does_not_expire_a_claim(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    claim = await claimed(store, session.id)
    clock.set_wall(clock.now() + timedelta(hours=1))
    other = await open_store()
    assert await handoffs.claim(other, claim.id) is None
    assert await handoffs.expire(other) == 0
    assert (await state(store, session.id)).state is State.RUNNING


async def test_the_steps_can_be_read(store: Store, session: Session, open_store: OpenStore):
    terminal = await open_store()
    claim = await claimed(store, session.id)
    for step in Step:
        assert await handoffs.record_step(store, claim, step)
        assert (await state(terminal, session.id)).step is step


async def test_a_handoff_is_attempted_at_most_three_times(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    asked = await handoffs.request(store, session.id, TELEGRAM)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        gateway = await open_store()
        claim = await handoffs.claim_next(gateway, {TELEGRAM})
        assert claim is not None
        assert claim.attempt == attempt
        clock.advance(LEASE_SECONDS)
    assert await handoffs.claim(store, asked.id) is None
    assert await handoffs.claim_next(store, {TELEGRAM}) is None
    over = await state(store, session.id)
    assert (over.state, over.failure) == (State.FAILED, Failure.ABANDONED)


async def test_the_last_attempt_may_succeed(
    store: Store, session: Session, clock: FakeClock, open_store: OpenStore
):
    asked = await handoffs.request(store, session.id, TELEGRAM)
    for _ in range(MAX_ATTEMPTS - 1):
        assert await handoffs.claim(store, asked.id)
        clock.advance(LEASE_SECONDS)
    last = await handoffs.claim_next(await open_store(), {TELEGRAM})
    assert last is not None
    assert await handoffs.expire(store) == 0
    assert await handoffs.complete(store, last, address=TOPIC)


# Expiring


async def test_an_unclaimed_request_expires_with_a_reason(
    store: Store, session: Session, clock: FakeClock
):
    await handoffs.request(store, session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS - 1)
    assert (await state(store, session.id)).state is State.PENDING
    clock.advance(1)
    over = await state(store, session.id)
    assert (over.state, over.failure) == (State.FAILED, Failure.EXPIRED)
    assert (over.error, over.finished) == (REASONS[Failure.EXPIRED], clock.now())


async def test_an_abandoned_running_handoff_expires_with_a_reason(
    store: Store, session: Session, clock: FakeClock
):
    await claimed(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS - 1)
    assert (await state(store, session.id)).state is State.RUNNING
    clock.advance(1)
    over = await state(store, session.id)
    assert (over.state, over.failure) == (State.FAILED, Failure.ABANDONED)


async def test_expiring_returns_the_number_of_expired_handoffs_and_leaves_the_rest(
    store: Store, session: Session, clock: FakeClock
):
    other = await sessions.create(store, "me", Platform.LOCAL)
    await handoffs.request(store, session.id, TELEGRAM, claim_seconds=10)
    fresh = await handoffs.request(store, other.id, TELEGRAM, claim_seconds=100)
    clock.advance(10)
    assert await handoffs.expire(store) == 1
    assert await handoffs.expire(store) == 0
    assert await handoffs.pending(store) == (fresh,)


async def test_an_expired_request_does_not_block_the_next(
    store: Store, session: Session, clock: FakeClock
):
    first = await handoffs.request(store, session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS)
    again = await handoffs.request(store, session.id, TELEGRAM)
    assert again.id != first.id
    assert [h.state for h in await handoffs.history(store, session.id)] == [
        State.PENDING,
        State.FAILED,
    ]


async def test_a_session_with_an_expired_request_can_be_ended_and_deleted(
    store: Store, session: Session, clock: FakeClock
):
    await handoffs.request(store, session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS)
    await sessions.end(store, session.id, EndReason.CLOSED)
    await sessions.delete(store, session.id)
    assert await sessions.get(store, session.id) is None


async def test_a_late_gateway_does_not_reopen_an_ended_session(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    gateway = await open_store()
    late = await claimed(gateway, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    await sessions.end(store, session.id, EndReason.NEW)
    with pytest.raises(SessionError, match="continued elsewhere during the handoff"):
        await handoffs.complete(gateway, late, address=TOPIC, messages=[answered("I am here.")])
    ended = await sessions.get(store, session.id)
    assert ended is not None
    assert (ended.end_reason, ended.address, ended.messages) == (EndReason.NEW, None, 0)
