"""Handoffs in the store: failures seen elsewhere, the next attempt, and notices to users."""

from __future__ import annotations

import pytest

from segue.core.address import Platform
from segue.core.errors import HandoffError, SessionMoved
from segue.core.handoff import (
    Handoff,
    State,
    Step,
)
from segue.core.session import EndReason, Origin, Session
from segue.store import Store, bindings, leases, outbox, sessions, transcripts
from segue.store.handoffs import CLAIM_SECONDS, LEASE_SECONDS
from segue.store.outbox import Draft, Outgoing, OutgoingState
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
    TOPIC,
    answered,
    hold,
    said,
    say,
    texts,
)

# How handoff fails elsewhere


async def test_failure_1_a_leaving_terminal_cannot_close_the_session_it_gave_away(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    gateway = await open_store()
    claim = await gateway.claim_handoff(asked.id)
    assert claim is not None
    assert await gateway.complete_handoff(claim, address=TOPIC)
    with pytest.raises(SessionMoved):
        await sessions.end(store, session.id, EndReason.CLOSED, lease=lease)
    assert not await leases.release(store, lease)
    binding = await bindings.get(gateway, TOPIC)
    assert binding is not None
    assert binding.session_id == session.id
    alive = await sessions.get(gateway, session.id)
    assert alive is not None
    assert alive.ended is None
    assert texts(await transcripts.load(gateway, session.id)) == ["hello"]


async def test_failure_3_a_terminal_that_gives_up_late_and_the_gateway_never_both_write(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    claim = await gateway.claim_handoff(asked.id, seconds=120)
    assert claim is not None
    clock.advance(61)
    assert await store.cancel_handoff(asked.id)
    assert (
        await gateway.complete_handoff(claim, address=TOPIC, messages=[answered("me too")])
    ) is None
    lease = await leases.renew(store, lease)
    await transcripts.append(store, lease, [said("I stayed")])
    assert texts(await transcripts.load(store, session.id)) == ["hello", "I stayed"]


async def test_failure_4_a_gateway_killed_after_the_claim_does_not_leave_it_running_forever(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await claimed(await open_store(), session.id)
    with pytest.raises(HandoffError, match="already being handed off"):
        await store.request_handoff(session.id, TELEGRAM)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    again = await store.request_handoff(session.id, TELEGRAM)
    assert again.state is State.PENDING


async def test_failure_5_a_gateway_started_later_does_not_execute_a_ghost(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await store.request_handoff(session.id, TELEGRAM)  # then Ctrl-C, without a cancellation
    clock.advance(3600)
    gateway = await open_store()
    assert await gateway.list_pending_handoffs() == ()
    assert await gateway.claim_next_handoff({TELEGRAM}) is None
    assert (await state(gateway, session.id)).state is State.FAILED


async def test_failure_6_when_sending_fails_nothing_has_moved_and_a_retry_binds_one_chat(
    store: Store, session: Session
):
    await say(store, session.id, said("hello"))
    claim = await claimed(store, session.id)
    await store.record_handoff_step(claim, Step.DELIVERING, thread=TOPIC)
    assert await store.fail_handoff(claim, "telegram does not answer")
    assert await bindings.list_bindings(store, "me") == ()
    assert texts(await transcripts.load(store, session.id)) == ["hello"]
    retried = await claimed(store, session.id)
    assert await store.complete_handoff(retried, address=DM)
    assert [binding.address for binding in await bindings.list_bindings(store, "me")] == [DM]


async def test_failure_8_a_session_with_no_message_yet_can_be_handed_off(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    assert await store.complete_handoff(claim, address=TOPIC, messages=[answered("I am here.")])
    assert texts(await transcripts.load(store, session.id)) == ["I am here."]


async def test_failure_10_a_handed_off_session_does_not_vanish_from_the_list(
    store: Store, session: Session
):
    assert await store.complete_handoff(await claimed(store, session.id), address=TOPIC)
    (listed,) = await sessions.list_sessions(store, "me")
    assert (listed.id, listed.address) == (session.id, TOPIC)
    assert await sessions.list_sessions(store, "me", platform=TELEGRAM) == (listed,)
    assert await sessions.find(store, "me", "latest") == listed


async def test_failure_13_the_working_directory_is_carried_over(store: Store, session: Session):
    lease = await hold(store, session.id)
    await sessions.describe(store, lease, cwd="/home/me/elsewhere", model="some-model")
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    claim = await store.claim_handoff(asked.id)
    assert claim is not None
    assert await store.complete_handoff(claim, address=TOPIC)
    moved = await sessions.get(store, session.id)
    assert moved is not None
    assert (moved.cwd, moved.model) == ("/home/me/elsewhere", "some-model")


# The next attempt, and lists for users


async def test_the_reply_of_the_agent_is_kept_for_the_next_attempt(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    claim = await claimed(store, session.id)
    assert claim.reply is None
    reply = '[{"content": "I am here. ✓\\u0000"}]'.encode()
    assert await store.record_handoff_step(claim, Step.REPLYING, reply=reply)
    assert await store.record_handoff_step(claim, Step.DELIVERING, thread=TOPIC)
    clock.advance(LEASE_SECONDS)
    again = await (await open_store()).claim_handoff(claim.id)
    assert again is not None
    assert (again.reply, again.step, again.thread) == (reply, Step.DELIVERING, TOPIC)
    assert not await store.record_handoff_step(claim, Step.REPLYING, reply=b"a late one")
    assert (await state(store, session.id)).reply == reply


async def test_an_orphaned_handoff_expires_within_25_seconds(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await claimed(store, session.id)
    other = await open_store()
    clock.advance(24.999)
    assert await other.expire_handoffs() == 0
    clock.advance(0.001)
    assert await other.expire_handoffs() == 1


async def test_handoffs_of_all_sessions_are_listed_the_newest_first(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    first = await claimed(store, session.id)
    await store.fail_handoff(first, "no")
    second = await store.request_handoff(other.id, Platform.SLACK)
    third = await claimed(store, session.id)
    assert [h.id for h in await store.recent_handoffs(10)] == [third.id, second.id, first.id]
    assert await store.recent_handoffs(1) == (third,)
    assert await store.in_flight() == (second, third)
    await store.cancel_handoff(second.id)
    await store.complete_handoff(third, address=TOPIC)
    assert await store.in_flight() == ()
    assert len(await store.recent_handoffs()) == 3


# Threads that the session did not reach


async def stayed(store: Store, handoff: Handoff) -> Outgoing | None:
    return await outbox.get(store, f"handoff:{handoff.id}:stayed")


async def opened(store: Store, session_id: str) -> Handoff:
    """A handoff for which a thread was opened."""
    claim = await claimed(store, session_id)
    assert await store.record_handoff_step(claim, Step.REPLYING, thread=TOPIC)
    return claim


async def test_a_thread_is_notified_that_the_session_stayed_when_the_handoff_fails(
    store: Store, session: Session
):
    claim = await opened(store, session.id)
    assert await store.fail_handoff(claim, "The model is away. Type /model.")
    notice = await stayed(store, claim)
    assert notice is not None
    assert (notice.address, notice.session_id, notice.state) == (
        TOPIC,
        session.id,
        OutgoingState.QUEUED,
    )
    assert notice.body == (
        "The session stayed where it was, in the terminal: the handoff failed. The model is away."
    )


async def test_a_thread_is_notified_that_the_session_stayed_when_it_is_cancelled_or_expires(
    store: Store, session: Session, clock: FakeClock
):
    claim = await opened(store, session.id)
    assert await store.cancel_handoff(claim.id)
    notice = await stayed(store, claim)
    assert notice is not None
    assert notice.body.endswith("the handoff failed. Cancelled.")
    claim = await opened(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    assert await store.expire_handoffs() == 1
    notice = await stayed(store, claim)
    assert notice is not None
    assert "The gateway stopped during the handoff" in notice.body


async def test_a_thread_that_was_still_being_opened_is_notified_that_the_session_stayed(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    assert await store.cancel_handoff(claim.id)
    assert await stayed(store, claim) is None
    assert not await store.record_handoff_step(claim, Step.REPLYING, thread=TOPIC)
    notice = await stayed(store, claim)
    assert notice is not None
    assert notice.address == TOPIC
    assert notice.body.endswith("the handoff failed. Cancelled.")


async def test_a_gateway_whose_handoff_another_continues_does_not_notify_the_thread(
    store: Store, session: Session, clock: FakeClock
):
    claim = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    assert await store.claim_handoff(claim.id)
    assert not await store.record_handoff_step(claim, Step.REPLYING, thread=TOPIC)
    assert await stayed(store, claim) is None


async def test_a_thread_is_notified_that_the_session_stayed_when_it_is_requested_again(
    store: Store, session: Session, clock: FakeClock
):
    claim = await opened(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    assert await store.request_handoff(session.id, TELEGRAM)
    assert await stayed(store, claim)


async def test_the_notice_in_the_thread_names_the_chat_in_which_the_session_stayed(
    store: Store, session: Session
):
    await bindings.rebind(store, session.id, CHANNEL, Origin.MESSAGE)
    claim = await opened(store, session.id)
    await store.fail_handoff(claim, "")
    notice = await stayed(store, claim)
    assert notice is not None
    assert f"stayed where it was, on {CHANNEL}: " in notice.body


async def test_without_a_thread_there_is_no_notice_that_the_session_stayed(
    store: Store, session: Session, clock: FakeClock
):
    failed = await claimed(store, session.id)
    await store.fail_handoff(failed, "no")
    cancelled = await store.request_handoff(session.id, TELEGRAM)
    await store.cancel_handoff(cancelled.id)
    expired = await store.request_handoff(session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS)
    await store.expire_handoffs()
    for handoff in (failed, cancelled, expired):
        assert await stayed(store, handoff) is None


@pytest.mark.parametrize("begun", [False, True])
async def test_the_own_thread_of_a_session_is_notified_only_if_its_return_may_be_shown_there(
    store: Store, session: Session, begun: bool
):
    await bindings.rebind(store, session.id, TOPIC, Origin.MESSAGE)
    await bindings.rebind(store, session.id, CHANNEL, Origin.MESSAGE)
    claim = await opened(store, session.id)
    await outbox.enqueue(store, Draft(key=claim.return_key, address=TOPIC, body="It is back."))
    for earlier in await outbox.claim(store, [TELEGRAM]):  # the thread hears that the session left
        await outbox.sent(store, earlier)
    if begun:
        await outbox.claim(store, [TELEGRAM])
    await store.fail_handoff(claim, "no")
    assert (await outbox.get(store, claim.return_key) is not None) == begun
    assert (await stayed(store, claim) is not None) == begun


async def test_a_completed_handoff_posts_no_notice_that_the_session_stayed(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    stale = await opened(store, session.id)
    clock.advance(LEASE_SECONDS)
    other = await open_store()
    newest = await other.claim_handoff(stale.id)
    assert newest is not None
    assert not await store.fail_handoff(stale, "it hung")
    assert await stayed(store, stale) is None
    assert await other.complete_handoff(newest, address=TOPIC)
    assert not await store.cancel_handoff(stale.id)
    assert not await other.fail_handoff(newest, "no")
    assert await stayed(store, stale) is None
