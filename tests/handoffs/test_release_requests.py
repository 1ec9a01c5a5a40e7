"""A process waits for a session that another one holds: each is killed at every step."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from segue.core.session import Session
from segue.core.transcript import Outcome, ToolCall
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff
from segue.store import Store, sessions
from segue.turns import hold, queries
from tests.crash.trap import Trap, Traps
from tests.handoffs import processes
from tests.handoffs.conftest import BOUND, Gateway
from tests.handoffs.processes import Program, started
from tests.handoffs.test_processes import opened
from tests.handoffs.test_processes import url as url
from tests.store.samples import AT, TOPIC, called, result, said, say

CALLED = called("first", "second")
OPEN = CALLED.tool_calls[1]

NOT_GRANTED = Trap("handoffs.grant")
GRANTED = Trap("handoffs.grant", after=True)


@dataclass
class Scene:
    """A session whose turn is paused, the process that holds it, one that waits for it, and a
    gateway."""

    store: Store
    session: Session
    gateway: Gateway
    holder: Program
    waiter: Program
    traps: Traps

    async def reached(self) -> None:
        """Wait until a process hangs in the trap."""
        async with asyncio.timeout(BOUND):
            while True:
                if self.traps.sprung:
                    return
                await asyncio.sleep(0.005)

    async def kill(self, *programs: Program) -> None:
        """Kill these processes, and let the others continue."""
        for program in programs:
            await program.ends(signal.SIGKILL)
        if (armed := self.traps.armed()) is not None:
            self.traps.take_away(armed)

    async def moves(self) -> Handoff:
        claim = await self.gateway.claim()
        assert await self.gateway.complete(claim)
        return claim

    async def not_begun(self) -> tuple[ToolCall, ...]:
        """The calls that a process which continues the turn can run."""
        async with hold(self.store, self.session.id, "another") as held:
            assert held.release_request is None
            start = await self.store.write(queries.begin, held.lease, None, [], AT)
        if not start.not_begun:
            assert [m.outcome for m in start.repairs] == [Outcome.INTERRUPTED]
        return start.not_begun


@contextlib.asynccontextmanager
async def scene(url: str, folder: Path, trap: Trap) -> AsyncGenerator[Scene]:
    traps = Traps(folder / "traps")
    traps.lay(trap)
    async with opened(url) as (store, session):
        await say(store, session.id, said("do it"), CALLED, result(CALLED.tool_calls[0]))
        gateway = Gateway(store)
        await gateway.announce(seconds=600)
        async with started(processes.holder, url, session.id, folder) as holder:
            await holder.says("here")
            async with started(processes.waiter, url, session.id, folder) as waiter:
                made = Scene(store, session, gateway, holder, waiter, traps)
                await made.reached()
                yield made


async def test_a_request_ends_with_the_process_that_waits(url: str, tmp_path: Path):
    async with scene(url, tmp_path, NOT_GRANTED) as s:
        await s.kill(s.waiter)
        await s.holder.says("Kept")
        assert await handoffs.recent(s.store) == ()


async def test_a_granted_release_request_needs_no_waiting_process(url: str, tmp_path: Path):
    async with scene(url, tmp_path, GRANTED) as s:
        await s.kill(s.waiter)
        assert (await s.moves()).mid_turn
        await s.holder.says("Completed")


async def test_the_process_that_waits_moves_the_session_of_a_dead_holder(url: str, tmp_path: Path):
    async with scene(url, tmp_path, NOT_GRANTED) as s:
        await s.kill(s.holder)
        assert not (await s.moves()).mid_turn
        await s.waiter.says("Completed")
        assert await s.not_begun() == ()  # the outcome of the open call is unknown


async def test_a_holder_that_dies_after_it_granted_the_release_request_is_not_needed(
    url: str, tmp_path: Path
):
    async with scene(url, tmp_path, GRANTED) as s:
        await s.kill(s.holder)
        assert (await s.moves()).mid_turn
        await s.waiter.says("Completed")
        assert await s.not_begun() == (OPEN,)


async def test_after_both_are_killed_the_session_is_free_and_nothing_moves_it(
    url: str, tmp_path: Path
):
    async with scene(url, tmp_path, NOT_GRANTED) as s:
        await s.kill(s.holder, s.waiter)
        assert await s.not_begun() == ()
        assert await handoffs.recent(s.store) == ()


async def test_after_both_are_killed_a_granted_release_request_still_moves_the_session(
    url: str, tmp_path: Path
):
    async with scene(url, tmp_path, GRANTED) as s:
        await s.kill(s.holder, s.waiter)
        assert (await s.moves()).mid_turn
        there = await sessions.get(s.store, s.session.id)
        assert there is not None
        assert there.address == TOPIC
        assert await s.not_begun() == (OPEN,)
