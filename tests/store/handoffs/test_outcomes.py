"""Handoffs in the store: completing, failing and cancelling one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from segue.core.address import Platform
from segue.core.errors import SessionError, SessionMoved
from segue.core.session import Origin, Session, Usage
from segue.core.text import REASON_LIMIT
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import LEASE_SECONDS
from segue.handoffs.values import REASONS, Failure, State, Step
from segue.store import Store, bindings, deliveries, leases, outbox, sessions, transcripts
from segue.store.outbox import OutgoingState
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.handoffs.samples import (
    TELEGRAM,
    claimed,
    state,
)
from tests.store.samples import (
    CHANNEL,
    DM,
    ODD,
    TOPIC,
    answered,
    called,
    draft,
    hold,
    result,
    said,
    say,
    texts,
)

# Finishing


async def test_completing_moves_the_session_and_stores_its_messages_in_one_transaction(
    store: Store, session: Session, clock: FakeClock
):
    lease = await hold(store, session.id, said("fix the tests"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    claim = await handoffs.claim(store, asked.id)
    assert claim is not None
    clock.advance(2)
    done = await handoffs.complete(
        store,
        claim,
        address=TOPIC,
        messages=[answered("I am here now."), answered("We were fixing the tests.")],
        usage=Usage(input=100, output=20, cached=5),
        drafts=[draft("1", TOPIC, "the recap"), draft("2", TOPIC, "the reply")],
    )
    assert done is not None
    assert (done.handoff.state, done.handoff.finished) == (State.COMPLETED, clock.now())
    assert (done.handoff.thread, done.displaced) == (TOPIC, None)
    assert await state(store, session.id) == done.handoff
    moved = await sessions.get(store, session.id)
    assert moved is not None
    assert (moved.address, moved.messages) == (TOPIC, 3)
    assert moved.usage == Usage(input=100, output=20, cached=5)
    binding = await bindings.get(store, TOPIC)
    assert binding is not None
    assert (binding.session_id, binding.origin) == (session.id, Origin.HANDOFF)
    assert texts(await transcripts.load(store, session.id)) == [
        "fix the tests",
        "I am here now.",
        "We were fixing the tests.",
    ]
    (first,) = await deliveries.claim(store, {TELEGRAM})
    assert first.body == "the recap"
    second = await outbox.get(store, "2")
    assert second is not None
    assert second.state is OutgoingState.QUEUED
    assert await leases.get(store, session.id) is None


async def test_after_completing_the_old_terminal_learns_where_the_session_is(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    gateway = await open_store()
    claim = await handoffs.claim(gateway, asked.id)
    assert claim is not None
    assert await handoffs.complete(gateway, claim, address=TOPIC)
    with pytest.raises(
        SessionMoved, match="it is on telegram group -100200, thread 7 now"
    ) as caught:
        await transcripts.append(store, lease, [said("still here?")])
    assert f"segue resume {session.id}" in str(caught.value)
    later = await leases.acquire(gateway, session.id, "a gateway")
    assert later.epoch > lease.epoch + 1


async def test_the_session_keeps_its_id_its_directory_and_its_transcript(
    store: Store, session: Session
):
    call = called("shell")
    before = (said("list the files"), call, result(call.tool_calls[0], "a.py"), answered("a.py"))
    await say(store, session.id, *before)
    claim = await claimed(store, session.id)
    await handoffs.complete(store, claim, address=TOPIC, messages=[answered("here")])
    moved = await sessions.get(store, session.id)
    assert moved is not None
    assert (moved.id, moved.owner) == (session.id, session.owner)
    assert (moved.cwd, moved.source, moved.started, moved.ended) == (
        "/home/me/project",
        Platform.LOCAL,
        session.started,
        None,
    )
    after = await transcripts.load(store, session.id)
    assert [m.tool_calls for m in after] == [m.tool_calls for m in (*before, answered(""))]
    assert texts(after) == ["list the files", "", "a.py", "a.py", "here"]


async def test_a_session_moves_on_from_one_chat_to_another(store: Store, session: Session):
    await handoffs.complete(store, await claimed(store, session.id), address=TOPIC)
    asked = await handoffs.request(store, session.id, Platform.SLACK)
    claim = await handoffs.claim(store, asked.id)
    assert claim is not None
    assert await handoffs.complete(store, claim, address=CHANNEL)
    assert await bindings.get(store, TOPIC) is None
    binding = await bindings.get(store, CHANNEL)
    assert binding is not None
    assert binding.session_id == session.id


async def test_the_session_that_was_live_there_is_set_aside_not_ended(
    store: Store, session: Session
):
    there = await sessions.create(store, "me", TELEGRAM, title="chat at home")
    await say(store, there.id, said("keep me"))
    await bindings.rebind(store, there.id, DM, Origin.MESSAGE)
    done = await handoffs.complete(store, await claimed(store, session.id), address=DM)
    assert done is not None
    assert done.displaced == there.id
    aside = await sessions.find(store, "me", "chat at home")
    assert (aside.ended, aside.end_reason, aside.address) == (None, None, None)
    assert texts(await transcripts.load(store, there.id)) == ["keep me"]


async def test_completing_where_it_already_is_displaces_no_session(store: Store, session: Session):
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    done = await handoffs.complete(store, await claimed(store, session.id), address=DM)
    assert done is not None
    assert done.displaced is None
    assert (await sessions.find(store, "me", session.id)).address == DM


async def test_a_reason_longer_than_500_characters_is_truncated(store: Store, session: Session):
    claim = await claimed(store, session.id)
    assert await handoffs.fail(store, claim, "x" * 5_000)
    error = (await state(store, session.id)).error
    assert error == "x" * (REASON_LIMIT - 1) + "…"
    asked = await handoffs.request(store, session.id, TELEGRAM)
    assert await handoffs.cancel(store, asked.id, "y" * REASON_LIMIT)
    assert (await state(store, session.id)).error == "y" * REASON_LIMIT


async def test_any_text_can_be_a_reason(store: Store, session: Session):
    for reason, kept in (("", ""), (ODD, "a\ufffdb\ufffdc"), ("Ärger ☹", "Ärger ☹")):
        assert await handoffs.fail(store, await claimed(store, session.id), reason)
        assert (await state(store, session.id)).error == kept


async def test_only_the_newest_claim_can_complete_or_fail_a_handoff(
    store: Store, session: Session, clock: FakeClock
):
    stale = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    newest = await handoffs.claim(store, stale.id)
    assert newest is not None
    for fence in (0, stale.fence, newest.fence + 1):
        forged = structs.replace(newest, fence=fence)
        assert await handoffs.complete(store, forged, address=TOPIC) is None
        assert not await handoffs.fail(store, forged, "not mine to say")
        assert not await handoffs.heartbeat(store, forged)
        assert not await handoffs.record_step(store, forged, Step.DELIVERING, thread=CHANNEL)
    assert await state(store, session.id) == newest
    assert await bindings.get(store, TOPIC) is None


async def test_a_gateway_that_completes_after_losing_its_claim_changes_nothing(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    stopped, other = await open_store(), await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    late = await handoffs.claim(stopped, asked.id)
    assert late is not None
    clock.advance(LEASE_SECONDS)
    assert await handoffs.claim(other, asked.id)
    before = await sessions.get(store, session.id)
    done = await handoffs.complete(
        stopped,
        late,
        address=TOPIC,
        messages=[answered("a ghost")],
        usage=Usage(input=1),
        drafts=[draft("ghost", TOPIC)],
    )
    assert done is None
    assert await bindings.get(store, TOPIC) is None
    assert await outbox.get(store, "ghost") is None
    assert await sessions.get(store, session.id) == before
    assert texts(await transcripts.load(store, session.id)) == ["hello"]
    assert await transcripts.append(store, lease, [said("my epoch still counts")]) == 2


async def test_a_gateway_that_completes_after_another_one_changes_nothing(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    late = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    newest = await handoffs.claim(other, late.id)
    assert newest is not None
    await handoffs.complete(other, newest, address=TOPIC, messages=[answered("here")])
    assert (
        await handoffs.complete(store, late, address=CHANNEL, messages=[answered("me too")]) is None
    )
    assert not await handoffs.fail(store, late, "too late")
    assert (await state(store, session.id)).state is State.COMPLETED
    assert await bindings.get(store, CHANNEL) is None
    assert texts(await transcripts.load(store, session.id)) == ["here"]


async def test_completing_fails_and_changes_nothing_when_the_terminal_has_appended(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    claim = await handoffs.claim(gateway, asked.id)
    assert claim is not None
    await transcripts.append(store, lease, [said("one more thing")])
    with pytest.raises(SessionError, match="continued elsewhere during the handoff"):
        await handoffs.complete(
            gateway, claim, address=TOPIC, messages=[answered("x")], drafts=[draft("x", TOPIC)]
        )
    await unmoved(store, session, ["hello", "one more thing"])
    assert await transcripts.append(store, lease, [said("and another")]) == 3
    assert await handoffs.fail(gateway, claim, "it went on")


async def test_completing_fails_and_changes_nothing_after_a_takeover(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    claim = await handoffs.claim(gateway, asked.id)
    assert claim is not None
    mine = await leases.acquire(store, session.id, "a terminal on sofa", take_over=True)
    with pytest.raises(SessionError, match="continued elsewhere during the handoff"):
        await handoffs.complete(
            gateway, claim, address=TOPIC, messages=[answered("x")], drafts=[draft("x", TOPIC)]
        )
    await unmoved(store, session, ["hello"])
    assert await transcripts.append(store, mine, [said("I go on")]) == 2


async def unmoved(store: Store, session: Session, said: list[str]) -> None:
    """Check that a refused commit left nothing behind."""
    assert (await state(store, session.id)).state is State.RUNNING
    assert (await state(store, session.id)).thread is None
    assert await bindings.get(store, TOPIC) is None
    assert await outbox.get(store, "x") is None
    assert texts(await transcripts.load(store, session.id)) == said


async def test_a_commit_that_fails_at_its_last_step_is_rolled_back(store: Store, session: Session):
    await say(store, session.id, said("hello"))
    claim = await claimed(store, session.id)
    broken = structs.replace(draft("y", TOPIC), body=None)
    with pytest.raises((AttributeError, TypeError)):
        await handoffs.complete(
            store,
            claim,
            address=TOPIC,
            messages=[answered("x")],
            drafts=[draft("x", TOPIC), broken],
        )
    await unmoved(store, session, ["hello"])
    assert await handoffs.complete(store, claim, address=TOPIC, messages=[answered("now")])


# Cancelling


async def test_a_cancelled_request_shows_as_failed_with_its_reason(
    store: Store, session: Session, clock: FakeClock
):
    asked = await handoffs.request(store, session.id, TELEGRAM)
    assert await handoffs.cancel(store, asked.id)
    over = await state(store, session.id)
    assert (over.state, over.failure) == (State.FAILED, Failure.CANCELLED)
    assert (over.error, over.finished) == (REASONS[Failure.CANCELLED], clock.now())
    assert await handoffs.claim(store, asked.id) is None
    assert not await handoffs.cancel(store, asked.id)


async def test_a_commit_after_cancelling_a_running_handoff_is_rolled_back(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    claim = await handoffs.claim(gateway, asked.id)
    assert claim is not None
    assert await handoffs.cancel(store, asked.id, "I stay.")
    assert not await handoffs.heartbeat(gateway, claim)
    assert not await handoffs.record_step(gateway, claim, Step.REPLYING)
    done = await handoffs.complete(
        gateway, claim, address=TOPIC, messages=[answered("x")], drafts=[draft("x", TOPIC)]
    )
    assert done is None
    over = await state(store, session.id)
    assert (over.state, over.error, over.thread) == (State.FAILED, "I stay.", None)
    assert await bindings.get(store, TOPIC) is None
    assert await outbox.get(store, "x") is None
    assert await transcripts.append(store, lease, [said("going on")]) == 2


async def test_cancelling_after_the_commit_changes_nothing(store: Store, session: Session):
    claim = await claimed(store, session.id)
    done = await handoffs.complete(store, claim, address=TOPIC)
    assert done is not None
    assert not await handoffs.cancel(store, claim.id)
    assert await state(store, session.id) == done.handoff
    assert (await sessions.find(store, "me", session.id)).address == TOPIC


async def test_of_cancel_and_complete_exactly_one_wins(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    for turn in range(20):
        asked = await handoffs.request(store, session.id, TELEGRAM)
        claim = await handoffs.claim(gateway, asked.id)
        assert claim is not None
        before = len(await transcripts.load(store, session.id))
        tries = [
            handoffs.complete(gateway, claim, address=TOPIC, messages=[answered("here")]),
            handoffs.cancel(store, asked.id),
        ]
        outcomes = await asyncio.gather(*(reversed(tries) if turn % 2 else tries))
        assert len([won for won in outcomes if won]) == 1
        completed = (await state(store, session.id)).state is State.COMPLETED
        assert len(await transcripts.load(store, session.id)) == before + completed
