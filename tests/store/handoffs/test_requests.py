"""Handoffs in the store: requests."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Platform
from segue.core.errors import HandoffError, SessionHeld, SessionMoved, SessionNotFound
from segue.core.session import Session
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff, State
from segue.store import Store, leases, sessions
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.handoffs.samples import (
    NOWHERE,
    TELEGRAM,
    claimed,
    state,
)
from tests.store.samples import (
    DM,
    ODD,
    TOPIC,
    hold,
)


async def test_a_request_is_pending_until_it_is_claimed(store: Store, session: Session):
    asked = await handoffs.request(store, session.id, TELEGRAM)
    assert asked.state is State.PENDING
    assert await handoffs.pending(store) == (asked,)
    assert await handoffs.claim(store, asked.id)
    assert await handoffs.pending(store) == ()


async def test_a_request_keeps_its_fields(store: Store, session: Session, clock: FakeClock):
    asked = await handoffs.request(
        store, session.id, TELEGRAM, home=DM, message="Go on with the tests. ✓", key="first"
    )
    assert (asked.session_id, asked.platform, asked.home) == (session.id, TELEGRAM, DM)
    assert (asked.message, asked.key) == ("Go on with the tests. ✓", "first")
    assert (asked.requested, asked.finished, asked.error) == (clock.now(), None, None)
    assert await handoffs.current(store, session.id) == asked


async def test_unstorable_characters_in_a_message_are_replaced(store: Store, session: Session):
    asked = await handoffs.request(store, session.id, TELEGRAM, message=ODD)
    assert asked.message == "a\ufffdb\ufffdc"


async def test_a_second_request_is_refused_while_one_is_pending_or_running(
    store: Store, session: Session
):
    asked = await handoffs.request(store, session.id, TELEGRAM)
    with pytest.raises(HandoffError, match="telegram"):
        await handoffs.request(store, session.id, Platform.SLACK)
    await handoffs.claim(store, asked.id)
    with pytest.raises(HandoffError, match="telegram"):
        await handoffs.request(store, session.id, Platform.SLACK)
    assert len(await handoffs.history(store, session.id)) == 1


async def test_a_request_after_a_failed_handoff_clears_error_and_platform(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    await handoffs.fail(store, claim, "no such chat")
    again = await handoffs.request(store, session.id, Platform.SLACK)
    latest = await state(store, session.id)
    assert latest == again
    assert (latest.state, latest.error, latest.platform) == (State.PENDING, None, Platform.SLACK)
    assert (latest.step, latest.thread, latest.attempt) == (None, None, 0)


async def test_a_request_after_a_completed_handoff_clears_the_platform(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    await handoffs.complete(store, claim, address=TOPIC)
    await handoffs.request(store, session.id, Platform.SLACK)
    latest = await state(store, session.id)
    assert (latest.state, latest.error, latest.platform) == (State.PENDING, None, Platform.SLACK)
    assert (latest.thread, latest.finished) == (None, None)


async def test_an_unknown_session_has_no_handoff_and_a_request_for_it_is_refused(store: Store):
    assert await handoffs.current(store, NOWHERE) is None
    assert await handoffs.history(store, NOWHERE) == ()
    with pytest.raises(SessionNotFound):
        await handoffs.request(store, NOWHERE, TELEGRAM)
    assert await handoffs.pending(store) == ()


async def test_a_session_that_never_moved_has_no_handoff(store: Store, session: Session):
    assert await handoffs.current(store, session.id) is None


async def test_pending_handoffs_are_listed_oldest_first(store: Store):
    asked: list[Handoff] = []
    for _ in range(5):
        session = await sessions.create(store, "me", Platform.LOCAL)
        asked.append(await handoffs.request(store, session.id, TELEGRAM))
    running = await handoffs.claim(store, asked[1].id)
    assert running is not None
    await handoffs.cancel(store, asked[3].id)
    assert await handoffs.pending(store) == (asked[0], asked[2], asked[4])


async def test_one_request_key_makes_one_request(store: Store, session: Session):
    first = await handoffs.request(store, session.id, TELEGRAM, key="enter was hit twice")
    assert await handoffs.request(store, session.id, TELEGRAM, key="enter was hit twice") == first
    assert await handoffs.pending(store) == (first,)


async def test_a_finished_handoff_is_not_repeated_under_its_key(store: Store, session: Session):
    first = await handoffs.request(store, session.id, TELEGRAM, key="once")
    await handoffs.cancel(store, first.id)
    again = await handoffs.request(store, session.id, TELEGRAM, key="once")
    assert (again.id, again.state) == (first.id, State.FAILED)
    assert await handoffs.pending(store) == ()


async def test_one_request_key_makes_one_request_even_concurrently(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    for turn in range(4):
        session = await sessions.create(store, "me", Platform.LOCAL)
        ask = [
            handoffs.request(o, session.id, TELEGRAM, key=f"{turn}") for o in openings for _ in "ab"
        ]
        assert len({asked.id for asked in await asyncio.gather(*ask)}) == 1


async def test_a_request_needs_the_current_lease(
    store: Store, session: Session, open_store: OpenStore
):
    mine = await hold(store, session.id)
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=mine)
    await handoffs.cancel(store, asked.id)
    other = await open_store()
    await leases.acquire(other, session.id, "a terminal on sofa", take_over=True)
    with pytest.raises(SessionMoved, match="a terminal on sofa"):
        await handoffs.request(store, session.id, TELEGRAM, lease=mine)
    assert await handoffs.pending(store) == ()


async def test_a_lease_on_another_session_is_refused(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    await hold(store, session.id)
    lease = await hold(store, other.id)
    with pytest.raises((SessionMoved, SessionHeld)):
        await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    assert await handoffs.pending(store) == ()


async def test_a_request_for_a_held_session_is_refused_naming_the_holder(
    store: Store, session: Session, open_store: OpenStore
):
    await hold(await open_store(), session.id)
    with pytest.raises(SessionHeld, match="a terminal on desk"):
        await handoffs.request(store, session.id, TELEGRAM)
    assert await handoffs.current(store, session.id) is None
