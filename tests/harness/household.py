"""A household without its phone: the user's terminals, the gateway, the store and the model.

The gateway and each terminal with a screen run in separate processes. Most tests use a desk, which
is a terminal without a screen in this process, or a shell command: a screen costs ten times as
much. `tests.failures.conftest` and `tests.end_to_end.conftest` add the phone, with its platform.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import signal
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform
from segue.core.handoff import Handoff, State, Step
from segue.core.session import ME, Session
from segue.core.transcript import Message, Role, spoken
from segue.handoff import request
from segue.store import Store, Topic
from segue.store.gateways import LinkState, PlatformHealth
from segue.testing.http import HangUp, Request, Response
from segue.testing.models.openai import Answer, FakeOpenAI, Say
from segue.turns import hold
from tests.gateway import conftest as gateways
from tests.harness.gateways import segue_says
from tests.harness.pty import CODE, Terminal
from tests.harness.terminal import Person
from tests.program import Program, SharedClock, constants, start

WITHIN = 40.0
HANDED_OFF = "This session has just been handed off"
"""The start of the prompt for the confirming turn."""
LOOK = 0.1
"""Seconds between two polls of a terminal that waits for its handoff."""
NO_HALVES = 60.0
"""Seconds before a partial answer is shown: so long that slow machines behave like fast ones."""
IMPATIENT: Mapping[str, float | str] = {
    "segue.gateway.streaming.BUBBLE_DELAY": NO_HALVES,
    "segue.gateway.outbound.MAX_PAUSE": 0.05,
    "segue.gateway.pace.FIRST_PAUSE": 0.05,
    "segue.handoff.request.POLL_SECONDS": LOOK,
    "segue.platforms.telegram.adapter.CAPABILITIES": "tests.end_to_end.pace:QUICK",
}
"""Shorter poll and retry intervals, in seconds, for gateways and terminals."""


class Mind(FakeOpenAI):
    """A model that counts the user messages and repeats the last one: `(3) go on`.

    A test can hold its answers back.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.plans: deque[Answer] = deque()
        """Answers to give instead, while there are any."""
        self.away = False
        """Whether the server drops every connection."""
        self._asked = asyncio.Condition()
        self._held: str | None = None
        self._go = asyncio.Event()

    def hold(self, words: str) -> None:
        """From now on, hold back the answers to messages with these words."""
        self._held = words
        self._go = asyncio.Event()

    def let_go(self) -> None:
        self._held = None
        self._go.set()

    async def hears(self, words: str, times: int = 1) -> None:
        """Wait until the model has received a message with these words `times` times."""
        async with asyncio.timeout(WITHIN), self._asked:
            await self._asked.wait_for(lambda: self.heard(words) >= times)

    def heard(self, words: str) -> int:
        """The number of requests whose last user message contains these words.

        Title requests do not count.
        """
        asked = (request for request in self.requests if "tools" in request)
        return sum(words in told(request)[-1] for request in asked)

    def _answer(self, request: dict[str, Any]) -> Answer:
        if self.plans:
            return self.plans.popleft()
        heard = told(request)
        return Say(text=f"({len(heard)}) {heard[-1].strip('[]')}")

    async def _handle(self, request: Request) -> Response:
        if self.away:
            raise HangUp
        response = await super()._handle(request)
        if request.method == "POST":
            asked = told(self.requests[-1])[-1]
            async with self._asked:
                self._asked.notify_all()
            if self._held is not None and self._held in asked:
                await self._go.wait()
        return response


