"""Wishes: a process waits for a session that another one holds."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Platform
from segue.core.errors import HandoffError, SessionError, SessionMoved, SessionNotFound
from segue.core.session import Origin, Session
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.store import Store, Topic, bindings, gateways, inbox, leases, sessions, wishes
from segue.store.base import Tx
from segue.store.wishes import Wish
from segue.turns import HeldLease
from segue.turns import hold as hold_session
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, TOPIC, called, hold, result, said, say, settled

TELEGRAM = Platform.TELEGRAM
CALLED = called("first", "second")
PAUSED = (said("do it"), CALLED, result(CALLED.tool_calls[0]))


def _taken(tx: Tx, number: int, session_id: str) -> None:
    inbox.take(tx, [number], session_id)


async def changed(held: HeldLease) -> Wish | None:
    """Wait until the holder sees another wish, or none."""
    async with asyncio.timeout(10):
        await held.wish_changed.wait()
    held.wish_changed.clear()
    return held.wish


async def test_the_holder_sees_the_wish_and_its_withdrawal(
    store: Store, session: Session, open_store: OpenStore
):
    waits = await open_store()
    async with hold_session(store, session.id, "a terminal") as held:
        assert not held.wished.is_set()
        wish = await wishes.make(waits, session.id, DM, message="off", new_thread=True)
        assert await changed(held) == wish
        assert held.wished.is_set()
        assert (wish.home, wish.message, wish.new_thread, wish.now) == (DM, "off", True, False)
        assert await wishes.take_back(waits, session.id, wish.key)
        assert await changed(held) is None
        assert not held.wished.is_set()
        assert not held.lost.is_set()


async def test_a_process_that_acquires_the_session_later_sees_the_wish(
    store: Store, session: Session, open_store: OpenStore
):
    wish = await wishes.make(await open_store(), session.id, DM)
    async with hold_session(store, session.id, "a gateway") as held:
        assert held.wish == wish
        assert held.wished.is_set()


async def test_a_wish_for_now_stops_the_running_turn(
    store: Store, session: Session, open_store: OpenStore
):
    stop = asyncio.Event()
    async with hold_session(store, session.id, "a terminal") as held:
        with held.stopping(stop):
            await wishes.make(await open_store(), session.id, DM, now=True)
            async with asyncio.timeout(10):
                await stop.wait()
        assert held.moved is None


async def test_the_wish_of_a_dead_process_counts_as_withdrawn(
    store: Store, session: Session, open_store: OpenStore
):
    waits = await open_store()
    wish = await wishes.make(waits, session.id, DM)
    await waits.close()
    lease = await hold(store, session.id)
    assert await handoffs.grant(store, wish, lease) is None
    assert not (await handoffs.look(store, wish)).is_open
    async with hold_session(store, session.id, "a terminal", take_over=True) as held:
        assert held.wish is None
    other = await wishes.make(store, session.id, TOPIC)
    assert (await handoffs.look(store, other)).is_open


async def test_a_session_has_one_wish(store: Store, session: Session, open_store: OpenStore):
    await wishes.make(store, session.id, DM)
    with pytest.raises(HandoffError, match="to telegram"):
        await wishes.make(await open_store(), session.id, CHANNEL)


async def test_a_wish_for_a_session_that_is_being_handed_off_is_refused(
    store: Store, session: Session
):
    await handoffs.request(store, session.id, TELEGRAM)
    with pytest.raises(SessionError, match="A handoff of this session is in progress"):
        await wishes.make(store, session.id, DM)


async def test_a_wish_for_an_unknown_session_is_refused(store: Store):
    with pytest.raises(SessionNotFound):
        await wishes.make(store, "20260101_120000_00000000", DM)


async def test_a_granted_wish_becomes_a_handoff_with_its_fields_and_the_paused_turn(
    store: Store, session: Session, open_store: OpenStore
):
    waits = await open_store()
    lease = await hold(store, session.id, *PAUSED)
    wish = await wishes.make(waits, session.id, DM, message="off", new_thread=True)
    assert (await handoffs.look(waits, wish)).holder == "a terminal on desk"
    async with waits.listen(Topic.HANDOFFS) as wake:
        await settled(wake)
        granted = await handoffs.grant(store, wish, lease, mid_turn=True)
        assert await wake.wait(10)
    assert granted is not None
    assert (granted.state, granted.platform, granted.home) == (State.PENDING, TELEGRAM, DM)
    assert (granted.message, granted.new_thread, granted.mid_turn) == ("off", True, True)
    seen = await handoffs.look(waits, wish)
    assert (seen.handoff, seen.is_open) == (granted, False)
    assert not await wishes.take_back(waits, session.id, wish.key)  # cancel the handoff instead
    assert await handoffs.grant(store, wish, lease, mid_turn=True) == granted


async def test_a_withdrawn_wish_cannot_be_granted(store: Store, session: Session):
    lease = await hold(store, session.id)
    wish = await wishes.make(store, session.id, DM)
    assert await wishes.take_back(store, session.id)
    assert not await wishes.take_back(store, session.id)
    assert await handoffs.grant(store, wish, lease) is None
    assert await handoffs.history(store, session.id) == ()


async def test_only_the_holder_can_grant_a_wish(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    wish = await wishes.make(store, session.id, DM)
    await leases.acquire(await open_store(), session.id, "another", take_over=True)
    with pytest.raises(SessionMoved):
        await handoffs.grant(store, wish, lease)
    assert (await handoffs.look(store, wish)).is_open


async def test_moving_the_session_elsewhere_closes_its_wish(store: Store, session: Session):
    wish = await wishes.make(store, session.id, DM)
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    seen = await handoffs.look(store, wish)
    assert (seen.handoff, seen.is_open) == (None, False)


async def test_a_session_is_not_free_while_a_gateway_can_resume_its_turn(
    store: Store, session: Session
):
    """It would move without the turn, and the message would not be answered."""
    wish = await wishes.make(store, session.id, DM)
    assert (await handoffs.look(store, wish)).is_free
    lease = await hold(store, session.id)
    assert not (await handoffs.look(store, wish)).is_free
    await leases.release(store, lease)
    await gateways.announce(store, "gateway", [TELEGRAM])
    number = await inbox.record(store, "bot", "1", TOPIC, "hello")
    assert number is not None
    await store.write(_taken, number, session.id)
    assert not (await handoffs.look(store, wish)).is_free
    await inbox.finish(store, [number])
    assert (await handoffs.look(store, wish)).is_free


async def test_a_turn_that_moves_is_finished_at_its_old_address(store: Store, session: Session):
    """Another gateway must not resume it there."""
    await gateways.announce(store, "gateway", [TELEGRAM])
    number = await inbox.record(store, "bot", "1", DM, "do it")
    assert number is not None
    await store.write(_taken, number, session.id)
    lease = await hold(store, session.id, *PAUSED)
    wish = await wishes.make(store, session.id, DM)
    assert await handoffs.grant(store, wish, lease, mid_turn=True)
    claim = await handoffs.claim_next(store, [TELEGRAM])
    assert claim is not None
    assert await handoffs.complete(store, claim, address=TOPIC)
    assert [entry.address for entry in await inbox.waiting(store)] == [TOPIC]


async def test_a_deleted_session_has_no_wish(store: Store, session: Session):
    await say(store, session.id, said("hello"))
    wish = await wishes.make(store, session.id, DM)
    await sessions.delete(store, session.id)
    assert not (await handoffs.look(store, wish)).is_open
