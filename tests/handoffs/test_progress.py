"""The progress of a handoff, as its followers see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

import pytest

from segue.core.errors import SessionNotFound, StoreError
from segue.core.session import Session
from segue.handoffs import (
    Completed,
    Failed,
    HandoffRequest,
    Progress,
    Stranded,
    Waiting,
    Working,
    request,
)
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import CLAIM_SECONDS, LEASE_SECONDS
from segue.handoffs.request import CLAIM_TIMEOUT, MAX_FAILED_POLLS, ask, follow
from segue.handoffs.values import MAX_ATTEMPTS, REASONS, Failure, Handoff, State, Step
from segue.store import Store, errors, gateways, sessions
from segue.store.wake import Notifier, Notify
from segue.testing.clock import FakeClock
from tests.handoffs.conftest import BOUND, STEPS, TELEGRAM, Faulty, Gateway, outcome
from tests.store.conftest import OpenStore
from tests.store.samples import TOPIC

pytestmark = pytest.mark.usefixtures("gateway", "often")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often, so that the tests are fast."""
    monkeypatch.setattr(request, "POLL_SECONDS", 0.02)


@pytest.fixture
def asked(store: Store, session: Session, gateway: Gateway, runner: asyncio.Runner) -> Handoff:
    """A request that is not claimed yet."""
    return runner.run(ask(store, session.id, HandoffRequest(TELEGRAM)))


async def next_progress(steps: AsyncGenerator[Progress]) -> Progress:
    """The next progress."""
    async with asyncio.timeout(BOUND):
        return await anext(steps)


async def all_told(store: Store, handoff: Handoff) -> list[Progress]:
    async with asyncio.timeout(BOUND):
        return [step async for step in follow(store, handoff)]


async def test_each_step_is_reported_once_as_it_happens(
    store: Store, asked: Handoff, gateway: Gateway
):
    steps = follow(store, asked)
    assert await next_progress(steps) == Waiting(TELEGRAM)
    claim = await gateway.claim()
    assert await next_progress(steps) == Working(TELEGRAM, Step.CLAIMED)
    for step in STEPS:
        assert await handoffs.record_step(gateway.store, claim, step)
        assert await next_progress(steps) == Working(TELEGRAM, step)
        assert await handoffs.heartbeat(gateway.store, claim)  # which is nothing new
    assert await gateway.complete(claim)
    last = await next_progress(steps)
    assert isinstance(last, Completed)
    assert (last.handoff.state, last.handoff.thread) == (State.COMPLETED, TOPIC)
    assert [step async for step in steps] == []


async def test_each_step_wakes_the_followers(
    store: Store, asked: Handoff, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(request, "POLL_SECONDS", 10 * BOUND)
    steps = follow(store, asked)
    await next_progress(steps)
    claim = await gateway.claim()
    await next_progress(steps)
    for step in STEPS * 3:
        await handoffs.record_step(gateway.store, claim, step)
        await next_progress(steps)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Waiting(TELEGRAM), "waiting for a gateway to take it to telegram…"),
        (Working(TELEGRAM, Step.CLAIMED), "taken up by a gateway…"),
        (Working(TELEGRAM, Step.OPENING), "opening a thread on telegram…"),
        (Working(TELEGRAM, Step.REPLYING, 2), "agent replying on telegram (attempt 2 of 3)…"),
        (Working(TELEGRAM, Step.DELIVERING), "delivering on telegram…"),
        (Stranded(TELEGRAM), "the gateway stopped; waiting for another one to continue…"),
    ],
)
def test_every_step_has_a_text(progress: Progress, text: str):
    assert progress.text() == text


async def test_a_completed_handoff_is_reported_with_its_place(
    store: Store, asked: Handoff, gateway: Gateway
):
    await gateway.complete(await gateway.claim())
    (last,) = await all_told(store, asked)
    assert last.text() == "The session is on telegram group -100200, thread 7 now."


async def test_a_failed_handoff_is_reported_with_its_reason(
    store: Store, asked: Handoff, gateway: Gateway
):
    await handoffs.fail(gateway.store, await gateway.claim(), "The chat is\x1b[31m gone.")
    (last,) = await all_told(store, asked)
    assert last.text() == "The handoff failed. The chat is[31m gone."


