"""Terminals and gateways in separate processes.

As in tests.program, they are forked from a process that has already imported the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import segue.store
from segue.core.address import Address, Platform
from segue.handoffs import HandoffRequest, IfHeld, hand_off, hand_off_session
from segue.handoffs import queries as handoffs
from segue.handoffs import request as requests
from segue.handoffs.values import Step
from segue.store import Topic, gateways
from segue.turns import hold
from tests import program
from tests.crash import trap

BOUND = 30.0
STEPS = (Step.OPENING, Step.REPLYING, Step.DELIVERING)

P = ParamSpec("P")
Say = Callable[[str], None]


async def gateway(say: Say, url: str, step: Step, thread: Address) -> None:
    """Claim one handoff, open `thread` for it, go as far as `step`, and hang."""
    async with await segue.store.open(url) as store, store.listen(Topic.HANDOFFS) as wake:
        await gateways.announce(store, "gateway", [Platform.TELEGRAM])
        say("here")
        while not (claim := await handoffs.claim_next(store, [Platform.TELEGRAM])):
            await wake.wait(0.25)
        for taken in STEPS[: STEPS.index(step) + 1] if step in STEPS else ():
            await handoffs.record_step(store, claim, taken)
        await handoffs.record_step(store, claim, step, thread=thread)
        say("claimed")
        await asyncio.Event().wait()


async def terminal(say: Say, url: str, session_id: str) -> None:
    """Hand off a session and report its progress."""
    requests.CLAIM_TIMEOUT = BOUND
    async with (
        await segue.store.open(url) as store,
        hold(store, session_id, "a terminal on sofa") as held,
    ):
        async for told in hand_off(store, held, HandoffRequest(Platform.TELEGRAM)):
            say(type(told).__name__)


async def holder(say: Say, url: str, session_id: str, traps: Path) -> None:
    """Hold a session whose turn is at a safe point, and grant the request for it."""
    trap.install(traps)
    async with (
        await segue.store.open(url) as store,
        hold(store, session_id, "a terminal on sofa") as held,
    ):
        say("here")
        await held.release_requested.wait()
        assert held.release_request is not None
        async for told in hand_off(store, held, held.release_request, mid_turn=True):
            say(type(told).__name__)


async def waiter(say: Say, url: str, session_id: str, traps: Path) -> None:
    """Wait for a session that another process holds, and hand it off."""
    trap.install(traps)
    async with await segue.store.open(url) as store:
        request = HandoffRequest(Platform.TELEGRAM, if_held=IfHeld.WAIT)
        async for told in hand_off_session(store, session_id, "a test", request):
            say(type(told).__name__)


class Program:
    """A running process."""

    def __init__(self, process: ForkServerProcess, ear: Connection) -> None:
        self._process = process
        self._ear = ear

    async def says(self, line: str) -> None:
        """Wait until it sends that line. Raises EOFError if it ends before."""
        while True:
            assert await asyncio.to_thread(self._ear.poll, BOUND), f"it does not say {line}"
            if self._ear.recv() == line:
                return

    async def ends(self, by: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, by)
        await asyncio.to_thread(self._process.join, BOUND)
        assert self._process.exitcode is not None


@contextlib.asynccontextmanager
async def started(
    work: Callable[Concatenate[Say, P], Coroutine[Any, Any, None]],
    *arguments: P.args,
    **more: P.kwargs,
) -> AsyncGenerator[Program]:
    ear, mouth = program.PROCESSES.Pipe(duplex=False)
    process = program.PROCESSES.Process(
        target=_run, args=(work, mouth, arguments, more), daemon=True
    )
    with ear:
        with mouth:
            await asyncio.to_thread(process.start)
        try:
            yield Program(process, ear)
        finally:
            process.kill()
            await asyncio.to_thread(process.join, BOUND)
            process.close()


def _run(work: Any, mouth: Connection, arguments: Any, more: Any) -> None:
    asyncio.run(work(mouth.send, *arguments, **more))
