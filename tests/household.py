"""A household but for its phone: the terminals of its person, the gateway, the store, the model.

The gateway is a process of its own, and so is a terminal with a screen. Most tests do with a desk,
a terminal without one in this process, or with a command in a shell: a screen costs ten times as
much. Which platform the phone is on, and what can be seen there, is told by who adds it:
`tests.failures.conftest`, `tests.on_telegram.conftest`.
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
from segue.store.gateways import Link, PlatformHealth
from segue.testing.http import HangUp, Request, Response
from segue.testing.models.openai import Answer, FakeOpenAI, Say
from segue.turns import hold
from tests.gateway import conftest as gateways
from tests.program import Program, SharedClock, constants, start
from tests.terminal.conftest import Person
from tests.terminal.gateways import segue_says
from tests.terminal.pty import CODE, Terminal

WITHIN = 40.0
HANDED_OFF = "This session has just been handed off"
"""How the prompt of the confirming turn begins."""
LOOK = 0.1
"""Seconds between two looks of a terminal that waits for its handoff."""
NO_HALVES = 60.0
"""Seconds before half an answer is shown: a slow machine shows what a quick one does."""
IMPATIENT: Mapping[str, float | str] = {
    "segue.gateway.streaming.FIRST": NO_HALVES,
    "segue.gateway.outbound.LONGEST_PAUSE": 0.05,
    "segue.gateway.pace.LEAST": 0.05,
    "segue.handoff.request.LOOK": LOOK,
    "segue.platforms.telegram.adapter.CAPABILITIES": "tests.on_telegram.pace:QUICK",
}
"""Seconds after which gateways and terminals look again, or try again."""


class Mind(FakeOpenAI):
    """A model that counts what it was told and repeats the last of it: `(3) go on`. It thinks for
    as long as a test wants."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.plans: deque[Answer] = deque()
        """What it says instead, while there is any."""
        self.away = False
        """Whether nobody answers."""
        self._asked = asyncio.Condition()
        self._held: str | None = None
        self._go = asyncio.Event()

    def hold(self, words: str) -> None:
        """From now on there is no answer to what has these words in it."""
        self._held = words
        self._go = asyncio.Event()

    def let_go(self) -> None:
        self._held = None
        self._go.set()

    async def hears(self, words: str, times: int = 1) -> None:
        """Wait until that was said to it so often."""
        async with asyncio.timeout(WITHIN), self._asked:
            await self._asked.wait_for(lambda: self.heard(words) >= times)

    def heard(self, words: str) -> int:
        """How often that was said to it, not counting what it was only reminded of, nor what it
        was to find a title for."""
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
    """All that the model's person, or the program in their place, said to it."""
    return [m["content"] for m in request["messages"] if m["role"] == "user"]


