"""Handoffs in the store: failures seen elsewhere, the next attempt, and notices to users."""

from __future__ import annotations

import pytest

from segue.core.address import Platform
from segue.core.errors import HandoffError, SessionMoved
from segue.core.session import EndReason, Origin, Session
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import CLAIM_SECONDS, LEASE_SECONDS
from segue.handoffs.values import Handoff, State, Step
from segue.store import Store, bindings, deliveries, leases, outbox, sessions, transcripts
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

# Failures of other programs


async def test_a_leaving_terminal_cannot_close_the_session_it_gave_away(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    gateway = await open_store()
    claim = await handoffs.claim(gateway, asked.id)
    assert claim is not None
    assert await handoffs.complete(gateway, claim, address=TOPIC)
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


async def test_a_terminal_that_gives_up_late_and_the_gateway_never_both_write(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    claim = await handoffs.claim(gateway, asked.id, seconds=120)
    assert claim is not None
    clock.advance(61)
    assert await handoffs.cancel(store, asked.id)
    assert (
        await handoffs.complete(gateway, claim, address=TOPIC, messages=[answered("me too")])
    ) is None
    lease = await leases.renew(store, lease)
    await transcripts.append(store, lease, [said("I stayed")])
    assert texts(await transcripts.load(store, session.id)) == ["hello", "I stayed"]


async def test_a_gateway_killed_after_the_claim_does_not_leave_it_running_forever(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await claimed(await open_store(), session.id)
    with pytest.raises(HandoffError, match="already being handed off"):
        await handoffs.request(store, session.id, TELEGRAM)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    again = await handoffs.request(store, session.id, TELEGRAM)
    assert again.state is State.PENDING


async def test_a_gateway_started_later_does_not_execute_a_ghost(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await handoffs.request(store, session.id, TELEGRAM)  # then Ctrl-C, without a cancellation
    clock.advance(3600)
    gateway = await open_store()
    assert await handoffs.pending(gateway) == ()
    assert await handoffs.claim_next(gateway, {TELEGRAM}) is None
    assert (await state(gateway, session.id)).state is State.FAILED


async def test_when_sending_fails_nothing_has_moved_and_a_retry_binds_one_chat(
    store: Store, session: Session
):
    await say(store, session.id, said("hello"))
    claim = await claimed(store, session.id)
    await handoffs.record_step(store, claim, Step.DELIVERING, thread=TOPIC)
    assert await handoffs.fail(store, claim, "telegram does not answer")
    assert await bindings.list_bindings(store, "me") == ()
    assert texts(await transcripts.load(store, session.id)) == ["hello"]
    retried = await claimed(store, session.id)
    assert await handoffs.complete(store, retried, address=DM)
    assert [binding.address for binding in await bindings.list_bindings(store, "me")] == [DM]


async def test_a_session_with_no_message_yet_can_be_handed_off(store: Store, session: Session):
    claim = await claimed(store, session.id)
    assert await handoffs.complete(store, claim, address=TOPIC, messages=[answered("I am here.")])
    assert texts(await transcripts.load(store, session.id)) == ["I am here."]


async def test_a_handed_off_session_does_not_vanish_from_the_list(store: Store, session: Session):
    assert await handoffs.complete(store, await claimed(store, session.id), address=TOPIC)
    (listed,) = await sessions.list_sessions(store, "me")
    assert (listed.id, listed.address) == (session.id, TOPIC)
    assert await sessions.list_sessions(store, "me", platform=TELEGRAM) == (listed,)
    assert await sessions.find(store, "me", "latest") == listed


async def test_the_working_directory_is_carried_over(store: Store, session: Session):
    lease = await hold(store, session.id)
    await sessions.describe(store, lease, cwd="/home/me/elsewhere", model="some-model")
    asked = await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    claim = await handoffs.claim(store, asked.id)
    assert claim is not None
    assert await handoffs.complete(store, claim, address=TOPIC)
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
    assert await handoffs.record_step(store, claim, Step.REPLYING, reply=reply)
    assert await handoffs.record_step(store, claim, Step.DELIVERING, thread=TOPIC)
    clock.advance(LEASE_SECONDS)
    again = await handoffs.claim(await open_store(), claim.id)
    assert again is not None
    assert (again.reply, again.step, again.thread) == (reply, Step.DELIVERING, TOPIC)
    assert not await handoffs.record_step(store, claim, Step.REPLYING, reply=b"a late one")
    assert (await state(store, session.id)).reply == reply


async def test_an_orphaned_handoff_expires_within_25_seconds(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await claimed(store, session.id)
    other = await open_store()
    clock.advance(24.999)
    assert await handoffs.expire(other) == 0
    clock.advance(0.001)
    assert await handoffs.expire(other) == 1


async def test_handoffs_of_all_sessions_are_listed_the_newest_first(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    first = await claimed(store, session.id)
    await handoffs.fail(store, first, "no")
    second = await handoffs.request(store, other.id, Platform.SLACK)
    third = await claimed(store, session.id)
    assert [h.id for h in await handoffs.recent(store, 10)] == [third.id, second.id, first.id]
    assert await handoffs.recent(store, 1) == (third,)
    assert await handoffs.in_flight(store) == (second, third)
    await handoffs.cancel(store, second.id)
    await handoffs.complete(store, third, address=TOPIC)
    assert await handoffs.in_flight(store) == ()
    assert len(await handoffs.recent(store)) == 3


# Threads that the session did not reach


async def stayed(store: Store, handoff: Handoff) -> Outgoing | None:
    return await outbox.get(store, f"handoff:{handoff.id}:stayed")


async def opened(store: Store, session_id: str) -> Handoff:
    """A handoff for which a thread was opened."""
    claim = await claimed(store, session_id)
    assert await handoffs.record_step(store, claim, Step.REPLYING, thread=TOPIC)
    return claim


async def test_a_thread_is_notified_that_the_session_stayed_when_the_handoff_fails(
    store: Store, session: Session
):
    claim = await opened(store, session.id)
    assert await handoffs.fail(store, claim, "The model is away. Type /model.")
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
    assert await handoffs.cancel(store, claim.id)
    notice = await stayed(store, claim)
    assert notice is not None
    assert notice.body.endswith("the handoff failed. Cancelled.")
    claim = await opened(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    assert await handoffs.expire(store) == 1
    notice = await stayed(store, claim)
    assert notice is not None
    assert "The gateway stopped during the handoff" in notice.body


async def test_a_thread_that_was_still_being_opened_is_notified_that_the_session_stayed(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    assert await handoffs.cancel(store, claim.id)
    assert await stayed(store, claim) is None
    assert not await handoffs.record_step(store, claim, Step.REPLYING, thread=TOPIC)
    notice = await stayed(store, claim)
    assert notice is not None
    assert notice.address == TOPIC
    assert notice.body.endswith("the handoff failed. Cancelled.")


async def test_a_gateway_whose_handoff_another_continues_does_not_notify_the_thread(
    store: Store, session: Session, clock: FakeClock
):
    claim = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    assert await handoffs.claim(store, claim.id)
    assert not await handoffs.record_step(store, claim, Step.REPLYING, thread=TOPIC)
    assert await stayed(store, claim) is None


async def test_a_thread_is_notified_that_the_session_stayed_when_it_is_requested_again(
    store: Store, session: Session, clock: FakeClock
):
    claim = await opened(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    assert await handoffs.request(store, session.id, TELEGRAM)
    assert await stayed(store, claim)


async def test_the_notice_in_the_thread_names_the_chat_in_which_the_session_stayed(
    store: Store, session: Session
):
    await bindings.rebind(store, session.id, CHANNEL, Origin.MESSAGE)
    claim = await opened(store, session.id)
    await handoffs.fail(store, claim, "")
    notice = await stayed(store, claim)
    assert notice is not None
    assert f"stayed where it was, on {CHANNEL}: " in notice.body


async def test_without_a_thread_there_is_no_notice_that_the_session_stayed(
    store: Store, session: Session, clock: FakeClock
):
    failed = await claimed(store, session.id)
    await handoffs.fail(store, failed, "no")
    cancelled = await handoffs.request(store, session.id, TELEGRAM)
    await handoffs.cancel(store, cancelled.id)
    expired = await handoffs.request(store, session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS)
    await handoffs.expire(store)
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
    for earlier in await deliveries.claim(
        store, [TELEGRAM]
    ):  # the thread hears that the session left
        await deliveries.sent(store, earlier)
    if begun:
        await deliveries.claim(store, [TELEGRAM])
    await handoffs.fail(store, claim, "no")
    assert (await outbox.get(store, claim.return_key) is not None) == begun
    assert (await stayed(store, claim) is not None) == begun


async def test_a_completed_handoff_posts_no_notice_that_the_session_stayed(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    stale = await opened(store, session.id)
    clock.advance(LEASE_SECONDS)
    other = await open_store()
    newest = await handoffs.claim(other, stale.id)
    assert newest is not None
    assert not await handoffs.fail(store, stale, "it hung")
    assert await stayed(store, stale) is None
    assert await handoffs.complete(other, newest, address=TOPIC)
    assert not await handoffs.cancel(store, stale.id)
    assert not await handoffs.fail(other, newest, "no")
    assert await stayed(store, stale) is None
