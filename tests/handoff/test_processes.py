"""Terminals and gateways that are processes of their own: interrupted for real, killed for real."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import segue.store
from segue.core.address import HomeChannel, Platform
from segue.core.handoff import CANCELLED, EXPIRED, State, Step
from segue.core.session import Session
from segue.handoff import Completed, Stranded, Waiting, Working, hand_off
from segue.store import Store
from segue.turns import hold
from tests.handoff.conftest import (
    BOUND,
    TELEGRAM,
    Gateway,
    Terminal,
    nothing_is_left,
    running,
    state,
)
from tests.store.samples import DM, TOPIC, said

EVERY_STEP = tuple(Step)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """On SQLite the dead are known at once."""
    return f"sqlite://{tmp_path}/segue.db"


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncGenerator[tuple[Store, Session]]:
    """The store by the real clock, with a session and a home channel for it."""
    async with await segue.store.open(url) as store:
        await store.owners.ensure("me")
        await store.owners.set_home("me", HomeChannel(address=DM))
        yield store, await store.sessions.create("me", Platform.LOCAL)


# The programs


async def gateway_program(url: str, step: str) -> None:
    """Take one handoff up, come to `step`, and hang."""
    async with await segue.store.open(url) as store:
        gateway = Gateway(store)
        await gateway.announce()
        print("here", flush=True)
        claim = await gateway.claim()
        await gateway.come_to(claim, Step(step))
        await store.record_handoff_step(claim, Step(step), thread=TOPIC)
        print("claimed", flush=True)
        await asyncio.Event().wait()


async def terminal_program(url: str, session_id: str) -> None:
    """Hand a session off, and print what is told."""
    async with (
        await segue.store.open(url) as store,
        hold(store, session_id, "a terminal on sofa") as held,
    ):
        async for step in hand_off(store, held, "telegram", patience=1.0):
            print(type(step).__name__, flush=True)


class Program:
    """One of them, running."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, line: str) -> None:
        """Wait until it prints that line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(BOUND):
            while heard := await self._process.stdout.readline():
                if heard.decode().strip() == line:
                    return
        raise EOFError(f"it never said {line}")

    async def ends(self, by: signal.Signals) -> None:
        self._process.send_signal(by)
        async with asyncio.timeout(BOUND):
            await self._process.wait()


@contextlib.asynccontextmanager
async def started(name: str, *arguments: str) -> AsyncGenerator[Program]:
    code = f"import asyncio; from {__name__} import {name}; asyncio.run({name}(*{arguments!r}))"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Program(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


# The gateway is killed


@pytest.mark.parametrize("step", EVERY_STEP)
async def test_failure_4_a_gateway_killed_at_any_step_is_replaced_by_the_next(url: str, step: Step):
    async with opened(url) as (store, session), hold(store, session.id, "a terminal") as held:
        terminal = Terminal(store, held)
        async with started("gateway_program", url, step.value) as first:
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


async def test_failure_4_after_the_gateway_was_killed_the_terminal_may_call_it_off_and_retry(
    url: str,
):
    async with opened(url) as (store, session), hold(store, session.id, "a terminal") as held:
        terminal = Terminal(store, held)
        async with started("gateway_program", url, Step.REPLYING.value) as first:
            await first.says("here")
            async with running(terminal) as task:
                await terminal.hears(Working, Step.REPLYING)
                await first.ends(signal.SIGKILL)
                terminal.interrupt.set()
                assert (await task).text() == CANCELLED
        await nothing_is_left(store, session)
        async with await segue.store.open(url) as there:
            gateway = Gateway(there)
            await gateway.announce()
            async with running(Terminal(store, held)) as task:
                assert await gateway.complete(await gateway.claim())
                assert isinstance(await task, Completed)


async def test_failure_5_a_gateway_that_takes_nothing_up_is_not_waited_for_long(url: str):
    async with opened(url) as (store, session), hold(store, session.id, "a terminal") as held:
        async with await segue.store.open(url) as there:
            await Gateway(there).announce()
            terminal = Terminal(store, held)
            began = time.monotonic()
            last = await terminal.hand_off(patience=0.5)
        assert time.monotonic() - began < 5
        assert terminal.told == [Waiting(TELEGRAM), last]
        assert (await state(store, session.id)).error == EXPIRED
        await nothing_is_left(store, session)
        await store.transcripts.append(held.lease, [said("Then I stay.")])


# The terminal is interrupted, or killed


@pytest.mark.parametrize("step", [None, *EVERY_STEP])
async def test_failure_5_a_real_ctrl_c_at_any_step_leaves_no_ghost(url: str, step: Step | None):
    async with opened(url) as (store, session):
        gateway = Gateway(store)
        await gateway.announce()
        async with started("terminal_program", url, session.id) as program:
            await program.says("Waiting")
            if step is not None:
                claim = await gateway.claim()
                await program.says("Working")
                await gateway.come_to(claim, step)
            await program.ends(signal.SIGINT)
        assert (await state(store, session.id)).error == CANCELLED
        await nothing_is_left(store, session)
        async with hold(store, session.id, "another terminal"):
            pass  # it let go of the session, too


async def test_failure_5_the_request_of_a_killed_terminal_is_void_within_seconds(url: str):
    async with opened(url) as (store, session):
        await Gateway(store).announce()
        async with started("terminal_program", url, session.id) as program:
            await program.says("Waiting")
            await program.ends(signal.SIGKILL)
        async with asyncio.timeout(5), store.listen() as wake:
            while (latest := await state(store, session.id)).in_flight:
                await wake.wait(0.05)
        assert latest.error == EXPIRED
        assert await store.claim_next_handoff([TELEGRAM]) is None
        await nothing_is_left(store, session)


async def test_a_terminal_killed_while_a_gateway_is_at_work_does_not_keep_the_session_from_moving(
    url: str,
):
    async with opened(url) as (store, session):
        gateway = Gateway(store)
        await gateway.announce()
        async with started("terminal_program", url, session.id) as program:
            claim = await gateway.claim()
            await program.says("Working")
            await program.ends(signal.SIGKILL)
        assert await gateway.complete(claim)
        assert (await state(store, session.id)).state is State.COMPLETED