async def test_the_outcome_is_reported_even_if_another_handoff_was_requested(
    store: Store, asked: Handoff
):
    assert await handoffs.cancel(store, asked.id)
    await ask(store, asked.session_id, HandoffRequest(TELEGRAM))
    (last,) = await all_told(store, asked)
    assert outcome(last).id == asked.id
    assert last.text() == REASONS[Failure.CANCELLED]


async def test_following_ends_if_the_session_is_deleted(store: Store, asked: Handoff):
    await handoffs.cancel(store, asked.id)
    await sessions.delete(store, asked.session_id)
    with pytest.raises(SessionNotFound):
        await all_told(store, asked)


# Unclaimed requests


async def test_a_request_that_is_not_claimed_within_seconds_fails_and_says_how_to_start_a_gateway(
    store: Store, asked: Handoff, gateway: Gateway, clock: FakeClock
):
    steps = follow(store, asked)
    assert await next_progress(steps) == Waiting(TELEGRAM)
    clock.advance(CLAIM_TIMEOUT)
    last = await next_progress(steps)
    assert outcome(last).failure is Failure.EXPIRED
    assert "`segue gateway start`" in last.text()
    assert await handoffs.claim(gateway.store, asked.id) is None


async def test_a_request_claimed_at_the_last_moment_continues(
    store: Store, asked: Handoff, gateway: Gateway, clock: FakeClock
):
    steps = follow(store, asked)
    await next_progress(steps)
    clock.advance(CLAIM_TIMEOUT - 0.001)
    claim = await gateway.claim()
    clock.advance(CLAIM_TIMEOUT)
    assert await next_progress(steps) == Working(TELEGRAM, Step.CLAIMED)
    assert await gateway.complete(claim)
    assert isinstance(await next_progress(steps), Completed)


async def test_the_terminal_waits_for_a_slow_gateway(
    store: Store, asked: Handoff, gateway: Gateway, clock: FakeClock
):
    steps = follow(store, asked)
    await next_progress(steps)
    claim = await gateway.claim()
    await next_progress(steps)
    for _ in range(60):  # ten minutes
        clock.advance(10)
        await gateways.heartbeat(gateway.store)
        assert await handoffs.heartbeat(gateway.store, claim)
    await handoffs.record_step(gateway.store, claim, Step.REPLYING)
    assert await next_progress(steps) == Working(TELEGRAM, Step.REPLYING)
    assert await gateway.complete(claim)
    assert isinstance(await next_progress(steps), Completed)


# The gateway dies


async def test_if_the_gateway_dies_the_next_one_continues(
    store: Store, asked: Handoff, gateway: Gateway, open_store: OpenStore
):
    steps = follow(store, asked)
    await next_progress(steps)
    claim = await gateway.claim()
    await handoffs.record_step(gateway.store, claim, Step.OPENING, thread=TOPIC)
    await next_progress(steps)
    await gateway.store.close()
    assert await next_progress(steps) == Stranded(TELEGRAM)
    next_one = Gateway(await open_store())
    await next_one.announce()
    claim = await next_one.claim()
    assert await next_progress(steps) == Working(TELEGRAM, Step.OPENING, 2)
    assert claim.thread == TOPIC
    assert await next_one.complete(claim)
    assert isinstance(await next_progress(steps), Completed)


async def test_a_gateway_that_hangs_is_replaced_when_its_claim_expires(
    store: Store, asked: Handoff, gateway: Gateway, open_store: OpenStore, clock: FakeClock
):
    steps = follow(store, asked)
    await next_progress(steps)
    await gateway.claim()
    await next_progress(steps)
    clock.advance(LEASE_SECONDS)
    assert await next_progress(steps) == Stranded(TELEGRAM)
    next_one = Gateway(await open_store())
    await next_one.announce()
    claim = await next_one.claim()
    assert await next_progress(steps) == Working(TELEGRAM, Step.CLAIMED, 2)
    assert await next_one.complete(claim)
    assert isinstance(await next_progress(steps), Completed)


async def test_if_no_gateway_replaces_a_dead_one_the_handoff_fails_and_can_be_retried(
    store: Store, asked: Handoff, gateway: Gateway, open_store: OpenStore, clock: FakeClock
):
    steps = follow(store, asked)
    await next_progress(steps)
    await gateway.claim()
    await next_progress(steps)
    await gateway.store.close()
    clock.advance(LEASE_SECONDS)
    assert await next_progress(steps) == Stranded(TELEGRAM)
    clock.advance(CLAIM_SECONDS)
    last = await next_progress(steps)
    assert outcome(last).failure is Failure.ABANDONED
    await Gateway(await open_store()).announce()
    assert (await ask(store, asked.session_id, HandoffRequest(TELEGRAM))).state is State.PENDING


