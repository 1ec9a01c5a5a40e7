"""Handoffs in the store: the transition table, and the history."""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.session import Session
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import CLAIM_SECONDS, LEASE_SECONDS
from segue.handoffs.values import Handoff, HandoffEvent, State, next_state
from segue.store import Store, sessions
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
        asked = await handoffs.request(store, session.id, TELEGRAM)
        await handoffs.cancel(store, asked.id)
        made.insert(0, asked.id)
    assert [h.id for h in await handoffs.history(store, session.id)] == made
    assert [h.id for h in await handoffs.history(store, session.id, limit=2)] == made[:2]


# The table


async def reach(store: Store, session_id: str, wanted: State) -> Handoff:
    """A handoff in that state, as its gateway knows it."""
    asked = await handoffs.request(store, session_id, TELEGRAM)
    if wanted is State.PENDING:
        return asked
    claim = await handoffs.claim(store, asked.id)
    assert claim is not None
    if wanted is State.COMPLETED:
        assert await handoffs.complete(store, claim, address=TOPIC)
    elif wanted is State.FAILED:
        assert await handoffs.fail(store, claim, "no")
    return claim


async def attempt(store: Store, clock: FakeClock, handoff: Handoff, event: HandoffEvent) -> object:
    match event:
        case HandoffEvent.CLAIM:
            clock.advance(LEASE_SECONDS)  # a running one can be claimed once its gateway is gone
            return await handoffs.claim(store, handoff.id)
        case HandoffEvent.COMPLETE:
            return await handoffs.complete(store, handoff, address=DM)
        case HandoffEvent.FAIL:
            return await handoffs.fail(store, handoff, "no")
        case HandoffEvent.CANCEL:
            return await handoffs.cancel(store, handoff.id)
        case HandoffEvent.EXPIRE:
            clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
            return await handoffs.expire(store)


async def test_the_store_agrees_with_the_table_of_transitions(store: Store, clock: FakeClock):
    for before in State:
        for event in HandoffEvent:
            session = await sessions.create(store, "me", Platform.LOCAL)
            handoff = await reach(store, session.id, before)
            was = (await handoffs.history(store, session.id))[0]
            happened = await attempt(store, clock, handoff, event)
            now = (await handoffs.history(store, session.id))[0]
            expected = next_state(before, event)
            assert now.state is (expected or before), (before, event)
            assert bool(happened) is (expected is not None), (before, event)
            if expected is None:
                assert now == was
