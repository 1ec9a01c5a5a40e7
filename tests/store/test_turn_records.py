"""The transactions of a turn, on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from segue.core.address import Address, Platform
from segue.core.errors import SessionError, SessionMoved
from segue.core.session import Lease, Session, Usage
from segue.core.transcript import Message
from segue.store import Store, deliveries, inbox, leases, sessions, transcripts
from segue.turns import queries
from tests.store import samples
from tests.store.conftest import OpenStore
from tests.store.samples import AT, DM, TOPIC, answered, called, hold, result, said, texts


async def begin(store: Store, lease: Lease, message: Message, *inbox_ids: int) -> None:
    await store.write(queries.begin, lease, message, inbox_ids, AT)


async def add(
    store: Store,
    lease: Lease,
    message: Message,
    inbox_ids: Sequence[int] = (),
    deliver_to: Address | None = None,
) -> None:
    await store.write(
        queries.add, lease, message, Usage(), inbox_ids=inbox_ids, deliver_to=deliver_to
    )


async def record(store: Store, update_id: str = "1") -> int:
    number = await inbox.record(store, "bot", update_id, DM, "hello")
    assert number is not None
    return number


async def test_a_stale_answer_is_not_stored_and_finishes_no_inbox_entry(
    store: Store, session: Session, open_store: OpenStore
):
    entry = await record(store)
    stale = await hold(store, session.id)
    await leases.acquire(await open_store(), session.id, "another", take_over=True)
    with pytest.raises(SessionMoved):
        await add(store, stale, answered("hello"), [entry], DM)
    assert texts(await transcripts.load(store, session.id)) == []
    assert [waiting.no for waiting in await inbox.waiting(store)] == [entry]
    assert await samples.waiting(store, DM) == 0


async def test_an_answer_finishes_its_inbox_entries_and_a_tool_call_does_not(
    store: Store, session: Session
):
    first, second = await record(store), await record(store, "2")
    lease = await hold(store, session.id)
    await begin(store, lease, said("hello"), first)
    (call,) = called("shell").tool_calls
    for message in (called("shell"), result(call)):
        await add(store, lease, message, [first], DM)
        assert [waiting.no for waiting in await inbox.waiting(store)] == [first, second]
    await add(store, lease, answered("hi"), [first], DM)
    assert [waiting.no for waiting in await inbox.waiting(store)] == [second]


async def test_a_taken_inbox_entry_waits_for_its_answer_in_its_session(
    store: Store, session: Session
):
    taken, other = await record(store), await record(store, "2")
    lease = await hold(store, session.id)
    await begin(store, lease, said("0"), taken)
    waiting = await inbox.waiting(store)
    assert [(i.no, i.session_id) for i in waiting] == [(taken, session.id), (other, None)]
    await add(store, lease, answered("hi"), [taken])
    assert [(i.no, i.session_id) for i in await inbox.waiting(store)] == [(other, None)]


async def test_an_inbox_entry_is_taken_by_one_session_only(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    entry, late = await record(store), await record(store, "2")
    leases = [await hold(store, session.id), await hold(store, other.id)]
    outcomes = await asyncio.gather(
        *(begin(store, lease, said("hello"), entry) for lease in leases), return_exceptions=True
    )
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, SessionError)]
    assert "already being answered" in str(refused)
    said_in = [len(await transcripts.load(store, s.id)) for s in (session, other)]
    assert sorted(said_in) == [0, 1]
    await inbox.finish(store, [late])
    for lease in leases:
        for number in (entry, late, 999):
            with pytest.raises(SessionError, match="already being answered"):
                await begin(store, lease, said("again"), number)
    assert [len(await transcripts.load(store, s.id)) for s in (session, other)] == said_in


async def test_a_stale_start_takes_no_inbox_entry(
    store: Store, session: Session, open_store: OpenStore
):
    entry = await record(store)
    stale = await hold(store, session.id)
    await leases.acquire(await open_store(), session.id, "another", take_over=True)
    with pytest.raises(SessionMoved):
        await begin(store, stale, said("hi"), entry)
    (incoming,) = await inbox.waiting(store)
    assert incoming.session_id is None


async def test_only_visible_text_of_the_agent_is_queued(store: Store, session: Session):
    lease = await hold(store, session.id, said("before"))
    (call,) = called("shell").tool_calls
    both = msgspec.structs.replace(called("shell"), content="I look.")
    for message in (both, result(call), answered(" \n\u200b"), answered("**Here** it is.\n")):
        await add(store, lease, message, deliver_to=TOPIC)
    assert await samples.waiting(store, TOPIC) == 2
    for seq, body in ((2, "I look."), (5, "**Here** it is.\n")):
        (outgoing,) = await deliveries.claim(store, [Platform.TELEGRAM])
        assert (outgoing.key, outgoing.body) == (f"{session.id}/{seq}", body)
        assert (outgoing.address, outgoing.session_id) == (TOPIC, session.id)
        await deliveries.sent(store, outgoing)
