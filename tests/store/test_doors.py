"""The places that were opened for a session, and messages there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from segue.core.address import Address, ChatType, Platform
from segue.core.reset import ResetPolicy
from segue.core.session import EndReason, Origin, Session
from segue.store import Store
from segue.store.bindings import Elsewhere
from segue.testing.clock import FakeClock
from tests.store.samples import DM, ROOM, TOPIC, answered, hold, said, say

DESK = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="desk")
OTHER_TOPIC = replace(TOPIC, thread_id="99")


async def opened(store: Store, address: Address = TOPIC) -> Session:
    """A session that was at this address and went to the terminal."""
    session = await store.sessions.create("me", Platform.LOCAL, title="Boat")
    await store.bindings.rebind(session.id, address, Origin.HANDOFF)
    await store.bindings.rebind(session.id, DESK, Origin.RESUME)
    return session


async def where(store: Store, session: Session) -> Address | None:
    found = await store.sessions.get(session.id)
    assert found is not None
    return found.address


async def test_a_message_at_a_door_brings_the_session_back(store: Store):
    session = await opened(store)
    assert await store.bindings.enter(TOPIC, "me") is None
    assert await where(store, session) == TOPIC
    bound = await store.bindings.get_or_create(TOPIC, "me", policy=ResetPolicy(), zone=UTC)
    assert (bound.session.id, bound.created) == (session.id, False)


async def test_a_session_that_is_held_stays_and_the_caller_learns_where(store: Store):
    session = await opened(store)
    await hold(store, session.id)
    found = await store.bindings.enter(TOPIC, "me")
    assert isinstance(found, Elsewhere)
    assert (found.session.id, found.holder is None) == (session.id, False)
    assert await where(store, session) == DESK


async def test_a_session_that_is_being_handed_off_stays(store: Store):
    session = await opened(store)
    await store.request_handoff(session.id, Platform.WEB, home=ROOM)
    found = await store.bindings.enter(TOPIC, "me")
    assert isinstance(found, Elsewhere)
    assert (found.session.id, found.holder) == (session.id, None)


async def test_only_its_owner_enters_a_door(store: Store):
    session = await opened(store)
    await store.owners.ensure("you")
    assert await store.bindings.enter(TOPIC, "you") is None
    assert await where(store, session) == DESK


async def test_an_ended_session_is_not_brought_back(store: Store):
    session = await opened(store)
    await store.sessions.end(session.id, EndReason.CLOSED)
    assert await store.bindings.enter(TOPIC, "me") is None
    assert await where(store, session) is None


async def test_a_chat_itself_is_no_door(store: Store):
    session = await opened(store, DM)
    assert await store.doors.get(DM) is None
    assert await store.bindings.enter(DM, "me") is None
    assert await where(store, session) == DESK


async def test_a_door_belongs_to_the_last_session_there(store: Store):
    await opened(store)
    second = await opened(store)
    assert await store.bindings.enter(TOPIC, "me") is None
    assert await where(store, second) == TOPIC


async def test_a_door_knows_the_last_message_before_the_session_left(store: Store):
    session = await store.sessions.create("me", Platform.LOCAL)
    await store.bindings.rebind(session.id, TOPIC, Origin.HANDOFF)
    await say(store, session.id, said("one"), answered("two"))
    there = await store.doors.get(TOPIC)
    assert there is not None
    assert there.seq is None
    await store.bindings.rebind(session.id, DESK, Origin.RESUME)
    left = await store.doors.get(TOPIC)
    assert left is not None
    assert left.seq == 2


async def test_the_newest_door_in_the_chat_is_found(store: Store, clock: FakeClock):
    session = await opened(store)
    clock.advance(1)
    await store.bindings.rebind(session.id, OTHER_TOPIC, Origin.HANDOFF)
    clock.advance(1)
    await store.bindings.rebind(session.id, TOPIC, Origin.RESUME)
    newest = await store.doors.newest(session.id, replace(TOPIC, thread_id=None))
    assert newest is not None
    assert newest.address == OTHER_TOPIC
    assert await store.doors.newest(session.id, DM) is None


async def test_doors_go_with_their_session(store: Store):
    session = await opened(store)
    await store.sessions.delete(session.id)
    assert await store.doors.get(TOPIC) is None


async def test_a_request_says_whether_a_new_thread_is_wanted(store: Store):
    session = await store.sessions.create("me", Platform.LOCAL)
    plain = await store.request_handoff(session.id, Platform.WEB)
    assert plain.new_thread is False
    await store.cancel_handoff(plain.id, None)
    wanted = await store.request_handoff(session.id, Platform.WEB, new_thread=True)
    assert wanted.new_thread is True
