"""Handoffs in the store: the transition table, and the history."""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.handoff import (
    Handoff,
    HandoffEvent,
    State,
    next_state,
)
from segue.core.session import Session
from segue.store import Store, sessions
from segue.store.handoffs import CLAIM_SECONDS, LEASE_SECONDS
from segue.testing.clock import FakeClock
from tests.store.handoffs.samples import (
    TELEGRAM,
)
from tests.store.samples import (
    DM,
    TOPIC,
)

# History


async def test_the_history_is_listed_newest_first(store: Store, session: Session):
    made: list[int] = []
    for _ in range(4):
        asked = await store.request_handoff(session.id, TELEGRAM)
        await store.cancel_handoff(asked.id)
        made.insert(0, asked.id)
    assert [h.id for h in await store.list_handoffs(session.id)] == made
    assert [h.id for h in await store.list_handoffs(session.id, limit=2)] == made[:2]


# The table


async def reach(store: Store, session_id: str, wanted: State) -> Handoff:
    """A handoff in that state, as its gateway knows it."""
    asked = await store.request_handoff(session_id, TELEGRAM)
    if wanted is State.PENDING:
        return asked
    claim = await store.claim_handoff(asked.id)
    assert claim is not None
    if wanted is State.COMPLETED:
        assert await store.complete_handoff(claim, address=TOPIC)
    elif wanted is State.FAILED:
        assert await store.fail_handoff(claim, "no")
    return claim


async def attempt(store: Store, clock: FakeClock, handoff: Handoff, event: HandoffEvent) -> object:
    match event:
        case HandoffEvent.CLAIM:
            clock.advance(LEASE_SECONDS)  # a running one can be claimed once its gateway is gone
            return await store.claim_handoff(handoff.id)
        case HandoffEvent.COMPLETE:
            return await store.complete_handoff(handoff, address=DM)
        case HandoffEvent.FAIL:
            return await store.fail_handoff(handoff, "no")
        case HandoffEvent.CANCEL:
            return await store.cancel_handoff(handoff.id)
        case HandoffEvent.EXPIRE:
            clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
            return await store.expire_handoffs()


async def test_the_store_agrees_with_the_table_of_transitions(store: Store, clock: FakeClock):
    for before in State:
        for event in HandoffEvent:
            session = await sessions.create(store, "me", Platform.LOCAL)
            handoff = await reach(store, session.id, before)
            was = (await store.list_handoffs(session.id))[0]
            happened = await attempt(store, clock, handoff, event)
            now = (await store.list_handoffs(session.id))[0]
            expected = next_state(before, event)
            assert now.state is (expected or before), (before, event)
            assert bool(happened) is (expected is not None), (before, event)
            if expected is None:
                assert now == was
