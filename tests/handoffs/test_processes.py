"""Terminals and gateways in separate processes, which are interrupted and killed."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import segue.store
from segue.core.address import HomeChannel, Platform
from segue.core.session import Session
from segue.handoffs import Completed, Stranded, Working
from segue.handoffs import queries as handoffs
from segue.handoffs.values import REASONS, Failure, State, Step
from segue.store import Store, owners, sessions
from segue.turns import hold
from tests.handoffs import processes
from tests.handoffs.conftest import TELEGRAM, Gateway, Terminal, nothing_is_left, running, state
from tests.handoffs.processes import BOUND, started
from tests.harness import stores
from tests.harness.cases import brief
from tests.program import SharedClock
from tests.store.samples import DM, TOPIC

EVERY_STEP = tuple(Step)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """On SQLite, dead processes are known at once."""
    return stores.create(tmp_path / "segue.db")


@contextlib.asynccontextmanager
async def opened(
    url: str, clock: SharedClock | None = None
) -> AsyncGenerator[tuple[Store, Session]]:
    """The store, with the real clock unless another is given, with a session and a home channel."""
    async with await segue.store.open(url, clock=clock) as store:
        await owners.ensure(store, "me")
        await owners.set_home(store, "me", HomeChannel(address=DM))
        yield store, await sessions.create(store, "me", Platform.LOCAL)


# The gateway is killed


@pytest.mark.parametrize("step", brief(EVERY_STEP, [Step.CLAIMED, Step.DELIVERING]))
async def test_a_gateway_killed_at_any_step_is_replaced_by_the_next(url: str, step: Step):
    async with opened(url) as (store, session), hold(store, session.id, "a terminal") as held:
        terminal = Terminal(store, held)
        async with started(processes.gateway, url, step, TOPIC) as first:
            await first.says("here")
            async with running(terminal) as task:
                await first.says("claimed")
                await terminal.hears(Working, step)
                await first.ends(signal.SIGKILL)
                await terminal.hears(Stranded)
                async with await segue.store.open(url) as there:
                    gateway = Gateway(there)
                    await gateway.announce()
                    claim = await gateway.claim()
                    assert (claim.thread, claim.attempt) == (TOPIC, 2)
                    assert await gateway.complete(claim)
                    assert isinstance(await task, Completed)


async def test_after_the_gateway_is_killed_the_terminal_can_cancel_and_retry(
    url: str,
):
    async with opened(url) as (store, session), hold(store, session.id, "a terminal") as held:
        terminal = Terminal(store, held)
        async with started(processes.gateway, url, Step.REPLYING, TOPIC) as first:
            await first.says("here")
            async with running(terminal) as task:
                await terminal.hears(Working, Step.REPLYING)
                await first.ends(signal.SIGKILL)
                terminal.interrupt.set()
                assert (await task).text() == REASONS[Failure.CANCELLED]
        await nothing_is_left(store, session)
        async with await segue.store.open(url) as there:
            gateway = Gateway(there)
            await gateway.announce()
            async with running(Terminal(store, held)) as task:
                assert await gateway.complete(await gateway.claim())
                assert isinstance(await task, Completed)


# The terminal is interrupted, or killed


@pytest.mark.parametrize("step", brief([None, *EVERY_STEP], [None, Step.REPLYING]))
async def test_a_real_ctrl_c_at_any_step_leaves_no_ghost(url: str, step: Step | None):
    async with opened(url) as (store, session):
        gateway = Gateway(store)
        await gateway.announce()
        async with started(processes.terminal, url, session.id) as program:
            await program.says("Waiting")
            if step is not None:
                claim = await gateway.claim()
                await program.says("Working")
                await gateway.come_to(claim, step)
            await program.ends(signal.SIGINT)
        assert (await state(store, session.id)).failure is Failure.CANCELLED
        await nothing_is_left(store, session)
        async with hold(store, session.id, "another terminal"):
            pass  # it has released the session, too


async def test_the_request_of_a_killed_terminal_expires(url: str, tmp_path: Path):
    clock = SharedClock(tmp_path / "clock")
    async with opened(url, clock) as (store, session):
        await Gateway(store).announce()
        async with started(processes.terminal, url, session.id) as program:
            await program.says("Waiting")
            await program.ends(signal.SIGKILL)
        clock.advance(BOUND)
        assert await handoffs.claim_next(store, [TELEGRAM]) is None
        assert (await state(store, session.id)).failure is Failure.EXPIRED
        await nothing_is_left(store, session)


async def test_the_session_moves_even_if_the_terminal_is_killed_during_the_handoff(
    url: str,
):
    async with opened(url) as (store, session):
        gateway = Gateway(store)
        await gateway.announce()
        async with started(processes.terminal, url, session.id) as program:
            claim = await gateway.claim()
            await program.says("Working")
            await program.ends(signal.SIGKILL)
        assert await gateway.complete(claim)
        assert (await state(store, session.id)).state is State.COMPLETED