async def test_following_ends_after_repeated_deaths_of_gateways(
    store: Store, asked: Handoff, gateway: Gateway, open_store: OpenStore
):
    steps = follow(store, asked)
    last = await next_progress(steps)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        await gateway.claim()
        assert await next_progress(steps) == Working(TELEGRAM, Step.CLAIMED, attempt)
        await gateway.store.close()
        last = await next_progress(steps)
        gateway = Gateway(await open_store())
        await gateway.announce()
    assert isinstance(last, Failed)
    assert last.handoff.failure is Failure.ABANDONED


# Errors of the store


async def test_a_failed_poll_is_retried(
    store: Store, asked: Handoff, gateway: Gateway, caplog: pytest.LogCaptureFixture
):
    engine = Faulty(store._engine)
    steps = follow(Store(engine), asked)
    await next_progress(steps)
    engine.reads = [errors.busy("the store")] * (MAX_FAILED_POLLS - 1)
    await gateway.complete(await gateway.claim())
    assert isinstance(await next_progress(steps), Completed)
    assert engine.reads == []
    assert len(caplog.records) == MAX_FAILED_POLLS - 1


async def test_occasional_failed_polls_are_not_added_up(
    store: Store, asked: Handoff, gateway: Gateway
):
    engine = Faulty(store._engine)
    steps = follow(Store(engine), asked)
    await next_progress(steps)
    claim = await gateway.claim()
    for step in (Step.CLAIMED, *STEPS):
        engine.reads = [errors.busy("the store")] * 2
        await handoffs.record_step(gateway.store, claim, step)
        assert await next_progress(steps) == Working(TELEGRAM, step)
        assert engine.reads == []


async def test_listening_is_restarted_after_an_error(
    store: Store, asked: Handoff, gateway: Gateway
):
    begun = 0

    async def watch(notify: Notify) -> None:
        nonlocal begun
        begun += 1
        notify(None)
        if begun == 1:
            raise errors.busy("the store")
        await asyncio.Event().wait()

    async def nudge(_: Iterable[str]) -> None:
        return

    engine = Faulty(store._engine)
    engine.notifier = Notifier(watch, nudge)
    steps = follow(Store(engine), asked)
    await next_progress(steps)
    await gateway.complete(await gateway.claim())
    assert isinstance(await next_progress(steps), Completed)
    assert begun == 2


async def test_a_store_that_stays_broken_is_an_error(store: Store, asked: Handoff):
    engine = Faulty(store._engine)
    engine.reads = [errors.busy("the store")] * MAX_FAILED_POLLS
    with pytest.raises(StoreError, match="locked for too long"):
        await all_told(Store(engine), asked)
    assert engine.reads == []


async def test_an_idle_handoff_is_polled_rarely(
    store: Store, asked: Handoff, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
):
    looks: list[Handoff] = []
    look = request._current

    async def counted(store: Store, handoff: Handoff) -> Handoff:
        looks.append(handoff)
        return await look(store, handoff)

    steps = follow(store, asked)
    await next_progress(steps)
    await gateway.claim()
    await next_progress(steps)
    monkeypatch.setattr(request, "_current", counted)
    monkeypatch.setattr(request, "POLL_SECONDS", 10 * BOUND)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await anext(steps)
    assert len(looks) <= 1


# Cancelling


async def test_a_handoff_cancelled_in_time_is_not_carried_out(
    store: Store, asked: Handoff, gateway: Gateway
):
    claim = await gateway.claim()
    assert await handoffs.cancel(store, asked.id) is True
    assert await gateway.complete(claim) is False
    assert await handoffs.cancel(store, asked.id) is False
    (last,) = await all_told(store, asked)
    assert last.text() == REASONS[Failure.CANCELLED]


async def test_a_late_cancel_never_undoes_a_completed_handoff(
    store: Store, asked: Handoff, gateway: Gateway
):
    assert await gateway.complete(await gateway.claim())
    assert await handoffs.cancel(store, asked.id) is False
    (last,) = await all_told(store, asked)
    assert isinstance(last, Completed)
    found = await sessions.get(store, asked.session_id)
    assert found is not None
    assert found.address == TOPIC
