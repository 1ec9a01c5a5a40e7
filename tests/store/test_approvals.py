"""Approvals in the store: for one call, answered once by its owner, used once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

import segue.store
from segue.approvals import queries as approvals
from segue.approvals.queries import Approval, ApprovalState, Visibility, part_key, whole_key
from segue.core.address import Address, Platform
from segue.core.approval import Answer
from segue.core.errors import ApprovalNotShown, SessionMoved, SessionNotFound, UserError
from segue.core.session import SECOND, EndReason, Lease, Origin, Session
from segue.core.transcript import Outcome
from segue.handoffs import queries as handoffs
from segue.jobs.queries import jobs
from segue.jobs.schedule import Once
from segue.jobs.values import LOCAL, NewJob
from segue.store import (
    Store,
    Tx,
    bindings,
    deliveries,
    leases,
    outbox,
    owners,
    sessions,
    transcripts,
)
from segue.store.deliveries import finish
from segue.store.outbox import OutgoingState
from segue.testing.clock import FakeClock
from segue.turns import queries
from tests.store.conftest import OpenStore
from tests.store.samples import (
    AT,
    CHANNEL,
    DM,
    ODD,
    TOPIC,
    called,
    draft,
    hold,
    on_sqlite,
    said,
    show,
)

MINUTES = 600.0
CALL = ("call 1", "f" * 64, "rm -r build")


async def ask(
    store: Store, lease: Lease, call: tuple[str, str, str] = CALL, address: Address = DM
) -> Approval:
    """Ask, and show the whole call."""
    asked = await approvals.ask(store, lease, *call, address, seconds=MINUTES)
    await show(store, asked)
    return asked


async def answer(store: Store, asked: Approval, said: Answer = Answer.ONCE) -> Approval:
    return await approvals.give(store, asked.id, "me", DM, said)


async def stands(store: Store, asked: Approval) -> ApprovalState:
    now = await approvals.get(store, asked.id)
    assert now is not None
    return now.state


# Asking


async def test_a_question_is_stored_unchanged(
    store: Store, session: Session, clock: FakeClock, open_store: OpenStore
):
    asked = await ask(store, await hold(store, session.id))
    assert (asked.session_id, asked.owner, asked.address) == (session.id, "me", DM)
    assert (asked.call_id, asked.fingerprint, asked.what) == CALL
    assert (asked.state, asked.answer) == (ApprovalState.WAITING, None)
    assert (asked.asked, asked.until) == (clock.now(), clock.ticks() + MINUTES * SECOND)
    other = await open_store()
    assert await approvals.get(other, asked.id) == asked
    assert await approvals.waiting(other, session.id) == asked
    assert await approvals.get(other, asked.id + 1) is None


async def test_a_call_has_one_question_until_its_answer_is_used(store: Store, session: Session):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    assert await ask(store, lease) == asked
    answered = await answer(store, asked)
    assert await ask(store, lease) == answered
    await approvals.use(store, lease, asked.id)
    assert (await ask(store, lease)).id != asked.id


async def test_another_call_is_another_question(store: Store, session: Session):
    lease = await hold(store, session.id)
    other = await sessions.create(store, "me", Platform.LOCAL)
    questions = [
        await ask(store, lease),
        await ask(store, lease, ("call 2", *CALL[1:])),
        await ask(store, lease, (CALL[0], "0" * 64, CALL[2])),
        await ask(store, await hold(store, other.id)),
    ]
    assert len({question.id for question in questions}) == 4
    assert await approvals.waiting(store, session.id) == questions[2]


async def test_a_call_whose_target_changed_voids_its_earlier_question(
    store: Store, session: Session
):
    lease = await hold(store, session.id)
    earlier = await answer(store, await ask(store, lease))
    other = await ask(store, lease, ("call 2", *CALL[1:]))
    await ask(store, lease, (CALL[0], "0" * 64, CALL[2]))
    assert await stands(store, earlier) is ApprovalState.VOID
    assert await approvals.use(store, lease, earlier.id) is None
    assert await stands(store, other) is ApprovalState.WAITING


async def test_a_process_that_lost_the_session_cannot_ask(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    await leases.acquire(await open_store(), session.id, "a terminal on sofa", take_over=True)
    with pytest.raises(SessionMoved, match="a terminal on sofa"):
        await ask(store, lease)
    assert await approvals.waiting(store, session.id) is None
    with pytest.raises(SessionNotFound):
        await ask(store, structs.replace(lease, session_id="20260101_120000_00000000"))


async def test_unstorable_characters_in_a_question_are_replaced(store: Store, session: Session):
    lease = await hold(store, session.id)
    odd = replace(DM, chat_id=ODD)
    asked = await ask(store, lease, (ODD, ODD, ODD), odd)
    assert (asked.what, asked.address) == ("a\ufffdb\ufffdc", odd)
    assert await ask(store, lease, (ODD, ODD, ODD), odd) == asked
    assert await approvals.waiting_at(store, odd) == (asked,)


async def test_a_question_knows_whether_it_is_asked_in_the_run_of_a_job(
    store: Store, session: Session
):
    lease = await hold(store, session.id)
    assert not (await ask(store, lease)).in_run
    at = datetime.now(UTC) + timedelta(days=1)
    new = NewJob(prompt="look", schedule=Once(at), zone="UTC", deliver=(LOCAL,))
    job = await jobs.create(store, "me", new)

    def run(tx: Tx) -> None:
        sql = "UPDATE jobs SET session_id = :session, busy = 1 WHERE id = :id"
        tx.change(sql, session=session.id, id=job.id)

    await store.write(run)
    assert (await ask(store, lease)).in_run


# Answering


@pytest.mark.parametrize("said", [Answer.ONCE, Answer.SESSION, Answer.NEVER])
async def test_an_answer_is_stored_and_used_once(
    store: Store, session: Session, open_store: OpenStore, said: Answer
):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    assert await approvals.use(store, lease, asked.id) is None
    answered = await answer(await open_store(), asked, said)
    assert answered == structs.replace(asked, state=ApprovalState.ANSWERED, answer=said)
    assert await approvals.waiting(store, session.id) == answered
    assert await approvals.use(store, lease, asked.id) is said
    assert await approvals.use(store, lease, asked.id) is None
    used = await approvals.get(store, asked.id)
    assert used == structs.replace(asked, state=ApprovalState.USED, answer=said)
    assert await approvals.waiting(store, session.id) is None


async def test_only_the_owner_can_answer_and_only_in_the_chat_of_the_question(
    store: Store, session: Session
):
    await owners.ensure(store, "you")
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    wrong = ((asked.id, "you", DM), (asked.id, "me", TOPIC), (asked.id + 1, "me", DM))
    for approval_id, owner, address in wrong:
        with pytest.raises(UserError, match="There is no question"):
            await approvals.give(store, approval_id, owner, address, Answer.ONCE)
    assert await stands(store, asked) is ApprovalState.WAITING
    assert await approvals.use(store, lease, asked.id) is None


async def test_the_first_answer_counts_whether_or_not_it_was_used(store: Store, session: Session):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    await answer(store, asked, Answer.NEVER)
    with pytest.raises(UserError, match="answered already"):
        await answer(store, asked)
    assert await approvals.use(store, lease, asked.id) is Answer.NEVER
    with pytest.raises(UserError, match="answered already"):
        await answer(store, asked)


async def test_of_two_answers_at_once_one_gets_approval_over(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    other = await open_store()
    for round_ in range(5):
        asked = await ask(store, lease, (f"{round_}", *CALL[1:]))
        outcomes = await asyncio.gather(
            answer(store, asked, Answer.ONCE),
            answer(other, asked, Answer.NEVER),
            return_exceptions=True,
        )
        (won,) = [outcome for outcome in outcomes if isinstance(outcome, Approval)]
        (refused,) = [outcome for outcome in outcomes if isinstance(outcome, UserError)]
        assert str(refused).startswith("That question is closed: ")
        assert await approvals.use(store, lease, asked.id) is won.answer


async def test_concurrent_callers_use_an_answer_once(store: Store, session: Session):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    await answer(store, asked)
    used = await asyncio.gather(*(approvals.use(store, lease, asked.id) for _ in range(5)))
    assert sorted(map(str, used)) == ["None"] * 4 + ["once"]


async def test_an_answer_is_used_only_under_the_lease_of_its_session(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    await answer(store, asked)
    other = await sessions.create(store, "me", Platform.LOCAL)
    assert await approvals.use(store, await hold(store, other.id), asked.id) is None
    newest = await leases.acquire(await open_store(), session.id, "another", take_over=True)
    with pytest.raises(SessionMoved, match="another"):
        await approvals.use(store, lease, asked.id)
    assert await approvals.use(await open_store(), newest, asked.id) is Answer.ONCE


async def test_a_question_and_its_answer_survive_a_restart(
    store: Store, session: Session, url: str, clock: FakeClock
):
    async with await segue.store.open(url, clock=clock) as first:
        asked = await ask(first, await hold(first, session.id))
    await answer(store, asked)
    async with await segue.store.open(url, clock=clock) as again:
        lease = await leases.acquire(again, session.id, "the next gateway", take_over=True)
        assert (await ask(again, lease)).id == asked.id
        assert await approvals.use(again, lease, asked.id) is Answer.ONCE


@pytest.mark.parametrize("said", [Answer.ONCE, Answer.SESSION])
async def test_a_call_is_allowed_only_after_all_of_it_was_sent(
    store: Store, session: Session, open_store: OpenStore, said: Answer
):
    lease = await hold(store, session.id)
    asked = await approvals.ask(store, lease, *CALL, DM, seconds=MINUTES)
    other = await open_store()
    for key in (part_key(asked.id), whole_key(asked.id, "1")):
        assert await approvals.visibility(other, asked) is Visibility.PARTLY
        with pytest.raises(ApprovalNotShown):
            await answer(other, asked, said)
        await outbox.enqueue(store, draft(key))
        (sending,) = await deliveries.claim(store, [DM.platform])
        if "whole" in key:
            assert await approvals.visibility(other, asked) is Visibility.SENDING
        with pytest.raises(ApprovalNotShown):
            await answer(other, asked, said)
        await deliveries.sent(store, sending, "1")
    assert await approvals.visibility(other, asked) is Visibility.WHOLE
    assert (await answer(other, asked, said)).answer is said


@pytest.mark.parametrize("state", [OutgoingState.FAILED, OutgoingState.UNCERTAIN])
async def test_a_message_that_may_not_have_arrived_does_not_count_as_shown(
    store: Store, session: Session, state: OutgoingState
):
    asked = await approvals.ask(store, await hold(store, session.id), *CALL, DM, seconds=MINUTES)
    await outbox.enqueue(store, draft(whole_key(asked.id, "1")))
    (sending,) = await deliveries.claim(store, [DM.platform])
    await store.write(finish, sending, state, error="lost")
    assert await approvals.visibility(store, asked) is Visibility.PARTLY
    with pytest.raises(ApprovalNotShown):
        await answer(store, asked)


async def test_a_call_can_be_denied_before_all_of_it_was_sent(store: Store, session: Session):
    asked = await approvals.ask(store, await hold(store, session.id), *CALL, DM, seconds=MINUTES)
    assert (await answer(store, asked, Answer.NEVER)).answer is Answer.NEVER


async def test_what_one_question_showed_does_not_count_for_another(store: Store, session: Session):
    """Nor does the longer number of another question."""
    lease = await hold(store, session.id)
    asked = await approvals.ask(store, lease, *CALL, DM, seconds=MINUTES)
    await show(store, structs.replace(asked, id=asked.id * 10))
    with pytest.raises(ApprovalNotShown):
        await answer(store, asked)


# Expiry


async def test_an_unanswered_question_expires(store: Store, session: Session, clock: FakeClock):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    clock.advance(MINUTES - 1)
    assert await stands(store, asked) is ApprovalState.WAITING
    clock.advance(1)
    assert await stands(store, asked) is ApprovalState.EXPIRED
    assert await approvals.waiting(store, session.id) is None
    assert await approvals.waiting_at(store, DM) == ()
    with pytest.raises(UserError, match="its time is up"):
        await answer(store, asked)
    assert await approvals.use(store, lease, asked.id) is None
    assert await store.write(in_row, asked.id) == "expired"
    assert (await ask(store, lease)).id != asked.id


async def test_a_question_that_was_answered_in_time_does_not_expire(
    store: Store, session: Session, clock: FakeClock
):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    await answer(store, asked)
    clock.advance(2 * MINUTES)
    waiting = await approvals.waiting(store, session.id)
    assert waiting is not None
    assert waiting.id == asked.id
    assert await approvals.use(store, lease, asked.id) is Answer.ONCE


@on_sqlite
async def test_a_restart_of_the_machine_expires_open_questions(
    session: Session, store: Store, open_store: OpenStore, clock: FakeClock
):
    asked = await ask(store, await hold(store, session.id))
    clock.restart()
    with pytest.raises(UserError, match="its time is up"):
        await answer(await open_store(), asked)


# Void


async def test_the_questions_of_a_session_are_void_when_it_moves_or_ends(
    store: Store, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    lease = await hold(store, session.id)
    waiting, answered = [await ask(store, lease, (n, *CALL[1:])) for n in "12"]
    await answer(store, answered)
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    assert await stands(store, waiting) is ApprovalState.WAITING
    await bindings.rebind(store, session.id, CHANNEL, Origin.RESUME)
    for asked in (waiting, answered):
        assert await stands(store, asked) is ApprovalState.VOID
        assert await approvals.use(store, lease, asked.id) is None
        with pytest.raises(UserError, match="moved on"):
            await answer(store, asked)
    again = await ask(store, lease, ("1", *CALL[1:]), CHANNEL)
    await sessions.end(store, session.id, EndReason.NEW, lease=lease)
    assert await stands(store, again) is ApprovalState.VOID


async def test_the_questions_of_a_session_are_void_when_another_takes_its_place(
    store: Store, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    asked = await ask(store, await hold(store, session.id))
    other = await sessions.create(store, "me", Platform.LOCAL)
    assert await bindings.rebind(store, other.id, DM, Origin.RESUME) == session.id
    assert await stands(store, asked) is ApprovalState.VOID


async def test_the_questions_of_a_session_are_void_after_a_handoff(store: Store, session: Session):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    handoff = await handoffs.request(store, session.id, Platform.TELEGRAM, lease=lease)
    claim = await handoffs.claim(store, handoff.id)
    assert claim is not None
    assert await stands(store, asked) is ApprovalState.WAITING
    assert await handoffs.complete(store, claim, address=TOPIC)
    assert await stands(store, asked) is ApprovalState.VOID


async def test_voiding_returns_the_number_of_open_or_unused_questions(
    store: Store, session: Session
):
    other = await sessions.create(store, "me", Platform.LOCAL)
    theirs = await ask(store, await hold(store, other.id))
    lease = await hold(store, session.id)
    first, second, third = [await ask(store, lease, (n, *CALL[1:])) for n in "123"]
    await answer(store, first)
    await approvals.use(store, lease, first.id)
    await answer(store, second)
    assert await sessions.void_approvals(store, session.id) == 2
    assert await sessions.void_approvals(store, session.id) == 0
    states = [await stands(store, asked) for asked in (first, second, third, theirs)]
    assert states == [
        ApprovalState.USED,
        ApprovalState.VOID,
        ApprovalState.VOID,
        ApprovalState.WAITING,
    ]


# Listing


async def test_the_open_questions_of_an_address_are_listed_oldest_first(
    store: Store, session: Session
):
    other = await sessions.create(store, "me", Platform.LOCAL)
    lease = await hold(store, session.id)
    first = await ask(store, lease)
    second = await ask(store, await hold(store, other.id))
    elsewhere = await ask(store, lease, ("call 2", *CALL[1:]), TOPIC)
    assert await approvals.waiting_at(store, DM) == (first, second)
    assert await approvals.waiting_at(store, TOPIC) == (elsewhere,)
    assert await approvals.waiting_at(store, CHANNEL) == ()
    await answer(store, first)
    assert await approvals.waiting_at(store, DM) == (second,)


async def test_questions_are_deleted_with_their_session(store: Store, session: Session):
    lease = await hold(store, session.id)
    asked = await ask(store, lease)
    await sessions.delete(store, session.id, lease=lease)
    assert await approvals.get(store, asked.id) is None
    assert await sessions.void_approvals(store, session.id) == 0
    with pytest.raises(UserError, match="There is no question"):
        await answer(store, asked)


def in_row(tx: Tx, approval_id: int) -> str:
    return tx.one("SELECT state FROM approvals WHERE id = :id", id=approval_id)[0]


async def test_the_open_questions_of_an_owner_are_listed(
    store: Store, session: Session, clock: FakeClock
):
    lease = await hold(store, session.id)
    first = await ask(store, lease)
    await owners.ensure(store, "you")
    other = await sessions.create(store, "you", Platform.TELEGRAM)
    await ask(store, await hold(store, other.id))
    assert await approvals.list_waiting(store, "me") == (first,)
    clock.advance(MINUTES)
    assert await approvals.list_waiting(store, "me") == ()


# The results of calls that a crash or a take-over interrupted


async def outcomes(store: Store, session: Session) -> list[Outcome | None]:
    """Take the session over, say something, and return the results of the interrupted calls."""
    lease = await leases.acquire(store, session.id, "another terminal", take_over=True)
    start = await store.write(queries.begin, lease, said("go on"), (), AT)
    return [message.outcome for message in start.repairs]


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("answered", [None, Answer.ONCE, Answer.NEVER])
async def test_a_call_that_was_not_allowed_did_not_run(
    store: Store, session: Session, answered: Answer | None, moved: bool
):
    first, _ = called("shell", "edit").tool_calls
    lease = await hold(store, session.id, called("shell", "edit"))
    asked = await ask(store, lease, (first.id, *CALL[1:]))
    if answered is not None:
        await answer(store, asked, answered)
    if answered is Answer.NEVER:
        assert await approvals.use(store, lease, asked.id) is Answer.NEVER
    if moved:
        await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    assert await outcomes(store, session) == [Outcome.NOT_BEGUN, Outcome.NOT_BEGUN]


async def test_the_effect_of_a_call_that_was_allowed_is_unknown(store: Store, session: Session):
    (call,) = called("shell").tool_calls
    lease = await hold(store, session.id, called("shell"))
    asked = await ask(store, lease, (call.id, *CALL[1:]))
    await answer(store, asked)
    assert await approvals.use(store, lease, asked.id) is Answer.ONCE
    assert await outcomes(store, session) == [Outcome.INTERRUPTED]


async def test_the_effect_of_a_call_without_a_question_of_its_own_is_unknown(
    store: Store, session: Session
):
    (call,) = called("shell").tool_calls
    lease = await hold(store, session.id, called("shell"))
    await ask(store, lease, (call.id, *CALL[1:]))  # an earlier call with the same id
    later = structs.replace(called("shell"), at=datetime.now(UTC) + timedelta(days=1))
    await transcripts.append(store, lease, [later])
    assert await outcomes(store, session) == [Outcome.INTERRUPTED]
