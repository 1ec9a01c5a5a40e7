"""A complete handoff in a terminal: finished, cancelled or raced."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from segue.core.errors import NoGateway, SessionMoved
from segue.core.session import Session
from segue.handoffs import Completed, Failed, HandoffRequest, Stranded, Waiting, Working, hand_off
from segue.handoffs import queries as handoffs
from segue.handoffs.request import CLAIM_TIMEOUT
from segue.handoffs.values import REASONS, Failure, Handoff, State, Step
from segue.store import Store, errors, sessions, transcripts
from segue.testing.clock import FakeClock
from segue.turns import hold
from tests.handoffs.conftest import (
    BOUND,
    STEPS,
    TELEGRAM,
    Faulty,
    Gateway,
    Terminal,
    nothing_is_left,
    outcome,
    running,
    state,
)
from tests.store.conftest import OpenStore
from tests.store.samples import TOPIC, answered, said, texts

"""Seconds by which one side of a race starts earlier."""
EVERY_STEP = (None, *Step)
"""None: the request is not claimed yet."""


async def come_to(terminal: Terminal, gateway: Gateway, step: Step | None) -> None:
    """Let the handoff reach that step, and the terminal see it."""
    if step is None:
        await terminal.hears(Waiting)
        return
    await gateway.come_to(await gateway.claim(), step)
    await terminal.hears(Working, step)


# Complete handoffs


async def test_a_session_moves_and_every_step_is_reported(
    terminal: Terminal, gateway: Gateway, session: Session
):
    async with running(terminal, message="Go on there.") as task:
        await terminal.hears(Waiting)
        claim = await gateway.claim()
        assert claim.message == "Go on there."
        await terminal.hears(Working, Step.CLAIMED)
        for step in STEPS:
            await handoffs.record_step(gateway.store, claim, step)
            await terminal.hears(Working, step)
        assert await gateway.complete(claim, [said("You are here now."), answered("I am.")])
        last = await task
    assert terminal.told == [Waiting(TELEGRAM), *(Working(TELEGRAM, s) for s in Step), last]
    assert isinstance(last, Completed)


async def test_the_leaving_terminal_does_not_change_the_session(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session
):
    async with hold(store, session.id, "a terminal on desk", take_over=True) as terminal.held:
        async with running(terminal) as task:
            assert await gateway.complete(await gateway.claim(), [said("You are here now.")])
            assert isinstance(await task, Completed)
        async with asyncio.timeout(BOUND):
            await terminal.held.lost.wait()
        with pytest.raises(SessionMoved, match="telegram"):
            await transcripts.append(store, terminal.held.lease, [said("Am I still here?")])
    # It has left. The next message there finds the session open, complete and free.
    found = await sessions.get(gateway.store, session.id)
    assert found is not None
    assert (found.address, found.ended, found.messages) == (TOPIC, None, 1)
    async with hold(gateway.store, session.id, "a gateway") as held:
        await transcripts.append(gateway.store, held.lease, [said("I am on my phone.")])
    kept = await transcripts.load(store, session.id)
    assert texts(kept) == ["You are here now.", "I am on my phone."]


async def test_a_refused_request_leaves_nothing_behind(
    terminal: Terminal, store: Store, session: Session
):
    with pytest.raises(NoGateway):
        await terminal.hand_off()
    assert await handoffs.history(store, session.id) == ()
    await transcripts.append(store, terminal.held.lease, [said("Then I stay.")])


async def test_a_failed_handoff_leaves_the_session_in_the_terminal(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session
):
    async with running(terminal) as task:
        await handoffs.fail(gateway.store, await gateway.claim(), "The chat is gone.")
        last = await task
    assert last.text() == "The handoff failed. The chat is gone."
    await nothing_is_left(store, session)
    await transcripts.append(store, terminal.held.lease, [said("Then I stay.")])


async def test_a_request_that_was_not_claimed_fails_and_no_gateway_finds_it_later(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session, clock: FakeClock
):
    async with running(terminal) as task:
        await terminal.hears(Waiting)
        clock.advance(CLAIM_TIMEOUT)
        assert isinstance(await task, Failed)
    await nothing_is_left(store, session)
    assert await handoffs.claim_next(gateway.store, [TELEGRAM]) is None
    await transcripts.append(store, terminal.held.lease, [said("Then I stay.")])


# Cancelling


@pytest.mark.parametrize("step", EVERY_STEP)
@pytest.mark.parametrize("way", ["interrupted", "cancelled", "cancelled again and again", "closed"])
async def test_ctrl_c_at_any_step_leaves_no_ghost(
    terminal: Terminal,
    store: Store,
    gateway: Gateway,
    session: Session,
    step: Step | None,
    way: str,
):
    async with running(terminal) as task:
        await come_to(terminal, gateway, step)
        match way:
            case "interrupted":
                terminal.interrupt.set()
                assert (await task).text() == REASONS[Failure.CANCELLED]
            case "cancelled" | "cancelled again and again":
                task.cancel()
                await asyncio.sleep(0)
                while way == "cancelled again and again" and not task.done():
                    task.cancel()
                    await asyncio.sleep(0)
                with pytest.raises(asyncio.CancelledError):
                    await task
            case _:
                pass  # by leaving the block
    await nothing_is_left(store, session)
    latest = await state(store, session.id)
    assert (latest.state, latest.failure) == (State.FAILED, Failure.CANCELLED)
    assert await gateway.complete(latest) is False
    assert await handoffs.claim_next(gateway.store, [TELEGRAM]) is None
    # The terminal has its session, and can try again.
    await transcripts.append(store, terminal.held.lease, [said("Then I stay.")])
    again = Terminal(store, terminal.held)
    async with running(again) as task:
        assert await gateway.complete(await gateway.claim())
        assert isinstance(await task, Completed)


@pytest.mark.parametrize("step", EVERY_STEP)
async def test_a_terminal_that_breaks_out_of_the_loop_leaves_no_ghost(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session, step: Step | None
):
    async with contextlib.aclosing(
        hand_off(store, terminal.held, HandoffRequest(TELEGRAM))
    ) as steps:
        async for told in steps:
            if step is not None and told == Waiting(TELEGRAM):
                await gateway.come_to(await gateway.claim(), step)
            else:
                break
    await nothing_is_left(store, session)
    assert (await state(store, session.id)).failure is Failure.CANCELLED


async def test_ctrl_c_at_any_moment_of_the_request_leaves_no_ghost(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session, seed: int
):
    chance = random.Random(seed)
    for moment in range(120 if seed else 40):
        task = asyncio.create_task(terminal.hand_off())
        for _ in range(moment // 2):  # loop iterations, some of which the request takes
            await asyncio.sleep(0)
        if moment % 2:
            await asyncio.sleep(chance.uniform(0, 0.004))  # and thread switches, which vary
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await nothing_is_left(store, session)


async def test_an_interrupt_that_comes_too_late_shows_the_actual_outcome(
    terminal: Terminal, gateway: Gateway
):
    claiming = asyncio.create_task(gateway.claim())
    async with running(terminal) as task:
        await gateway.complete(await claiming)
        terminal.interrupt.set()
        assert isinstance(await task, Completed)


async def test_an_interrupt_before_the_request_cancels_the_handoff(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session
):
    terminal.interrupt.set()
    assert (await terminal.hand_off()).text() == REASONS[Failure.CANCELLED]
    await nothing_is_left(store, session)


async def test_a_stranded_handoff_can_be_cancelled(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session, clock: FakeClock
):
    async with running(terminal) as task:
        await come_to(terminal, gateway, Step.REPLYING)
        clock.advance(16)
        await terminal.hears(Stranded)
        terminal.interrupt.set()
        assert (await task).text() == REASONS[Failure.CANCELLED]
    await nothing_is_left(store, session)


async def test_a_cancellation_that_the_store_refuses_is_retried(
    terminal: Terminal,
    store: Store,
    gateway: Gateway,
    session: Session,
    caplog: pytest.LogCaptureFixture,
):
    engine = Faulty(store._engine)
    terminal.store = Store(engine)
    async with running(terminal) as task:
        await come_to(terminal, gateway, Step.REPLYING)
        engine.writes = [errors.busy("the store")]
        terminal.interrupt.set()
        assert (await task).text() == REASONS[Failure.CANCELLED]
    await nothing_is_left(store, session)
    assert "handoff not cancelled session" in caplog.text


async def test_a_store_that_cannot_be_written_does_not_hide_a_cancellation(
    terminal: Terminal,
    store: Store,
    gateway: Gateway,
    caplog: pytest.LogCaptureFixture,
):
    engine = Faulty(store._engine)
    terminal.store = Store(engine)
    async with running(terminal) as task:
        await come_to(terminal, gateway, Step.REPLYING)
        engine.writes = [errors.full("the store")]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "handoff not cancelled session" in caplog.text


# Races


async def completed_after(seconds: float, gateway: Gateway, claim: Handoff) -> bool:
    await asyncio.sleep(max(0, seconds))
    return await gateway.complete(claim, [said("Here.")])


@pytest.fixture
def leads(seed: int) -> list[float]:
    """Seconds by which one side starts earlier."""
    chance = random.Random(seed)
    return [chance.uniform(-0.003, 0.003) for _ in range(500 if seed else 12)]


async def test_of_an_interrupt_and_the_commit_one_wins_and_the_terminal_says_which(
    store: Store, gateway: Gateway, leads: list[float]
):
    for lead in leads:
        session = await sessions.create(store, "me", TELEGRAM)
        async with hold(store, session.id, "a terminal on desk") as held:
            terminal = Terminal(store, held)
            async with running(terminal) as task:
                claim = await gateway.claim()
                completing = asyncio.create_task(completed_after(-lead, gateway, claim))
                await asyncio.sleep(max(0, lead))
                terminal.interrupt.set()
                last = await task
                completed = await completing
        found = await sessions.get(store, session.id)
        assert found is not None
        assert outcome(last) == await state(store, session.id)
        assert isinstance(last, Completed) is completed
        assert found.messages == (1 if completed else 0)
        assert (found.address == TOPIC) is completed
        assert found.ended is None


async def test_of_a_cancelled_terminal_and_the_commit_exactly_one_wins(
    store: Store, gateway: Gateway, leads: list[float]
):
    for lead in leads:
        session = await sessions.create(store, "me", TELEGRAM)
        async with hold(store, session.id, "a terminal on desk") as held:
            task = asyncio.create_task(Terminal(store, held).hand_off())
            claim = await gateway.claim()
            completing = asyncio.create_task(completed_after(-lead, gateway, claim))
            await asyncio.sleep(max(0, lead))
            task.cancel()
            await asyncio.wait({task})
            completed = await completing
        latest = await state(store, session.id)
        assert latest.state is (State.COMPLETED if completed else State.FAILED)


async def test_a_session_that_another_terminal_takes_over_is_no_longer_handed_off(
    terminal: Terminal, store: Store, gateway: Gateway, session: Session, open_store: OpenStore
):
    async with running(terminal) as task:
        claim = await gateway.claim()
        await terminal.hears(Working)
        other = await open_store()
        async with hold(other, session.id, "a terminal on sofa", take_over=True) as theirs:
            last = await task
            assert isinstance(last, Failed)
            assert "a terminal on sofa" in last.text()
            assert await gateway.complete(claim) is False
            # The new holder can hand it off at once.
            there = Terminal(other, theirs)
            async with running(there) as task:
                assert await gateway.complete(await gateway.claim())
                assert isinstance(await task, Completed)


async def test_a_terminal_that_no_longer_has_the_session_cannot_hand_it_off(
    terminal: Terminal, gateway: Gateway, session: Session, open_store: OpenStore
):
    other = await open_store()
    async with hold(other, session.id, "a terminal on sofa", take_over=True):
        with pytest.raises(SessionMoved, match="a terminal on sofa"):
            await terminal.hand_off()
    assert await handoffs.history(other, session.id) == ()


async def test_two_terminals_can_hand_off_at_the_same_time(
    terminal: Terminal, gateway: Gateway, open_store: OpenStore
):
    other = await open_store()
    second = await sessions.create(other, "me", TELEGRAM)
    async with hold(other, second.id, "a terminal on sofa") as held:
        there = Terminal(other, held)
        async with running(terminal) as slow, running(there) as quick:
            claims = [await gateway.claim(), await gateway.claim()]
            mine, theirs = sorted(claims, key=lambda claim: claim.session_id == second.id)
            assert await gateway.complete(theirs)
            assert isinstance(await quick, Completed)
            terminal.interrupt.set()
            assert (await slow).text() == REASONS[Failure.CANCELLED]
            assert await gateway.complete(mine) is False


async def test_a_dead_gateway_only_delays_the_terminal(
    terminal: Terminal, gateway: Gateway, open_store: OpenStore
):
    async with running(terminal) as task:
        await come_to(terminal, gateway, Step.DELIVERING)
        await gateway.store.close()
        await terminal.hears(Stranded)
        next_one = Gateway(await open_store())
        await next_one.announce()
        assert await next_one.complete(await next_one.claim())
        assert isinstance(await task, Completed)
