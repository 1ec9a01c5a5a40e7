"""A terminal that holds a session, and a gateway. Each opened the store separately."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any

import pytest

from segue.core.address import Address, HomeChannel, Platform
from segue.core.errors import StoreError
from segue.core.session import Session
from segue.core.transcript import Message
from segue.handoffs import Completed, Failed, HandoffRequest, Progress, hand_off
from segue.handoffs import queries as handoffs
from segue.handoffs import request as requests
from segue.handoffs.values import Handoff, State, Step
from segue.store import Store, Topic, gateways, owners, sessions
from segue.store.base import Engine
from segue.turns import HeldLease, hold
from tests.store.conftest import OpenStore
from tests.store.conftest import clock as clock
from tests.store.conftest import open_store as open_store
from tests.store.conftest import postgres_database as postgres_database
from tests.store.conftest import postgres_server as postgres_server
from tests.store.conftest import session as session
from tests.store.conftest import store as store
from tests.store.conftest import url as url
from tests.store.samples import DM, TOPIC

TELEGRAM = Platform.TELEGRAM
STEPS = (Step.OPENING, Step.REPLYING, Step.DELIVERING)
BOUND = 30.0


class Gateway:
    """A minimal gateway: it claims handoffs, and takes each step when the test calls it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def announce(self, *platforms: Platform, **more: Any) -> None:
        await gateways.announce(self.store, "gateway", platforms or (TELEGRAM,), **more)

    async def claim(self) -> Handoff:
        """Wait for a handoff and claim it."""
        async with asyncio.timeout(BOUND), self.store.listen(Topic.HANDOFFS) as wake:
            while not (claim := await handoffs.claim_next(self.store, [TELEGRAM])):
                await wake.wait(0.25)
        return claim

    async def come_to(self, claim: Handoff, step: Step) -> None:
        """Record every step up to `step`."""
        for taken in STEPS[: STEPS.index(step) + 1] if step in STEPS else ():
            assert await handoffs.record_step(self.store, claim, taken)

    async def complete(
        self, claim: Handoff, messages: Sequence[Message] = (), at: Address = TOPIC
    ) -> bool:
        """Complete the handoff, and return whether that succeeded."""
        done = await handoffs.complete(self.store, claim, address=at, messages=messages)
        return done is not None


class Terminal:
    """A terminal that hands off its session and records the progress it gets."""

    def __init__(self, store: Store, held: HeldLease) -> None:
        self.store = store
        self.held = held
        self.interrupt = asyncio.Event()
        self.told: list[Progress] = []
        self.news = asyncio.Event()

    async def hand_off(self, **more: Any) -> Progress:
        """Run the whole handoff and return the last progress."""
        request = HandoffRequest(TELEGRAM, **more)
        steps = hand_off(self.store, self.held, request, interrupt=self.interrupt)
        async with contextlib.aclosing(steps):
            async for step in steps:
                self.told.append(step)
                self.news.set()
        return self.told[-1]

    async def hears(self, kind: type[Progress], step: Step | None = None) -> None:
        """Wait for progress of that kind."""

        def heard() -> bool:
            return any(
                isinstance(told, kind) and step in (None, getattr(told, "step", None))
                for told in self.told
            )

        async with asyncio.timeout(BOUND):
            while not heard():
                self.news.clear()
                await self.news.wait()


class Faulty:
    """A real engine whose next reads and writes raise the given errors."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.notifier = engine.notifier
        self.reads: list[StoreError] = []
        self.writes: list[StoreError] = []
        self.kept: list[StoreError] = []
        """Raised after a write that was committed nevertheless."""
        self.work: Any = None
        """The only write that fails; None for any write."""
        self.reads_of: Any = None
        """The only read that fails; None for any read."""

    @property
    def process(self) -> str:
        return self._engine.process

    async def read(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        if self.reads and _is(self.reads_of, work):
            raise self.reads.pop(0)
        return await self._engine.read(work, *args, **kwargs)

    async def write(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        fails = _is(self.work, work)
        if fails and self.writes:
            raise self.writes.pop(0)
        answer = await self._engine.write(work, *args, **kwargs)
        if fails and self.kept:
            raise self.kept.pop(0)
        return answer

    async def mark(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        return await self.write(work, *args, **kwargs)

    async def close(self) -> None:
        await self._engine.close()


def _is(wanted: Any, work: Any) -> bool:
    """Whether the engine runs the wanted function of the store, or any is wanted."""
    return wanted is None or inspect.unwrap(wanted) is inspect.unwrap(work)


async def state(store: Store, session_id: str) -> Handoff:
    latest = await handoffs.current(store, session_id)
    assert latest is not None
    return latest


async def nothing_is_left(store: Store, session: Session) -> None:
    """Check that the session is as before the request: not moved, and without an active handoff."""
    latest = await handoffs.current(store, session.id)
    assert latest is None or latest.state is State.FAILED
    assert await handoffs.pending(store) == ()
    found = await sessions.get(store, session.id)
    assert found is not None
    assert (found.address, found.ended) == (None, None)


def outcome(last: Progress) -> Handoff:
    assert isinstance(last, Completed | Failed)
    return last.handoff


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll quickly: process deaths and passing time cause no notification."""
    monkeypatch.setattr(requests, "POLL_SECONDS", 0.05)


@pytest.fixture
def home(store: Store, runner: asyncio.Runner) -> HomeChannel:
    """The home channel on Telegram."""
    home = HomeChannel(address=DM, name="Me and my agent")
    runner.run(owners.set_home(store, "me", home))
    return home


@pytest.fixture
def gateway(open_store: OpenStore, home: HomeChannel, runner: asyncio.Runner) -> Gateway:
    """A gateway that serves Telegram, where `me` has a home channel."""

    async def begin() -> Gateway:
        gateway = Gateway(await open_store())
        await gateway.announce()
        return gateway

    return runner.run(begin())


@pytest.fixture
def terminal(store: Store, session: Session, runner: asyncio.Runner) -> Generator[Terminal]:
    holding = hold(store, session.id, "a terminal on desk")
    yield Terminal(store, runner.run(holding.__aenter__()))
    runner.run(holding.__aexit__(None, None, None))


@contextlib.asynccontextmanager
async def running(terminal: Terminal, **more: Any) -> AsyncGenerator[asyncio.Task[Progress]]:
    """Start a handoff in the terminal. It is cancelled at the end of the block."""
    task = asyncio.create_task(terminal.hand_off(**more))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
