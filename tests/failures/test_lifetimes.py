"""Terminals and gateways that leave, hang or die during a handoff, with a real gateway.

A docstring says how the handoff of other programs fails there.
"""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Platform
from segue.core.errors import NoGateway
from segue.core.session import ME
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import CLAIM_SECONDS, LEASE_SECONDS
from segue.handoffs.request import CLAIM_TIMEOUT
from segue.handoffs.values import Failure, State, Step
from segue.store import Topic, sessions
from tests.failures.conftest import HANDED_OFF, STAYED, WITHIN, Household
from tests.harness.household import LOOK


async def test_the_terminal_that_handed_off_a_session_does_not_change_it(household: Household):
    """After "Handoff complete" the leaving terminal closes the session that it handed off; the
    first reply from the phone starts an empty one."""
    async with household.gateway():
        async with household.terminal("one") as shown:
            shown.say("/handoff telegram")
            assert await shown.end() == 0
        session = await household.session()
        assert (session.ended, session.end_reason) == (None, None)
        thread = await household.thread()
        await household.writes("go on", thread)
        answer = await household.sees("(3) go on")
        assert answer.thread == thread
    assert [s.id for s in await sessions.list_sessions(household.store, ME)] == [session.id]
    users = [text for role, text in await household.said() if role == "user"]
    assert [users[0], *users[2:]] == ["one", "go on"]


async def test_a_session_that_was_handed_off_stays_in_the_lists_of_the_terminal(
    household: Household,
):
    """A handed-off session vanishes from the terminal's own list. (For /sessions in a chat, see
    `test_both_places_that_a_session_left_say_how_to_bring_it_back`.)"""
    session = await household.left("one")
    async with household.gateway():
        assert (await household.shell("handoff", "Sums", "telegram")).returncode == 0
        listed = await household.shell("sessions")
        (line,) = [line for line in listed.stdout.splitlines() if "Sums" in line]
        assert "telegram" in line
        output = await household.shell("sessions", "show", "Sums")
        assert session.id in output.stdout


async def test_the_terminal_does_not_give_up_while_the_gateway_is_at_work(household: Household):
    """The terminal gives up after 60 s while the gateway is still working; both then write to
    one session, interleaved. (Here the timeout applies only to a gateway that has not started.)"""
    household.model.hold(HANDED_OFF)
    async with household.gateway(), household.desk("one") as desk:
        handing = asyncio.create_task(desk.hand_off())
        await household.handoff(State.RUNNING, step=Step.REPLYING)
        household.advance(CLAIM_TIMEOUT + 2)
        await asyncio.wait({handing}, timeout=3 * LOOK)
        assert not handing.done()
        assert (await household.handoffs())[0].state is State.RUNNING
        household.model.let_go()
        done = await handing
    assert (done.state, done.attempt) == (State.COMPLETED, 1)
    said = await household.said()
    assert [role for role, _ in said] == ["user", "assistant"] * 2
    assert HANDED_OFF in said[2][1]


async def test_a_gateway_whose_handoff_is_cancelled_writes_nothing_more(
    household: Household,
):
    """The same from the other side: the terminal continues, and the unfinished work of the gateway
    is neither written between its turns nor moves the session."""
    household.model.hold(HANDED_OFF)
    interrupt = asyncio.Event()
    async with household.gateway() as gateway, household.desk("one") as desk:
        handing = asyncio.create_task(desk.hand_off(interrupt=interrupt))
        await household.model.hears(HANDED_OFF)
        interrupt.set()
        assert (await handing).failure is Failure.CANCELLED
        await desk.says("two")
        household.model.let_go()
        await desk.says("three")
        await gateway.ends()
        await household.sees(STAYED)
        await desk.says("four")
        said = ["one", "(1) one", "two", "(2) two", "three", "(3) three"]
        said += ["four", "(4) four"]
        assert [text for _, text in await household.said()] == said
    address = (await household.session()).address
    assert address is not None
    assert address.platform is Platform.LOCAL