@dataclass(frozen=True, slots=True)
class Gateway:
    """`segue gateway run`, under way."""

    process: Program
    run: Path
    """The folder of those who use its store now."""

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def ends(self) -> None:
        """Let it end in order: whatever it has in hand is done then."""
        self.process.terminate()
        code = await asyncio.to_thread(self.process.wait, WITHIN)
        assert code == 0, f"it ended with {code}"

    def freeze(self) -> None:
        """It lives, and does nothing. It does not stop in the middle of writing, or of waiting to:
        nobody else could write then."""
        with (self.run / "turn").open() as turn, (self.run / "gate").open() as gate:
            fcntl.flock(turn, fcntl.LOCK_EX)
            fcntl.flock(gate, fcntl.LOCK_EX)
            self.process.stop()

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Desk(gateways.Desk):
    """A terminal without a screen, in this process, that has a session in hand."""

    async def says(self, *said: str) -> None:
        """That, one after another; the answers count as those of `Mind` do."""
        found = await self.store.transcripts.load(self.session.id)
        before = sum(message.role is Role.USER for message in found)
        for number, text in enumerate(said, before + 1):
            now = self.session.started
            answer = Message(Role.ASSISTANT, f"({number}) {text}", now)
            await self.store.transcripts.append(self.held.lease, [spoken(text, now), answer])

    async def until(self, words: str) -> None:
        """Wait until it is told that of the handoff under way."""
        async with asyncio.timeout(WITHIN):
            while True:
                if any(words in progress.text() for progress in self.seen):
                    return
                await asyncio.sleep(0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indoors:
    """All of it but the phone."""

    person: Person
    """At her terminals."""
    store: Store
    """The test's own view of it."""
    mind: Mind

    @property
    def database(self) -> Path:
        return Path(self.person.environment["SEGUE_STORE"].removeprefix("sqlite://"))

    def advance(self, seconds: float) -> None:
        """Time passes, for leases and whatever runs out."""
        SharedClock(Path(self.person.environment["HOME"]) / "clock").advance(seconds)

    def reports_soon(self) -> None:
        """Gateways look soon for what did not arrive, and tell the sessions, which may be before
        the next turn or after it."""
        self.set_constants({"segue.gateway.janitor.LOOK": 0.2})

    def set_constants(self, values: Mapping[str, float]) -> None:
        """For the gateways and terminals that begin from now on."""
        self.person.environment.update(constants({**IMPATIENT, **values}))

    @property
    def log(self) -> Path:
        return Path(self.person.environment["HOME"]) / "gateway.err"

    # Processes

    @contextlib.asynccontextmanager
    async def gateway(self, *, until: Link = Link.CONNECTED) -> AsyncGenerator[Gateway]:
        """One that stands like that with Telegram; in the end it is killed."""
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
        """What a gateway says of a platform, if one serves it."""
        serves = await self.store.gateways.serving(platform)
        return serves.links[platform] if serves else None

    @contextlib.asynccontextmanager
    async def desk(self, *said: str, title: str = "Sums", **more: Any) -> AsyncGenerator[Desk]:
        """One with a new session, in which that was said."""
        session = await self.store.sessions.create(ME, Platform.LOCAL, title=title, **more)
        async with self.sits_down(session) as desk:
            await desk.says(*said)
            yield desk

    @contextlib.asynccontextmanager
    async def sits_down(self, session: Session) -> AsyncGenerator[Desk]:
        """One that has this session in hand."""
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(self.store, session.id, "a terminal on desk", address=here) as held:
            yield Desk(self.store, held, session)

    async def left(self, *said: str, **more: Any) -> Session:
        """A session in which that was said, and that nobody has in hand."""
        async with self.desk(*said, **more) as desk:
            return desk.session

    async def shell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`segue` with these arguments, without a terminal."""
        return await asyncio.to_thread(segue_says, self.person, *words)

    @contextlib.contextmanager
    def begun(self, *words: str) -> Generator[Program]:
        """The same, under way; in the end it is killed."""
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
        """A real one, with a new session, in which that was said."""
        async with self.person.opens("chat", "--title", title, **more) as shown:
            await shown.ready()
            await self.says(shown, *said)
            yield shown

    async def says(self, shown: Terminal, *said: str, after: int = 0) -> None:
        """Type that, one after another, and see it answered; `after` so many things before."""
        for number, text in enumerate(said, after + 1):
            shown.say(text)
            await shown.shows(f"({number}) {text}")
            await shown.ready()

    # What is there

    async def session(self, title: str = "Sums") -> Session:
        return await self.store.sessions.find(ME, title)

    async def said(self, title: str = "Sums") -> list[tuple[str, str]]:
        """By whom, and what."""
        session = await self.session(title)
        return [(m.role.value, m.content) for m in await self.store.transcripts.load(session.id)]

    async def handoff(self, *states: State, step: Step | None = None) -> Handoff:
        """The newest one, once it is in one of these states, and at that step."""
        async with asyncio.timeout(WITHIN), self.store.listen(Topic.HANDOFFS) as wake:
            while True:
                for newest in await self.store.recent_handoffs(1):
                    if newest.state in states and step in (None, newest.step):
                        return newest
                await wake.wait(0.1)


async def indoors(person: Person, stack: contextlib.AsyncExitStack) -> tuple[Store, Mind]:
    """What `Indoors` needs: the store of that person, who has been introduced to the program, and
    a model that their terminals and gateways use from now on."""
    stack.enter_context(pytest.MonkeyPatch.context()).setattr(request, "LOOK", LOOK)
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
