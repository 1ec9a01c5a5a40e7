"""Release requests: a process waits for a session that another one holds."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Platform
from segue.core.errors import HandoffError, SessionError, SessionMoved, SessionNotFound
from segue.core.session import Origin, Session
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.store import Store, Topic, bindings, gateways, inbox, leases, release_requests, sessions
from segue.store.base import Tx
from segue.store.release_requests import ReleaseRequest
from segue.turns import HeldLease
from segue.turns import hold as hold_session
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, TOPIC, called, hold, result, said, say, settled

TELEGRAM = Platform.TELEGRAM
CALLED = called("first", "second")
PAUSED = (said("do it"), CALLED, result(CALLED.tool_calls[0]))


def _taken(tx: Tx, number: int, session_id: str) -> None:
    inbox.take(tx, [number], session_id)


async def changed(held: HeldLease) -> ReleaseRequest | None:
    """Wait until the holder sees another request, or none."""
    async with asyncio.timeout(10):
        await held.release_request_changed.wait()
    held.release_request_changed.clear()
    return held.release_request


async def test_the_holder_sees_the_release_request_and_its_withdrawal(
    store: Store, session: Session, open_store: OpenStore
):
    waits = await open_store()
    async with hold_session(store, session.id, "a terminal") as held:
        assert not held.release_requested.is_set()
        request = await release_requests.create(
            waits, session.id, DM, message="off", new_thread=True
        )
        assert await changed(held) == request
        assert held.release_requested.is_set()
        assert (request.home, request.message, request.new_thread, request.now) == (
            DM,
            "off",
            True,
            False,
        )
        assert await release_requests.withdraw(waits, session.id, request.key)
        assert await changed(held) is None
        assert not held.release_requested.is_set()
        assert not held.lost.is_set()


async def test_a_process_that_acquires_the_session_later_sees_the_release_request(
    store: Store, session: Session, open_store: OpenStore
):
    request = await release_requests.create(await open_store(), session.id, DM)
    async with hold_session(store, session.id, "a gateway") as held:
        assert held.release_request == request
        assert held.release_requested.is_set()


async def test_a_request_for_now_stops_the_running_turn(
    store: Store, session: Session, open_store: OpenStore
):
    stop = asyncio.Event()
    async with hold_session(store, session.id, "a terminal") as held:
        with held.stopping(stop):
            await release_requests.create(await open_store(), session.id, DM, now=True)
            async with asyncio.timeout(10):
                await stop.wait()
        assert held.moved is None


async def test_the_release_request_of_a_dead_process_counts_as_withdrawn(
    store: Store, session: Session, open_store: OpenStore
):
    waits = await open_store()
    request = await release_requests.create(waits, session.id, DM)
    await waits.close()
    lease = await hold(store, session.id)
    assert await handoffs.grant(store, request, lease) is None
    assert not (await handoffs.release_state(store, request)).is_open
    async with hold_session(store, session.id, "a terminal", take_over=True) as held:
        assert held.release_request is None
    other = await release_requests.create(store, session.id, TOPIC)
    assert (await handoffs.release_state(store, other)).is_open


async def test_a_session_has_one_release_request(
    store: Store, session: Session, open_store: OpenStore
):
    await release_requests.create(store, session.id, DM)
    with pytest.raises(HandoffError, match="to telegram"):
        await release_requests.create(await open_store(), session.id, CHANNEL)


async def test_a_request_for_a_session_that_is_being_handed_off_is_refused(
    store: Store, session: Session
):
    await handoffs.request(store, session.id, TELEGRAM)
    with pytest.raises(SessionError, match="A handoff of this session is in progress"):
        await release_requests.create(store, session.id, DM)


async def test_a_request_for_an_unknown_session_is_refused(store: Store):
    with pytest.raises(SessionNotFound):
        await release_requests.create(store, "20260101_120000_00000000", DM)


async def test_a_granted_release_request_becomes_a_handoff_with_its_fields_and_the_paused_turn(
    store: Store, session: Session, open_store: OpenStore
):
    waits = await open_store()
    lease = await hold(store, session.id, *PAUSED)
    request = await release_requests.create(waits, session.id, DM, message="off", new_thread=True)
    assert (await handoffs.release_state(waits, request)).holder == "a terminal on desk"
    async with waits.listen(Topic.HANDOFFS) as wake:
        await settled(wake)
        granted = await handoffs.grant(store, request, lease, mid_turn=True)
        assert await wake.wait(10)
    assert granted is not None
    assert (granted.state, granted.platform, granted.home) == (State.PENDING, TELEGRAM, DM)
    assert (granted.message, granted.new_thread, granted.mid_turn) == ("off", True, True)
    seen = await handoffs.release_state(waits, request)
    assert (seen.handoff, seen.is_open) == (granted, False)
    assert not await release_requests.withdraw(
        waits, session.id, request.key
    )  # cancel the handoff instead
    assert await handoffs.grant(store, request, lease, mid_turn=True) == granted


async def test_a_withdrawn_release_request_cannot_be_granted(store: Store, session: Session):
    lease = await hold(store, session.id)
    request = await release_requests.create(store, session.id, DM)
    assert await release_requests.withdraw(store, session.id)
    assert not await release_requests.withdraw(store, session.id)
    assert await handoffs.grant(store, request, lease) is None
    assert await handoffs.history(store, session.id) == ()


async def test_only_the_holder_can_grant_a_release_request(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    request = await release_requests.create(store, session.id, DM)
    await leases.acquire(await open_store(), session.id, "another", take_over=True)
    with pytest.raises(SessionMoved):
        await handoffs.grant(store, request, lease)
    assert (await handoffs.release_state(store, request)).is_open


async def test_moving_the_session_elsewhere_closes_its_release_request(
    store: Store, session: Session
):
    request = await release_requests.create(store, session.id, DM)
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    seen = await handoffs.release_state(store, request)
    assert (seen.handoff, seen.is_open) == (None, False)


async def test_a_session_is_not_free_while_a_gateway_can_resume_its_turn(
    store: Store, session: Session
):
    """It would move without the turn, and the message would not be answered."""
    request = await release_requests.create(store, session.id, DM)
    assert (await handoffs.release_state(store, request)).is_free
    lease = await hold(store, session.id)
    assert not (await handoffs.release_state(store, request)).is_free
    await leases.release(store, lease)
    await gateways.announce(store, "gateway", [TELEGRAM])
    number = await inbox.record(store, "bot", "1", TOPIC, "hello")
    assert number is not None
    await store.write(_taken, number, session.id)
    assert not (await handoffs.release_state(store, request)).is_free
    await inbox.finish(store, [number])
    assert (await handoffs.release_state(store, request)).is_free


async def test_a_turn_that_moves_is_finished_at_its_old_address(store: Store, session: Session):
    """Another gateway must not resume it there."""
    await gateways.announce(store, "gateway", [TELEGRAM])
    number = await inbox.record(store, "bot", "1", DM, "do it")
    assert number is not None
    await store.write(_taken, number, session.id)
    lease = await hold(store, session.id, *PAUSED)
    request = await release_requests.create(store, session.id, DM)
    assert await handoffs.grant(store, request, lease, mid_turn=True)
    claim = await handoffs.claim_next(store, [TELEGRAM])
    assert claim is not None
    assert await handoffs.complete(store, claim, address=TOPIC)
    assert [entry.address for entry in await inbox.waiting(store)] == [TOPIC]


async def test_a_deleted_session_has_no_release_request(store: Store, session: Session):
    await say(store, session.id, said("hello"))
    request = await release_requests.create(store, session.id, DM)
    await sessions.delete(store, session.id)
    assert not (await handoffs.release_state(store, request)).is_open
