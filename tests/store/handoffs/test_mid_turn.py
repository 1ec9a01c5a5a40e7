"""A handoff in the middle of a turn: the turn arrives with the session, and counts as paused until
it is continued."""

from __future__ import annotations

import pytest

from segue.approvals import queries as approvals
from segue.approvals.queries import Approval
from segue.core.address import Platform
from segue.core.approval import Answer
from segue.core.errors import PlatformLost, UserError
from segue.core.session import Lease, Session
from segue.core.transcript import Message, Outcome
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff
from segue.store import Store, gateways, inbox, leases, sessions, transcripts
from segue.turns import queries
from segue.turns.queries import TurnStart
from tests.store.conftest import OpenStore
from tests.store.samples import AT, TOPIC, called, hold, result, said, texts

TELEGRAM = Platform.TELEGRAM
CALLED = called("first", "second")
SECOND = CALLED.tool_calls[1]
PAUSED = (said("do it"), CALLED, result(CALLED.tool_calls[0]))


async def requested(store: Store, session: Session) -> tuple[Lease, Handoff]:
    """A terminal that has paused its turn after the first call, and requested a handoff."""
    lease = await hold(store, session.id, *PAUSED)
    return lease, await handoffs.request(store, session.id, TELEGRAM, lease=lease, mid_turn=True)


async def moved(store: Store, session: Session) -> None:
    await requested(store, session)
    claim = await handoffs.claim_next(store, [TELEGRAM])
    assert claim is not None
    assert claim.mid_turn
    assert await handoffs.complete(store, claim, address=TOPIC)


async def begin(store: Store, lease: Lease, message: Message | None = None) -> TurnStart:
    return await store.write(queries.begin, lease, message, [], AT)


async def asked(store: Store, lease: Lease) -> Approval:
    return await approvals.ask(store, lease, SECOND.id, "print", "run it", TOPIC, seconds=60)


async def test_the_moved_turn_has_an_inbox_entry_taken_by_the_session(
    store: Store, session: Session
):
    await moved(store, session)
    brought = await inbox.moved_turn(store, TOPIC)
    assert brought is not None
    assert (brought.session_id, brought.address, brought.body) == (session.id, TOPIC, "")
    assert await inbox.start_all(store, [TELEGRAM]) != ()
    await inbox.finish(store, [brought.no])
    assert await inbox.moved_turn(store, TOPIC) is None


async def test_a_handoff_between_two_turns_adds_no_inbox_entry(store: Store, session: Session):
    lease = await hold(store, session.id, *PAUSED)
    await handoffs.request(store, session.id, TELEGRAM, lease=lease)
    claim = await handoffs.claim_next(store, [TELEGRAM])
    assert claim is not None
    assert await handoffs.complete(store, claim, address=TOPIC)
    assert await inbox.waiting(store) == ()


async def test_after_the_move_the_open_calls_have_not_started(store: Store, session: Session):
    await moved(store, session)
    there = await leases.acquire(store, session.id, "a gateway")
    assert (await begin(store, there)).not_begun == (SECOND,)


async def test_an_open_call_is_interrupted_once_the_turn_has_started_at_the_new_address(
    store: Store, session: Session
):
    await moved(store, session)
    there = await leases.acquire(store, session.id, "a gateway")
    await begin(store, there)  # and the gateway is killed while the second call runs
    start = await begin(store, there)
    assert start.not_begun == ()
    assert [m.outcome for m in start.repairs] == [Outcome.INTERRUPTED]
    [handoff] = await handoffs.history(store, session.id)
    assert handoff.mid_turn  # a process that checks only now still sees it


async def test_a_handoff_to_where_the_session_is_closes_its_question_and_asks_again(
    store: Store, session: Session
):
    await moved(store, session)
    there = await leases.acquire(store, session.id, "a gateway")
    await begin(store, there)
    first = await asked(store, there)
    await handoffs.request(store, session.id, TELEGRAM, lease=there, mid_turn=True)
    claim = await handoffs.claim_next(store, [TELEGRAM])
    assert claim is not None
    assert await handoffs.complete(store, claim, address=TOPIC)
    with pytest.raises(UserError, match="the conversation has moved on"):
        await approvals.give(store, first.id, session.owner, TOPIC, Answer.NEVER)
    again = await asked(store, await leases.acquire(store, session.id, "a gateway"))
    assert again.id != first.id  # else its message would be one that was sent already
    assert await approvals.waiting_at(store, TOPIC) == (again,)


async def test_after_a_failed_handoff_the_open_calls_have_not_started(
    store: Store, session: Session
):
    lease, handoff = await requested(store, session)
    assert await handoffs.cancel(store, handoff.id)
    assert (await begin(store, lease)).not_begun == (SECOND,)
    assert await inbox.waiting(store) == ()


async def test_a_new_message_ends_the_paused_turn_and_its_open_calls_are_not_begun(
    store: Store, session: Session, open_store: OpenStore
):
    await requested(store, session)  # and the terminal is killed
    other = await leases.acquire(await open_store(), session.id, "another", take_over=True)
    start = await begin(store, other, said("never mind"))
    assert [m.outcome for m in start.repairs] == [Outcome.NOT_BEGUN]
    assert texts(await transcripts.load(store, session.id))[-1] == "never mind"


async def test_a_pause_ends_when_the_session_continues(store: Store, session: Session):
    lease, handoff = await requested(store, session)
    assert await handoffs.cancel(store, handoff.id)
    await transcripts.append(store, lease, [result(SECOND), called("third")])
    start = await begin(store, lease)
    assert [m.outcome for m in start.repairs] == [Outcome.INTERRUPTED]


async def test_a_gateway_that_lost_the_platform_cannot_complete_it(
    store: Store, session: Session, open_store: OpenStore
):
    """The gateway that serves it would not find the turn."""
    await requested(store, session)
    claim = await handoffs.claim_next(store, [TELEGRAM])
    assert claim is not None
    await gateways.announce(await open_store(), "another", [TELEGRAM])
    with pytest.raises(PlatformLost):
        await handoffs.complete(store, claim, address=TOPIC)
    there = await sessions.get(store, session.id)
    assert there is not None
    assert there.address is None