async def test_a_killed_gateway_is_replaced_and_the_handoff_continues(household: Household):
    """Killed after the claim: `running` forever; a retry is refused as "already in flight"."""
    household.model.hold(HANDED_OFF)
    async with household.desk("one") as desk:
        async with household.gateway() as first:
            handing = asyncio.create_task(desk.hand_off())
            await household.model.hears(HANDED_OFF)
            thread = await household.thread()
            first.kill()
            await desk.until("the gateway stopped; waiting for another one to continue")
        household.model.let_go()
        async with household.gateway():
            done = await handing
            assert (done.state, done.attempt) == (State.COMPLETED, 2)
            assert await household.thread() == thread
            await household.writes("go on", thread)
            await household.sees("(3) go on")
    assert len(await household.handoffs()) == 1
    greetings = [text for text in await household.texts(thread) if HANDED_OFF in text]
    assert len(greetings) == 1


async def test_the_handoff_of_a_killed_gateway_is_released_within_30_seconds_and_can_be_retried(
    household: Household,
):
    """The same when no gateway comes back: the failure is reported with advice, the session
    continues in the terminal, and the retry is not refused."""
    household.model.hold(HANDED_OFF)
    async with household.desk("one") as desk:
        async with household.gateway() as first:
            handing = asyncio.create_task(desk.hand_off())
            await household.model.hears(HANDED_OFF)
            first.kill()
        await desk.until("the gateway stopped; waiting for another one to continue")
        household.advance(LEASE_SECONDS + CLAIM_SECONDS)
        failed = await handing
        assert (failed.state, failed.failure) == (State.FAILED, Failure.ABANDONED)
        output = await household.shell("gateway", "status")
        assert (output.returncode, "`segue gateway start`" in output.stdout) == (3, True)
        household.model.let_go()
        await desk.says("two")
        async with household.gateway():
            await household.sees(STAYED)
            assert (await desk.hand_off()).state is State.COMPLETED
    assert [h.state for h in await household.handoffs()] == [State.COMPLETED, State.FAILED]


async def nothing_was_executed(household: Household) -> None:
    """Check that a new gateway claims no handoff and sends no request to the model."""
    async with household.gateway() as gateway:
        await household.answered()
        await gateway.ends()
    assert (await household.rig.look(household.chat)).threads == ()
    assert household.model.requests == []
    assert all(handoff.attempt == 0 for handoff in await household.handoffs())


async def test_without_a_gateway_the_handoff_is_refused_and_leaves_no_request(household: Household):
    """No gateway: a minute of silence; Ctrl-C leaves `pending`, and a gateway started later
    executes that ghost and pays for a model call."""
    async with household.desk("one") as desk:
        with pytest.raises(NoGateway, match="No gateway is running"):
            await desk.hand_off()
        await desk.says("two")
        await nothing_was_executed(household)
        assert await household.handoffs() == ()


async def test_a_cancelled_handoff_is_never_executed_later(household: Household):
    """The same with a gateway that is frozen: a cancelled handoff stays cancelled when it
    continues."""
    interrupt = asyncio.Event()
    async with household.gateway() as gateway:
        async with household.desk("one") as desk:
            gateway.freeze()
            handing = asyncio.create_task(desk.hand_off(interrupt=interrupt))
            await desk.until("waiting for a gateway to take it to telegram")
            interrupt.set()
            assert (await handing).failure is Failure.CANCELLED
            gateway.thaw()
            await household.answered()
            (handoff,) = await household.handoffs()
            assert (handoff.state, handoff.attempt) == (State.FAILED, 0)
        gateway.kill()
        await nothing_was_executed(household)


async def test_the_request_of_a_killed_terminal_is_not_executed_an_hour_later(household: Household):
    """The same when the terminal can no longer cancel."""
    await household.left("one")
    async with household.gateway() as gateway:
        gateway.freeze()
        with household.begun("handoff", "Sums", "telegram"):
            await household.handoff(State.PENDING)
        gateway.kill()
        household.advance(CLAIM_TIMEOUT)
        async with asyncio.timeout(WITHIN), household.store.listen(Topic.HANDOFFS) as wake:
            while await handoffs.pending(household.store):
                await wake.wait(0.1)
        await nothing_was_executed(household)
