"""What a handoff promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from segue.core.address import Platform
from segue.core.errors import (
    HandoffInFlight,
    SessionChanged,
    SessionHeld,
    SessionMoved,
    SessionNotFound,
)
from segue.core.handoff import (
    ABANDONED,
    CANCELLED,
    ERROR_LIMIT,
    EXPIRED,
    MAX_ATTEMPTS,
    Event,
    Handoff,
    State,
    Step,
    next_state,
)
from segue.core.session import EndReason, Origin, Session, Usage
from segue.store import Store
from segue.store.handoffs import CLAIM_SECONDS, LEASE_SECONDS
from segue.store.outbox import Outgoing, OutgoingState
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import (
    CHANNEL,
    DM,
    ODD,
    TOPIC,
    answered,
    called,
    draft,
    hold,
    on_sqlite,
    result,
    said,
    say,
    texts,
)

TELEGRAM = Platform.TELEGRAM
NOWHERE = "20260101_120000_00000000"


async def claimed(store: Store, session_id: str) -> Handoff:
    """A handoff of the session to Telegram that this opening works on."""
    asked = await store.request_handoff(session_id, TELEGRAM)
    claim = await store.claim_handoff(asked.id)
    assert claim is not None
    return claim


async def state(store: Store, session_id: str) -> Handoff:
    latest = await store.get_handoff_state(session_id)
    assert latest is not None
    return latest


# Asking


async def test_a_request_is_pending_until_somebody_claims_it(store: Store, session: Session):
    asked = await store.request_handoff(session.id, TELEGRAM)
    assert asked.state is State.PENDING
    assert await store.list_pending_handoffs() == (asked,)
    assert await store.claim_handoff(asked.id)
    assert await store.list_pending_handoffs() == ()


async def test_a_request_keeps_what_was_asked_for(store: Store, session: Session, clock: FakeClock):
    asked = await store.request_handoff(
        session.id, TELEGRAM, home=DM, message="Go on with the tests. ✓", key="first"
    )
    assert (asked.session_id, asked.platform, asked.home) == (session.id, TELEGRAM, DM)
    assert (asked.message, asked.key) == ("Go on with the tests. ✓", "first")
    assert (asked.requested, asked.finished, asked.error) == (clock.now(), None, None)
    assert await store.get_handoff_state(session.id) == asked


async def test_a_message_that_no_database_can_hold_is_marked_not_rejected(
    store: Store, session: Session
):
    asked = await store.request_handoff(session.id, TELEGRAM, message=ODD)
    assert asked.message == "a\ufffdb\ufffdc"


async def test_a_second_request_is_refused_while_one_is_pending_or_running(
    store: Store, session: Session
):
    asked = await store.request_handoff(session.id, TELEGRAM)
    with pytest.raises(HandoffInFlight, match="telegram"):
        await store.request_handoff(session.id, Platform.SLACK)
    await store.claim_handoff(asked.id)
    with pytest.raises(HandoffInFlight, match="telegram"):
        await store.request_handoff(session.id, Platform.SLACK)
    assert len(await store.list_handoffs(session.id)) == 1


async def test_after_a_failed_one_a_request_is_allowed_and_clears_error_and_platform(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    await store.fail_handoff(claim, "no such chat")
    again = await store.request_handoff(session.id, Platform.SLACK)
    latest = await state(store, session.id)
    assert latest == again
    assert (latest.state, latest.error, latest.platform) == (State.PENDING, None, Platform.SLACK)
    assert (latest.step, latest.thread, latest.attempt) == (None, None, 0)


async def test_after_a_completed_one_a_request_is_allowed_and_clears_the_platform(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    await store.complete_handoff(claim, address=TOPIC)
    await store.request_handoff(session.id, Platform.SLACK)
    latest = await state(store, session.id)
    assert (latest.state, latest.error, latest.platform) == (State.PENDING, None, Platform.SLACK)
    assert (latest.thread, latest.finished) == (None, None)


async def test_an_unknown_session_has_no_handoff_and_a_request_for_it_is_refused(store: Store):
    assert await store.get_handoff_state(NOWHERE) is None
    assert await store.list_handoffs(NOWHERE) == ()
    with pytest.raises(SessionNotFound):
        await store.request_handoff(NOWHERE, TELEGRAM)
    assert await store.list_pending_handoffs() == ()


async def test_a_session_that_never_moved_has_no_handoff(store: Store, session: Session):
    assert await store.get_handoff_state(session.id) is None


async def test_pending_lists_only_pending_ones_the_oldest_first(store: Store):
    asked: list[Handoff] = []
    for _ in range(5):
        session = await store.sessions.create("me", Platform.LOCAL)
        asked.append(await store.request_handoff(session.id, TELEGRAM))
    running = await store.claim_handoff(asked[1].id)
    assert running is not None
    await store.cancel_handoff(asked[3].id)
    assert await store.list_pending_handoffs() == (asked[0], asked[2], asked[4])


async def test_the_same_request_key_asks_once(store: Store, session: Session):
    first = await store.request_handoff(session.id, TELEGRAM, key="enter was hit twice")
    assert await store.request_handoff(session.id, TELEGRAM, key="enter was hit twice") == first
    assert await store.list_pending_handoffs() == (first,)


async def test_a_key_whose_handoff_is_over_is_not_carried_out_again(store: Store, session: Session):
    first = await store.request_handoff(session.id, TELEGRAM, key="once")
    await store.cancel_handoff(first.id)
    again = await store.request_handoff(session.id, TELEGRAM, key="once")
    assert (again.id, again.state) == (first.id, State.FAILED)
    assert await store.list_pending_handoffs() == ()


async def test_the_same_request_key_asks_once_even_at_the_same_moment(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    for turn in range(4):
        session = await store.sessions.create("me", Platform.LOCAL)
        ask = [
            o.request_handoff(session.id, TELEGRAM, key=f"{turn}") for o in openings for _ in "ab"
        ]
        assert len({asked.id for asked in await asyncio.gather(*ask)}) == 1


async def test_a_request_with_the_own_lease_is_allowed_and_with_a_stale_one_is_not(
    store: Store, session: Session, open_store: OpenStore
):
    mine = await hold(store, session.id)
    asked = await store.request_handoff(session.id, TELEGRAM, lease=mine)
    await store.cancel_handoff(asked.id)
    other = await open_store()
    await other.leases.acquire(session.id, "a terminal on sofa", take_over=True)
    with pytest.raises(SessionMoved, match="a terminal on sofa"):
        await store.request_handoff(session.id, TELEGRAM, lease=mine)
    assert await store.list_pending_handoffs() == ()


async def test_a_lease_on_another_session_does_not_move_this_one(store: Store, session: Session):
    other = await store.sessions.create("me", Platform.LOCAL)
    await hold(store, session.id)
    lease = await hold(store, other.id)
    with pytest.raises((SessionMoved, SessionHeld)):
        await store.request_handoff(session.id, TELEGRAM, lease=lease)
    assert await store.list_pending_handoffs() == ()


async def test_a_request_for_a_session_that_is_open_elsewhere_is_refused_naming_where(
    store: Store, session: Session, open_store: OpenStore
):
    await hold(await open_store(), session.id)
    with pytest.raises(SessionHeld, match="a terminal on desk"):
        await store.request_handoff(session.id, TELEGRAM)
    assert await store.get_handoff_state(session.id) is None


# Claiming


async def test_a_claim_says_who_works_on_it_and_until_when(
    store: Store, session: Session, clock: FakeClock
):
    asked = await store.request_handoff(session.id, TELEGRAM)
    clock.advance(1)
    claim = await store.claim_handoff(asked.id, seconds=10)
    assert claim is not None
    assert (claim.state, claim.claimed_by) == (State.RUNNING, store.process)
    assert (claim.attempt, claim.fence, claim.step) == (1, 1, Step.CLAIMED)
    assert (claim.claimed, claim.lease_until) == (clock.now(), clock.ticks() + 10_000_000)
    assert await state(store, session.id) == claim


async def test_of_two_claims_one_wins(store: Store, session: Session, open_store: OpenStore):
    gateways = [store, await open_store()]
    for _ in range(8):
        asked = await store.request_handoff(session.id, TELEGRAM)
        claims = await asyncio.gather(*(g.claim_handoff(asked.id) for g in gateways))
        assert len([claim for claim in claims if claim]) == 1
        assert (await state(store, session.id)).attempt == 1
        await store.cancel_handoff(asked.id)


async def test_gateways_that_ask_for_the_next_one_never_get_the_same(
    store: Store, open_store: OpenStore
):
    gateways = [store, await open_store(), await open_store()]
    asked: set[int] = set()
    for _ in range(9):
        session = await store.sessions.create("me", Platform.LOCAL)
        asked.add((await store.request_handoff(session.id, TELEGRAM)).id)
    rounds = [g.claim_next_handoff({TELEGRAM}) for g in gateways for _ in range(4)]
    claims = [claim.id for claim in await asyncio.gather(*rounds) if claim]
    left = [claim.id for g in gateways if (claim := await g.claim_next_handoff({TELEGRAM}))]
    assert sorted(claims + left) == sorted(asked)


async def test_the_next_one_is_the_oldest_for_a_platform_that_the_gateway_serves(store: Store):
    wanted = (Platform.SLACK, Platform.TELEGRAM, Platform.SLACK)
    asked: list[int] = []
    for platform in wanted:
        session = await store.sessions.create("me", Platform.LOCAL)
        asked.append((await store.request_handoff(session.id, platform)).id)
    first = await store.claim_next_handoff({TELEGRAM, Platform.MATRIX})
    assert first is not None
    assert first.id == asked[1]
    assert await store.claim_next_handoff({TELEGRAM, Platform.MATRIX}) is None
    assert await store.claim_next_handoff(set()) is None
    then = await store.claim_next_handoff({Platform.SLACK})
    assert then is not None
    assert then.id == asked[0]


async def test_a_request_past_its_deadline_cannot_be_claimed_nor_is_it_listed(
    store: Store, session: Session, clock: FakeClock
):
    asked = await store.request_handoff(session.id, TELEGRAM, claim_seconds=5)
    clock.advance(5)
    assert await store.list_pending_handoffs() == ()
    assert await store.claim_handoff(asked.id) is None
    assert await store.claim_next_handoff({TELEGRAM}) is None


async def test_a_request_can_be_claimed_until_the_last_moment(
    store: Store, session: Session, clock: FakeClock
):
    asked = await store.request_handoff(session.id, TELEGRAM, claim_seconds=5)
    clock.advance(4.999)
    assert await store.claim_handoff(asked.id)


async def test_what_does_not_exist_cannot_be_claimed(store: Store):
    assert await store.claim_handoff(12345) is None
    assert await store.claim_next_handoff({TELEGRAM}) is None


async def test_heartbeats_keep_a_claim(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    claim = await claimed(store, session.id)
    for _ in range(10):
        clock.advance(LEASE_SECONDS - 1)
        assert await store.heartbeat_handoff(claim)
        assert await other.claim_handoff(claim.id) is None
        assert await other.claim_next_handoff({TELEGRAM}) is None
    assert await store.expire_handoffs() == 0
    assert await store.complete_handoff(claim, address=TOPIC)


async def test_a_claim_that_was_not_renewed_is_taken_over_with_its_step_and_thread(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    claim = await claimed(store, session.id)
    assert await store.record_handoff_step(claim, Step.OPENING, thread=TOPIC)
    assert await store.record_handoff_step(claim, Step.REPLYING)
    clock.advance(LEASE_SECONDS)
    other = await open_store()
    taken = await other.claim_next_handoff({TELEGRAM})
    assert taken is not None
    assert (taken.id, taken.attempt, taken.fence) == (claim.id, 2, 2)
    assert (taken.step, taken.thread) == (Step.REPLYING, TOPIC)
    assert taken.claimed_by == other.process


@on_sqlite
async def test_what_a_gateway_that_died_was_doing_is_taken_over_at_once(
    store: Store, session: Session, open_store: OpenStore
):
    dying = await open_store()
    claim = await claimed(dying, session.id)
    await dying.record_handoff_step(claim, Step.OPENING, thread=TOPIC)
    await dying.close()
    taken = await store.claim_next_handoff({TELEGRAM})
    assert taken is not None
    assert (taken.id, taken.fence, taken.thread) == (claim.id, 2, TOPIC)


async def test_a_wrong_wall_clock_takes_no_claim_away(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    claim = await claimed(store, session.id)
    clock.set_wall(clock.now() + timedelta(hours=1))
    other = await open_store()
    assert await other.claim_handoff(claim.id) is None
    assert await other.expire_handoffs() == 0
    assert (await state(store, session.id)).state is State.RUNNING


async def test_the_steps_are_seen_by_whoever_asks(
    store: Store, session: Session, open_store: OpenStore
):
    terminal = await open_store()
    claim = await claimed(store, session.id)
    for step in Step:
        assert await store.record_handoff_step(claim, step)
        assert (await state(terminal, session.id)).step is step


async def test_it_is_tried_at_most_three_times(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    asked = await store.request_handoff(session.id, TELEGRAM)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        gateway = await open_store()
        claim = await gateway.claim_next_handoff({TELEGRAM})
        assert claim is not None
        assert claim.attempt == attempt
        clock.advance(LEASE_SECONDS)
    assert await store.claim_handoff(asked.id) is None
    assert await store.claim_next_handoff({TELEGRAM}) is None
    over = await state(store, session.id)
    assert (over.state, over.error) == (State.FAILED, ABANDONED)


async def test_the_last_attempt_may_succeed(
    store: Store, session: Session, clock: FakeClock, open_store: OpenStore
):
    asked = await store.request_handoff(session.id, TELEGRAM)
    for _ in range(MAX_ATTEMPTS - 1):
        assert await store.claim_handoff(asked.id)
        clock.advance(LEASE_SECONDS)
    last = await (await open_store()).claim_next_handoff({TELEGRAM})
    assert last is not None
    assert await store.expire_handoffs() == 0
    assert await store.complete_handoff(last, address=TOPIC)


# Expiring


async def test_a_request_that_nobody_took_up_fails_by_itself_and_says_why(
    store: Store, session: Session, clock: FakeClock
):
    await store.request_handoff(session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS - 1)
    assert (await state(store, session.id)).state is State.PENDING
    clock.advance(1)
    over = await state(store, session.id)
    assert (over.state, over.error, over.finished) == (State.FAILED, EXPIRED, clock.now())


async def test_a_running_one_that_its_gateway_abandoned_fails_by_itself_and_says_why(
    store: Store, session: Session, clock: FakeClock
):
    await claimed(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS - 1)
    assert (await state(store, session.id)).state is State.RUNNING
    clock.advance(1)
    over = await state(store, session.id)
    assert (over.state, over.error) == (State.FAILED, ABANDONED)


async def test_expiring_counts_what_it_ended_and_leaves_the_rest(
    store: Store, session: Session, clock: FakeClock
):
    other = await store.sessions.create("me", Platform.LOCAL)
    await store.request_handoff(session.id, TELEGRAM, claim_seconds=10)
    fresh = await store.request_handoff(other.id, TELEGRAM, claim_seconds=100)
    clock.advance(10)
    assert await store.expire_handoffs() == 1
    assert await store.expire_handoffs() == 0
    assert await store.list_pending_handoffs() == (fresh,)


async def test_a_void_request_does_not_stand_in_the_way_of_the_next(
    store: Store, session: Session, clock: FakeClock
):
    first = await store.request_handoff(session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS)
    again = await store.request_handoff(session.id, TELEGRAM)
    assert again.id != first.id
    assert [h.state for h in await store.list_handoffs(session.id)] == [
        State.PENDING,
        State.FAILED,
    ]


async def test_a_void_request_does_not_keep_its_session_from_being_ended_or_deleted(
    store: Store, session: Session, clock: FakeClock
):
    await store.request_handoff(session.id, TELEGRAM)
    clock.advance(CLAIM_SECONDS)
    await store.sessions.end(session.id, EndReason.CLOSED)
    await store.sessions.delete(session.id)
    assert await store.sessions.get(session.id) is None


async def test_a_gateway_that_wakes_up_too_late_does_not_bring_an_ended_session_back(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    gateway = await open_store()
    late = await claimed(gateway, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    await store.sessions.end(session.id, EndReason.NEW)
    with pytest.raises(SessionChanged):
        await gateway.complete_handoff(late, address=TOPIC, messages=[answered("I am here.")])
    ended = await store.sessions.get(session.id)
    assert ended is not None
    assert (ended.end_reason, ended.address, ended.messages) == (EndReason.NEW, None, 0)


# Finishing


async def test_completing_moves_the_session_and_keeps_what_was_said_in_one_go(
    store: Store, session: Session, clock: FakeClock
):
    lease = await hold(store, session.id, said("fix the tests"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    claim = await store.claim_handoff(asked.id)
    assert claim is not None
    clock.advance(2)
    done = await store.complete_handoff(
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
    moved = await store.sessions.get(session.id)
    assert moved is not None
    assert (moved.address, moved.messages) == (TOPIC, 3)
    assert moved.usage == Usage(input=100, output=20, cached=5)
    binding = await store.bindings.get(TOPIC)
    assert binding is not None
    assert (binding.session_id, binding.origin) == (session.id, Origin.HANDOFF)
    assert texts(await store.transcripts.load(session.id)) == [
        "fix the tests",
        "I am here now.",
        "We were fixing the tests.",
    ]
    (first,) = await store.outbox.claim({TELEGRAM})
    assert first.body == "the recap"
    second = await store.outbox.get("2")
    assert second is not None
    assert second.state is OutgoingState.QUEUED
    assert await store.leases.get(session.id) is None


async def test_after_completing_the_old_terminal_is_told_where_the_session_is_now(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    gateway = await open_store()
    claim = await gateway.claim_handoff(asked.id)
    assert claim is not None
    assert await gateway.complete_handoff(claim, address=TOPIC)
    with pytest.raises(
        SessionMoved, match="it is on telegram group -100200, thread 7 now"
    ) as caught:
        await store.transcripts.append(lease, [said("still here?")])
    assert f"segue resume {session.id}" in str(caught.value)
    later = await gateway.leases.acquire(session.id, "a gateway")
    assert later.epoch > lease.epoch + 1


async def test_the_session_keeps_its_id_its_directory_and_its_transcript(
    store: Store, session: Session
):
    call = called("shell")
    before = (said("list the files"), call, result(call.tool_calls[0], "a.py"), answered("a.py"))
    await say(store, session.id, *before)
    claim = await claimed(store, session.id)
    await store.complete_handoff(claim, address=TOPIC, messages=[answered("here")])
    moved = await store.sessions.get(session.id)
    assert moved is not None
    assert (moved.id, moved.owner) == (session.id, session.owner)
    assert (moved.cwd, moved.source, moved.started, moved.ended) == (
        "/home/me/project",
        Platform.LOCAL,
        session.started,
        None,
    )
    after = await store.transcripts.load(session.id)
    assert [m.tool_calls for m in after] == [m.tool_calls for m in (*before, answered(""))]
    assert texts(after) == ["list the files", "", "a.py", "a.py", "here"]


async def test_a_session_moves_on_from_one_chat_to_another(store: Store, session: Session):
    await store.complete_handoff(await claimed(store, session.id), address=TOPIC)
    asked = await store.request_handoff(session.id, Platform.SLACK)
    claim = await store.claim_handoff(asked.id)
    assert claim is not None
    assert await store.complete_handoff(claim, address=CHANNEL)
    assert await store.bindings.get(TOPIC) is None
    binding = await store.bindings.get(CHANNEL)
    assert binding is not None
    assert binding.session_id == session.id


async def test_the_session_that_was_live_there_is_set_aside_not_ended(
    store: Store, session: Session
):
    there = await store.sessions.create("me", TELEGRAM, title="chat at home")
    await say(store, there.id, said("keep me"))
    await store.bindings.rebind(there.id, DM, Origin.MESSAGE)
    done = await store.complete_handoff(await claimed(store, session.id), address=DM)
    assert done is not None
    assert done.displaced == there.id
    aside = await store.sessions.find("me", "chat at home")
    assert (aside.ended, aside.end_reason, aside.address) == (None, None, None)
    assert texts(await store.transcripts.load(there.id)) == ["keep me"]


async def test_completing_where_it_already_is_displaces_nobody(store: Store, session: Session):
    await store.bindings.rebind(session.id, DM, Origin.MESSAGE)
    done = await store.complete_handoff(await claimed(store, session.id), address=DM)
    assert done is not None
    assert done.displaced is None
    assert (await store.sessions.find("me", session.id)).address == DM


async def test_a_reason_longer_than_500_characters_is_cut_never_rejected(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    assert await store.fail_handoff(claim, "x" * 5_000)
    error = (await state(store, session.id)).error
    assert error == "x" * (ERROR_LIMIT - 1) + "…"
    asked = await store.request_handoff(session.id, TELEGRAM)
    assert await store.cancel_handoff(asked.id, "y" * ERROR_LIMIT)
    assert (await state(store, session.id)).error == "y" * ERROR_LIMIT


async def test_any_reason_is_kept(store: Store, session: Session):
    for reason, kept in (("", ""), (ODD, "a\ufffdb\ufffdc"), ("Ärger ☹", "Ärger ☹")):
        assert await store.fail_handoff(await claimed(store, session.id), reason)
        assert (await state(store, session.id)).error == kept


async def test_complete_and_fail_by_anyone_but_the_newest_claim_change_nothing(
    store: Store, session: Session, clock: FakeClock
):
    stale = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    newest = await store.claim_handoff(stale.id)
    assert newest is not None
    for fence in (0, stale.fence, newest.fence + 1):
        forged = replace(newest, fence=fence)
        assert await store.complete_handoff(forged, address=TOPIC) is None
        assert not await store.fail_handoff(forged, "not mine to say")
        assert not await store.heartbeat_handoff(forged)
        assert not await store.record_handoff_step(forged, Step.DELIVERING, thread=CHANNEL)
    assert await state(store, session.id) == newest
    assert await store.bindings.get(TOPIC) is None


async def test_a_stopped_gateway_that_completes_late_changes_nothing_at_all(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    stopped, other = await open_store(), await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    late = await stopped.claim_handoff(asked.id)
    assert late is not None
    clock.advance(LEASE_SECONDS)
    assert await other.claim_handoff(asked.id)
    before = await store.sessions.get(session.id)
    done = await stopped.complete_handoff(
        late,
        address=TOPIC,
        messages=[answered("a ghost")],
        usage=Usage(input=1),
        drafts=[draft("ghost", TOPIC)],
    )
    assert done is None
    assert await store.bindings.get(TOPIC) is None
    assert await store.outbox.get("ghost") is None
    assert await store.sessions.get(session.id) == before
    assert texts(await store.transcripts.load(session.id)) == ["hello"]
    assert await store.transcripts.append(lease, [said("my epoch still counts")]) == 2


async def test_a_stopped_gateway_that_completes_after_the_other_one_did_changes_nothing(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    late = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    newest = await other.claim_handoff(late.id)
    assert newest is not None
    await other.complete_handoff(newest, address=TOPIC, messages=[answered("here")])
    assert (
        await store.complete_handoff(late, address=CHANNEL, messages=[answered("me too")]) is None
    )
    assert not await store.fail_handoff(late, "too late")
    assert (await state(store, session.id)).state is State.COMPLETED
    assert await store.bindings.get(CHANNEL) is None
    assert texts(await store.transcripts.load(session.id)) == ["here"]


async def test_completing_fails_and_changes_nothing_when_the_terminal_went_on(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    claim = await gateway.claim_handoff(asked.id)
    assert claim is not None
    await store.transcripts.append(lease, [said("one more thing")])
    with pytest.raises(SessionChanged):
        await gateway.complete_handoff(
            claim, address=TOPIC, messages=[answered("x")], drafts=[draft("x", TOPIC)]
        )
    await unmoved(store, session, ["hello", "one more thing"])
    assert await store.transcripts.append(lease, [said("and another")]) == 3
    assert await gateway.fail_handoff(claim, "it went on")


async def test_completing_fails_and_changes_nothing_when_somebody_took_the_session_over(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    claim = await gateway.claim_handoff(asked.id)
    assert claim is not None
    mine = await store.leases.acquire(session.id, "a terminal on sofa", take_over=True)
    with pytest.raises(SessionChanged):
        await gateway.complete_handoff(
            claim, address=TOPIC, messages=[answered("x")], drafts=[draft("x", TOPIC)]
        )
    await unmoved(store, session, ["hello"])
    assert await store.transcripts.append(mine, [said("I go on")]) == 2


async def unmoved(store: Store, session: Session, said: list[str]) -> None:
    """A commit that was refused left nothing of itself behind."""
    assert (await state(store, session.id)).state is State.RUNNING
    assert (await state(store, session.id)).thread is None
    assert await store.bindings.get(TOPIC) is None
    assert await store.outbox.get("x") is None
    assert texts(await store.transcripts.load(session.id)) == said


async def test_a_commit_that_fails_at_its_last_step_leaves_nothing_behind(
    store: Store, session: Session
):
    await say(store, session.id, said("hello"))
    claim = await claimed(store, session.id)
    broken = replace(draft("y", TOPIC), body=None)
    with pytest.raises((AttributeError, TypeError)):
        await store.complete_handoff(
            claim, address=TOPIC, messages=[answered("x")], drafts=[draft("x", TOPIC), broken]
        )
    await unmoved(store, session, ["hello"])
    assert await store.complete_handoff(claim, address=TOPIC, messages=[answered("now")])


# Cancelling


async def test_a_cancelled_request_shows_as_failed_with_its_reason(
    store: Store, session: Session, clock: FakeClock
):
    asked = await store.request_handoff(session.id, TELEGRAM)
    assert await store.cancel_handoff(asked.id)
    over = await state(store, session.id)
    assert (over.state, over.error, over.finished) == (State.FAILED, CANCELLED, clock.now())
    assert await store.claim_handoff(asked.id) is None
    assert not await store.cancel_handoff(asked.id)


async def test_cancelling_a_running_one_wins_and_the_commit_rolls_back_whole(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    claim = await gateway.claim_handoff(asked.id)
    assert claim is not None
    assert await store.cancel_handoff(asked.id, "I stay.")
    assert not await gateway.heartbeat_handoff(claim)
    assert not await gateway.record_handoff_step(claim, Step.REPLYING)
    done = await gateway.complete_handoff(
        claim, address=TOPIC, messages=[answered("x")], drafts=[draft("x", TOPIC)]
    )
    assert done is None
    over = await state(store, session.id)
    assert (over.state, over.error, over.thread) == (State.FAILED, "I stay.", None)
    assert await store.bindings.get(TOPIC) is None
    assert await store.outbox.get("x") is None
    assert await store.transcripts.append(lease, [said("going on")]) == 2


async def test_cancelling_after_the_commit_changes_nothing(store: Store, session: Session):
    claim = await claimed(store, session.id)
    done = await store.complete_handoff(claim, address=TOPIC)
    assert done is not None
    assert not await store.cancel_handoff(claim.id)
    assert await state(store, session.id) == done.handoff
    assert (await store.sessions.find("me", session.id)).address == TOPIC


async def test_of_cancel_and_complete_exactly_one_wins(
    store: Store, session: Session, open_store: OpenStore
):
    gateway = await open_store()
    for turn in range(20):
        asked = await store.request_handoff(session.id, TELEGRAM)
        claim = await gateway.claim_handoff(asked.id)
        assert claim is not None
        before = len(await store.transcripts.load(session.id))
        tries = [
            gateway.complete_handoff(claim, address=TOPIC, messages=[answered("here")]),
            store.cancel_handoff(asked.id),
        ]
        outcomes = await asyncio.gather(*(reversed(tries) if turn % 2 else tries))
        assert len([won for won in outcomes if won]) == 1
        completed = (await state(store, session.id)).state is State.COMPLETED
        assert len(await store.transcripts.load(session.id)) == before + completed


# Looking back


async def test_the_history_is_the_newest_first(store: Store, session: Session):
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


async def attempt(store: Store, clock: FakeClock, handoff: Handoff, event: Event) -> object:
    match event:
        case Event.CLAIM:
            clock.advance(LEASE_SECONDS)  # a running one can be claimed once its gateway is gone
            return await store.claim_handoff(handoff.id)
        case Event.COMPLETE:
            return await store.complete_handoff(handoff, address=DM)
        case Event.FAIL:
            return await store.fail_handoff(handoff, "no")
        case Event.CANCEL:
            return await store.cancel_handoff(handoff.id)
        case Event.EXPIRE:
            clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
            return await store.expire_handoffs()


async def test_the_store_agrees_with_the_table_of_transitions(store: Store, clock: FakeClock):
    for before in State:
        for event in Event:
            session = await store.sessions.create("me", Platform.LOCAL)
            handoff = await reach(store, session.id, before)
            was = (await store.list_handoffs(session.id))[0]
            happened = await attempt(store, clock, handoff, event)
            now = (await store.list_handoffs(session.id))[0]
            expected = next_state(before, event)
            assert now.state is (expected or before), (before, event)
            assert bool(happened) is (expected is not None), (before, event)
            if expected is None:
                assert now == was


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
        await store.sessions.end(session.id, EndReason.CLOSED, lease=lease)
    assert not await store.leases.release(lease)
    binding = await gateway.bindings.get(TOPIC)
    assert binding is not None
    assert binding.session_id == session.id
    alive = await gateway.sessions.get(session.id)
    assert alive is not None
    assert alive.ended is None
    assert texts(await gateway.transcripts.load(session.id)) == ["hello"]


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
    lease = await store.leases.renew(lease)
    await store.transcripts.append(lease, [said("I stayed")])
    assert texts(await store.transcripts.load(session.id)) == ["hello", "I stayed"]


async def test_failure_4_a_gateway_killed_after_the_claim_does_not_leave_it_running_for_ever(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await claimed(await open_store(), session.id)
    with pytest.raises(HandoffInFlight):
        await store.request_handoff(session.id, TELEGRAM)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    again = await store.request_handoff(session.id, TELEGRAM)
    assert again.state is State.PENDING


async def test_failure_5_a_gateway_started_later_does_not_execute_a_ghost(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await store.request_handoff(session.id, TELEGRAM)  # then Ctrl-C: nobody cancels it
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
    assert await store.bindings.list("me") == ()
    assert texts(await store.transcripts.load(session.id)) == ["hello"]
    retried = await claimed(store, session.id)
    assert await store.complete_handoff(retried, address=DM)
    assert [binding.address for binding in await store.bindings.list("me")] == [DM]


async def test_failure_8_a_session_with_no_message_yet_can_be_handed_off(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    assert await store.complete_handoff(claim, address=TOPIC, messages=[answered("I am here.")])
    assert texts(await store.transcripts.load(session.id)) == ["I am here."]


async def test_failure_10_a_handed_off_session_does_not_vanish_from_the_list(
    store: Store, session: Session
):
    assert await store.complete_handoff(await claimed(store, session.id), address=TOPIC)
    (listed,) = await store.sessions.list("me")
    assert (listed.id, listed.address) == (session.id, TOPIC)
    assert await store.sessions.list("me", platform=TELEGRAM) == (listed,)
    assert await store.sessions.find("me", "latest") == listed


async def test_failure_13_the_working_directory_is_carried_over(store: Store, session: Session):
    lease = await hold(store, session.id)
    await store.sessions.describe(lease, cwd="/home/me/elsewhere", model="some-model")
    asked = await store.request_handoff(session.id, TELEGRAM, lease=lease)
    claim = await store.claim_handoff(asked.id)
    assert claim is not None
    assert await store.complete_handoff(claim, address=TOPIC)
    moved = await store.sessions.get(session.id)
    assert moved is not None
    assert (moved.cwd, moved.model) == ("/home/me/elsewhere", "some-model")


# What the next attempt and people find


async def test_what_the_agent_answered_is_there_for_the_next_attempt(
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


async def test_an_orphan_is_over_within_25_seconds(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    await claimed(store, session.id)
    other = await open_store()
    clock.advance(24.999)
    assert await other.expire_handoffs() == 0
    clock.advance(0.001)
    assert await other.expire_handoffs() == 1


async def test_handoffs_of_all_sessions_are_listed_the_newest_first(store: Store, session: Session):
    other = await store.sessions.create("me", Platform.LOCAL)
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


# The thread where nobody came


async def stayed(store: Store, handoff: Handoff) -> Outgoing | None:
    return await store.outbox.get(f"handoff:{handoff.id}:stayed")


async def opened(store: Store, session_id: str) -> Handoff:
    """A handoff for which a thread was opened."""
    claim = await claimed(store, session_id)
    assert await store.record_handoff_step(claim, Step.REPLYING, thread=TOPIC)
    return claim


async def test_a_thread_is_told_that_the_session_stayed_when_the_handoff_fails(
    store: Store, session: Session
):
    claim = await opened(store, session.id)
    assert await store.fail_handoff(claim, "The model is away. Type /model.")
    told = await stayed(store, claim)
    assert told is not None
    assert (told.address, told.session_id, told.state) == (TOPIC, session.id, OutgoingState.QUEUED)
    assert told.body == (
        "The session stayed where it was, in the terminal: the handoff did not happen."
        " The model is away."
    )


async def test_a_thread_is_told_that_the_session_stayed_when_it_is_cancelled_or_expires(
    store: Store, session: Session, clock: FakeClock
):
    claim = await opened(store, session.id)
    assert await store.cancel_handoff(claim.id)
    told = await stayed(store, claim)
    assert told is not None
    assert told.body.endswith("did not happen. Cancelled.")
    claim = await opened(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    assert await store.expire_handoffs() == 1
    told = await stayed(store, claim)
    assert told is not None
    assert "The gateway stopped in the middle of it" in told.body


async def test_a_thread_that_was_still_being_opened_is_told_that_the_session_stayed(
    store: Store, session: Session
):
    claim = await claimed(store, session.id)
    assert await store.cancel_handoff(claim.id)
    assert await stayed(store, claim) is None
    assert not await store.record_handoff_step(claim, Step.REPLYING, thread=TOPIC)
    told = await stayed(store, claim)
    assert told is not None
    assert told.address == TOPIC
    assert told.body.endswith("did not happen. Cancelled.")


async def test_a_thread_is_told_nothing_by_a_gateway_whose_handoff_another_goes_on_with(
    store: Store, session: Session, clock: FakeClock
):
    claim = await claimed(store, session.id)
    clock.advance(LEASE_SECONDS)
    assert await store.claim_handoff(claim.id)
    assert not await store.record_handoff_step(claim, Step.REPLYING, thread=TOPIC)
    assert await stayed(store, claim) is None


async def test_a_thread_is_told_that_the_session_stayed_when_it_is_asked_for_anew(
    store: Store, session: Session, clock: FakeClock
):
    claim = await opened(store, session.id)
    clock.advance(LEASE_SECONDS + CLAIM_SECONDS)
    assert await store.request_handoff(session.id, TELEGRAM)
    assert await stayed(store, claim)


async def test_a_thread_is_told_in_which_chat_the_session_stayed(store: Store, session: Session):
    await store.bindings.rebind(session.id, CHANNEL, Origin.MESSAGE)
    claim = await opened(store, session.id)
    await store.fail_handoff(claim, "")
    told = await stayed(store, claim)
    assert told is not None
    assert f"stayed where it was, on {CHANNEL}: " in told.body


async def test_nobody_is_told_that_a_session_stayed_where_no_thread_was_opened(
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


async def test_nobody_is_told_that_a_session_stayed_when_it_came(
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