def told(request: dict[str, Any]) -> list[str]:
    """All user messages of a request, including those that the program wrote."""
    return [m["content"] for m in request["messages"] if m["role"] == "user"]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running `segue gateway run`."""

    process: Program
    run: Path
    """The folder of the processes that use its store."""

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def ends(self) -> None:
        """Stop the gateway with SIGTERM: it finishes its work first."""
        self.process.terminate()
        code = await asyncio.to_thread(self.process.wait, WITHIN)
        assert code == 0, f"it ended with {code}"

    def freeze(self) -> None:
        """Stop the process with SIGSTOP, while it keeps its claims.

        It is not stopped while it writes or waits to write, because that would block all other
        writers.
        """
        with (self.run / "turn").open() as turn, (self.run / "gate").open() as gate:
            fcntl.flock(turn, fcntl.LOCK_EX)
            fcntl.flock(gate, fcntl.LOCK_EX)
            self.process.stop()

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Desk(gateways.Desk):
    """A terminal without a screen, in this process, that holds a session."""

    async def says(self, *said: str) -> None:
        """Append these messages with answers numbered as `Mind` would number them."""
        found = await self.store.transcripts.load(self.session.id)
        before = sum(message.role is Role.USER for message in found)
        for number, text in enumerate(said, before + 1):
            now = self.session.started
            answer = Message(Role.ASSISTANT, f"({number}) {text}", now)
            await self.store.transcripts.append(self.held.lease, [spoken(text, now), answer])

    async def until(self, words: str) -> None:
        """Wait for handoff progress with these words."""
        async with asyncio.timeout(WITHIN):
            while True:
                if any(words in progress.text() for progress in self.seen):
                    return
                await asyncio.sleep(0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indoors:
    """The whole household except the phone."""

    person: Person
    """The user at her terminals."""
    store: Store
    """The test's own connection to the store."""
    mind: Mind

    @property
    def database(self) -> Path:
        return Path(self.person.environment["SEGUE_STORE"].removeprefix("sqlite://"))

    def advance(self, seconds: float) -> None:
        """Advance the store's clock, for leases and timeouts."""
        SharedClock(Path(self.person.environment["HOME"]) / "clock").advance(seconds)

    def reports_soon(self) -> None:
        """Make gateways check soon for messages that did not arrive.

        They report them to the sessions, which may happen before or after the next turn.
        """
        self.set_constants({"segue.gateway.janitor.POLL_SECONDS": 0.2})

    def set_constants(self, values: Mapping[str, float]) -> None:
        """Override constants in gateways and terminals that start from now on."""
        self.person.environment.update(constants({**IMPATIENT, **values}))

    @property
    def log(self) -> Path:
        return Path(self.person.environment["HOME"]) / "gateway.err"

    # Processes

    @contextlib.asynccontextmanager
    async def gateway(self, *, until: LinkState = LinkState.CONNECTED) -> AsyncGenerator[Gateway]:
        """Run a gateway and yield once its Telegram link is in that state.

        It is killed at the end.
        """
        with self.log.open("ab") as log:
            process = start(
                *("gateway", "run"),
                environment={**CODE, **self.person.environment},
                cwd=self.person.environment["HOME"],
                output=log.fileno(),
                errors=log.fileno(),
            )
        gateway = Gateway(process, Path(f"{self.database}-run"))
        try:
            async with asyncio.timeout(WITHIN):
                while not ((health := await self.health()) and health.state is until):
                    if process.poll() is not None:
                        raise AssertionError(f"the gateway has ended: {self.log.read_text()}")
                    await asyncio.sleep(0.02)
            yield gateway
        finally:
            gateway.kill()

    async def health(self, platform: Platform = Platform.TELEGRAM) -> PlatformHealth | None:
        """The health that a gateway reports for a platform, or None if no gateway serves it."""
        serves = await self.store.gateways.serving(platform)
        return serves.links[platform] if serves else None

    @contextlib.asynccontextmanager
    async def desk(self, *said: str, title: str = "Sums", **more: Any) -> AsyncGenerator[Desk]:
        """A terminal with a new session that contains these messages."""
        session = await self.store.sessions.create(ME, Platform.LOCAL, title=title, **more)
        async with self.sits_down(session) as desk:
            await desk.says(*said)
            yield desk

    @contextlib.asynccontextmanager
    async def sits_down(self, session: Session) -> AsyncGenerator[Desk]:
        """A terminal that holds this session."""
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(self.store, session.id, "a terminal on desk", address=here) as held:
            yield Desk(self.store, held, session)

    async def left(self, *said: str, **more: Any) -> Session:
        """A session that contains these messages and that no terminal holds."""
        async with self.desk(*said, **more) as desk:
            return desk.session

    async def shell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `segue` with these arguments, without a terminal."""
        return await asyncio.to_thread(segue_says, self.person, *words)

    @contextlib.contextmanager
    def begun(self, *words: str) -> Generator[Program]:
        """The same, as a running process. It is killed at the end."""
        with self.log.open("ab") as log:
            process = start(
                *words,
                environment={**CODE, **self.person.environment},
                cwd=self.person.cwd,
                output=log.fileno(),
                errors=log.fileno(),
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @contextlib.asynccontextmanager
    async def terminal(
        self, *said: str, title: str = "Sums", **more: Any
    ) -> AsyncGenerator[Terminal]:
        """A real terminal with a new session that contains these messages."""
        async with self.person.opens("chat", "--title", title, **more) as shown:
            await shown.ready()
            await self.says(shown, *said)
            yield shown

    async def says(self, shown: Terminal, *said: str, after: int = 0) -> None:
        """Type these messages and wait for each answer.

        `after` is the number of earlier messages.
        """
        for number, text in enumerate(said, after + 1):
            shown.say(text)
            await shown.shows(f"({number}) {text}")
            await shown.ready()

    # State

    async def session(self, title: str = "Sums") -> Session:
        return await self.store.sessions.find(ME, title)

    async def said(self, title: str = "Sums") -> list[tuple[str, str]]:
        """The role and the text of each message."""
        session = await self.session(title)
        return [(m.role.value, m.content) for m in await self.store.transcripts.load(session.id)]

    async def handoff(self, *states: State, step: Step | None = None) -> Handoff:
        """Wait until the newest handoff is in one of these states, and at that step, and return
        it."""
        async with asyncio.timeout(WITHIN), self.store.listen(Topic.HANDOFFS) as wake:
            while True:
                for newest in await self.store.recent_handoffs(1):
                    if newest.state in states and step in (None, newest.step):
                        return newest
                await wake.wait(0.1)


async def indoors(person: Person, stack: contextlib.AsyncExitStack) -> tuple[Store, Mind]:
    """Set up the parts of `Indoors`: the user's store, with its owner, and a model.

    The user's terminals and gateways use that model from now on.
    """
    stack.enter_context(pytest.MonkeyPatch.context()).setattr(request, "POLL_SECONDS", LOOK)
    mind = Mind()
    clock = SharedClock(Path(person.environment["HOME"]) / "clock")
    person.environment.update({**clock.environment, **constants(IMPATIENT)})
    url = await stack.enter_async_context(mind.serving())
    person.environment.update(
        SEGUE_MODEL="openai/gpt-test", OPENAI_BASE_URL=url, OPENAI_API_KEY="sk-test"
    )
    store = await stack.enter_async_context(
        await segue.store.open(person.environment["SEGUE_STORE"], clock=clock)
    )
    await store.owners.ensure(ME)
    await store.owners.introduced(ME)
    return store, mind
