"""Doors: threads that were opened for a session, and messages there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import AddressTaken, SessionElsewhere
from segue.core.reset import ResetPolicy
from segue.core.session import EndReason, Origin, Session
from segue.handoffs import queries as handoffs
from segue.store import Store, Tx, bindings, doors, outbox, owners, sessions
from segue.store.bindings import RESUME, Elsewhere
from segue.testing.clock import FakeClock
from tests.store.samples import DM, ROOM, TOPIC, answered, hold, said, say
from tests.store.test_upgrade import knows

DESK = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="desk")
OTHER_TOPIC = replace(TOPIC, thread_id="99")


async def opened(store: Store, address: Address = TOPIC) -> Session:
    """A session that was at this address and went to the terminal."""
    session = await sessions.create(store, "me", Platform.LOCAL, title="Boat")
    await bindings.rebind(store, session.id, address, Origin.HANDOFF)
    await bindings.rebind(store, session.id, DESK, Origin.RESUME)
    return session


async def where(store: Store, session: Session) -> Address | None:
    found = await sessions.get(store, session.id)
    assert found is not None
    return found.address


async def test_a_message_at_a_door_brings_the_session_back(store: Store):
    session = await opened(store)
    assert await bindings.enter(store, TOPIC, "me") is None
    assert await where(store, session) == TOPIC
    bound = await bindings.resolve(store, TOPIC, "me", policy=ResetPolicy(), zone=UTC)
    assert (bound.session.id, bound.created) == (session.id, False)


async def test_a_held_session_stays_and_the_caller_learns_where_it_is(store: Store):
    session = await opened(store)
    await hold(store, session.id)
    found = await bindings.enter(store, TOPIC, "me")
    assert isinstance(found, Elsewhere)
    assert (found.session.id, found.holder is None) == (session.id, False)
    assert await where(store, session) == DESK


async def test_a_session_that_is_being_handed_off_stays(store: Store):
    session = await opened(store)
    await handoffs.request(store, session.id, Platform.WEB, home=ROOM)
    found = await bindings.enter(store, TOPIC, "me")
    assert isinstance(found, Elsewhere)
    assert (found.session.id, found.holder) == (session.id, None)


async def test_only_its_owner_can_use_a_door(store: Store):
    session = await opened(store)
    await owners.ensure(store, "you")
    assert await bindings.enter(store, TOPIC, "you") is None
    assert await where(store, session) == DESK


async def test_an_ended_session_is_not_brought_back(store: Store):
    session = await opened(store)
    await sessions.end(store, session.id, EndReason.CLOSED)
    assert await bindings.enter(store, TOPIC, "me") is None
    assert await where(store, session) is None


async def test_a_message_at_the_door_of_a_held_session_creates_nothing(store: Store):
    session = await opened(store)
    await hold(store, session.id)
    with pytest.raises(SessionElsewhere) as elsewhere:
        await bindings.resolve(store, TOPIC, "me", policy=ResetPolicy(), zone=UTC)
    assert re.fullmatch(
        r"“Boat” has been open in a terminal on desk since \d\d:\d\d\. Type /resume Boat to bring"
        r" it here, or /new to start a new conversation\.",
        str(elsewhere.value),
    )
    assert await sessions.list_sessions(store, "me") == (await sessions.get(store, session.id),)


async def test_another_owner_cannot_bind_a_session_at_a_door(store: Store):
    session = await opened(store)
    await owners.ensure(store, "you")
    with pytest.raises(AddressTaken):
        await bindings.resolve(store, TOPIC, "you", policy=ResetPolicy(), zone=UTC)
    theirs = await sessions.create(store, "you", Platform.LOCAL)
    with pytest.raises(AddressTaken):
        await bindings.rebind(store, theirs.id, TOPIC, Origin.RESUME)
    door = await doors.get(store, TOPIC)
    assert door is not None
    assert door.session_id == session.id


async def test_the_notice_that_a_new_session_answers_is_queued_in_the_same_transaction(
    store: Store,
):
    session = await opened(store, DM)
    bound = await bindings.resolve(store, DM, "me", policy=ResetPolicy(), zone=UTC)
    notice = await outbox.get(store, f"new:{bound.session.id}")
    assert notice is not None
    assert notice.body == (
        "A new session answers here from now on. “Boat” is in the terminal: type /resume Boat to"
        " bring it back here."
    )
    assert notice.buttons == (("Bring back Boat", f"{RESUME}:{session.id}"),)


async def test_a_chat_that_moved_knows_the_session_that_was_there(store: Store):
    session = await opened(store, DM)
    await bindings.chat_moved(store, DM, ROOM)
    bound = await bindings.resolve(store, ROOM, "me", policy=ResetPolicy(), zone=UTC)
    notice = await outbox.get(store, f"new:{bound.session.id}")
    assert notice is not None
    assert notice.buttons == (("Bring back Boat", f"{RESUME}:{session.id}"),)


async def test_a_chat_itself_is_not_a_door(store: Store):
    session = await opened(store, DM)
    assert await doors.get(store, DM) is None
    assert await bindings.enter(store, DM, "me") is None
    assert await where(store, session) == DESK


async def test_a_door_belongs_to_the_last_session_there(store: Store):
    await opened(store)
    second = await opened(store)
    assert await bindings.enter(store, TOPIC, "me") is None
    assert await where(store, second) == TOPIC


async def test_a_door_knows_the_last_message_before_the_session_left(store: Store):
    session = await sessions.create(store, "me", Platform.LOCAL)
    await bindings.rebind(store, session.id, TOPIC, Origin.HANDOFF)
    await say(store, session.id, said("one"), answered("two"))
    there = await doors.get(store, TOPIC)
    assert there is not None
    assert there.seq is None
    await bindings.rebind(store, session.id, DESK, Origin.RESUME)
    left = await doors.get(store, TOPIC)
    assert left is not None
    assert left.seq == 2


async def test_the_newest_door_in_the_chat_is_found(store: Store, clock: FakeClock):
    session = await opened(store)
    clock.advance(1)
    await bindings.rebind(store, session.id, OTHER_TOPIC, Origin.HANDOFF)
    clock.advance(1)
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    newest = await doors.newest(store, session.id, replace(TOPIC, thread_id=None))
    assert newest is not None
    assert newest.address == OTHER_TOPIC
    assert await doors.newest(store, session.id, DM) is None


async def test_doors_are_deleted_with_their_session(store: Store):
    session = await opened(store)
    await sessions.delete(store, session.id)
    assert await doors.get(store, TOPIC) is None


async def test_a_request_says_whether_a_new_thread_is_wanted(store: Store):
    session = await sessions.create(store, "me", Platform.LOCAL)
    plain = await handoffs.request(store, session.id, Platform.WEB)
    assert plain.new_thread is False
    await handoffs.cancel(store, plain.id, None)
    wanted = await handoffs.request(store, session.id, Platform.WEB, new_thread=True)
    assert wanted.new_thread is True


# Earlier versions


async def test_threads_of_older_stores_become_doors(
    url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The first session is at its topic. The second has left a topic and a chat, and the topic
    was opened for the third before."""

    def fill(tx: Tx) -> None:
        for no in (1, 2, 3):
            tx.insert("sessions", id=f"s{no}", owner="me", source="local", started=1, active=1)
        number = tx.one("SELECT min(no) FROM sessions")[0] - 1
        address = {"address": TOPIC.key, "session_no": number + 1}
        tx.insert("bindings", **address, origin="handoff", version=1, bound=5)
        for key, (no, thread, state) in enumerate(
            (
                (2, TOPIC, "completed"),
                (3, OTHER_TOPIC, "completed"),
                (2, OTHER_TOPIC, "completed"),
                (2, DM, "completed"),
                (3, OTHER_TOPIC, "failed"),
            )
        ):
            tx.insert(
                "handoffs",
                session_no=number + no,
                key=str(key),
                platform="telegram",
                epoch=1,
                seq=4,
                state=state,
                claim_by=0,
                requested=1,
                finished=10 + key,
                thread=thread.key,
                error="no" if state == "failed" else None,
                failure="error" if state == "failed" else None,
            )

    before = knows(11, tmp_path, monkeypatch)
    async with await segue.store.open(url, clock=clock) as old:
        await owners.ensure(old, "me", "Me")
        await old.write(fill)
    before.over()
    async with await segue.store.open(url, clock=clock) as new:
        here, left = await doors.get(new, TOPIC), await doors.get(new, OTHER_TOPIC)
        assert here is not None
        assert (here.session_id, here.seq) == ("s1", None)
        assert left is not None
        assert (left.session_id, left.seq) == ("s2", 4)
        assert await new.read(doors.last, DM) is None, "it may have had another session since"
        assert await bindings.enter(new, OTHER_TOPIC, "me") is None
        bound = await bindings.get(new, OTHER_TOPIC)
        assert bound is not None
        assert bound.session_id == "s2"
        await bindings.rebind(new, "s1", DESK, Origin.RESUME)
        there = await doors.get(new, TOPIC)
        assert there is not None
        assert there.session_id == "s1"
