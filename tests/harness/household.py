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
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeAlias

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform
from segue.core.session import ME, Session
from segue.core.transcript import Message, Role, spoken
from segue.handoffs import queries as handoff_queries
from segue.handoffs import request
from segue.handoffs.values import Handoff, State, Step
from segue.store import Store, Topic, gateways, outbox, owners, sessions, transcripts
from segue.store.gateways import LinkState, PlatformHealth
from segue.testing.http import HangUp, Request, Response
from segue.turns import hold
from tests.fakes.models.openai import Answer, FakeOpenAI, Say
from tests.harness import house
from tests.harness.gateways import segue_says
from tests.harness.pty import CODE, Terminal
from tests.harness.terminal import Person
from tests.program import Program, SharedClock, constants, start
from tests.rigs import Kind, PlatformRig, View
from tests.rigs import Message as Shown

Where: TypeAlias = str | EllipsisType | None
"""A thread of a chat, None for the chat itself, or ... for both."""

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
    "segue.system.backoff.FIRST_PAUSE": 0.05,
    "segue.handoffs.request.POLL_SECONDS": LOOK,
}
"""Shorter poll and retry intervals, in seconds, for gateways and terminals."""


class EchoModel(FakeOpenAI):
    """A model that counts the user messages and repeats the last one: `(3) go on`.

    A test can hold its answers back.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.plans: deque[Answer] = deque()
        """Answers to give instead, while there are any. A request for a title takes none."""
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
        if self.plans and "tools" in request:
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


class Desk(house.Desk):
    """A terminal without a screen, in this process, that holds a session."""

    async def says(self, *said: str) -> None:
        """Append these messages with answers numbered as `EchoModel` would number them."""
        found = await transcripts.load(self.store, self.session.id)
        before = sum(message.role is Role.USER for message in found)
        for number, text in enumerate(said, before + 1):
            now = self.session.started
            answer = Message(Role.ASSISTANT, f"({number}) {text}", now)
            await transcripts.append(self.store, self.held.lease, [spoken(text, now), answer])

    async def until(self, words: str) -> None:
        """Wait for handoff progress with these words."""
        async with asyncio.timeout(WITHIN):
            while True:
                if any(words in progress.text() for progress in self.seen):
                    return
                await asyncio.sleep(0.005)


@dataclass(kw_only=True)
class Household:
    """Anna with her terminals and her phone, and Eve, a stranger."""

    person: Person
    """The user at her terminals."""
    store: Store
    """The test's own connection to the store."""
    model: EchoModel
    rig: PlatformRig
    """The platform of her phone."""
    anna: str
    """The owner's user id on the platform."""
    eve: str
    """The user id of a stranger."""
    chat: str = ""
    """Anna's chat: the first one that was created for her. What she reads and writes is there."""

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

    def set_constants(self, values: Mapping[str, float | str]) -> None:
        """Override constants in gateways and terminals that start from now on."""
        self.person.environment.update(constants({**IMPATIENT, **self.rig.constants, **values}))

    @property
    def log(self) -> Path:
        return Path(self.person.environment["HOME"]) / "gateway.err"

    # Chats

    async def new_chat(self, kind: Kind) -> str:
        """Create a chat with Anna and the bot. Eve is a member too, unless the chat is private."""
        private = kind.chat_type is ChatType.DM
        chat = await self.rig.chat(kind, [self.anna] if private else [self.anna, self.eve])
        self.chat = self.chat or chat
        return chat

    async def at_home(self, kind: Kind) -> str:
        """Create a chat that is Anna's home channel, without a code."""
        chat = await self.new_chat(kind)
        await self.rig.pair(self.store, self.anna)
        await self.rig.set_home(self.store, kind, chat)
        return chat

    async def writes(
        self, text: str, thread: str | None = None, *, chat: str | None = None
    ) -> None:
        """Anna writes on her phone."""
        await self.rig.say(self.anna, chat or self.chat, text, thread=thread)

    async def sees(
        self, words: str, thread: Where = ..., *, chat: str | None = None, times: int = 1
    ) -> Shown:
        """Wait for `times` messages of the bot with these words, and return the newest."""

        def found(view: View) -> list[Shown]:
            return [m for m in self.spoken(view, thread) if words in m.text]

        view = await self.rig.until(lambda view: len(found(view)) >= times, chat or self.chat)
        return found(view)[-1]

    def spoken(self, view: View, thread: Where = ...) -> list[Shown]:
        """The bot's messages."""
        people = (self.anna, self.eve)
        return [m for m in view.messages if m.author not in people and thread in (..., m.thread)]

    async def texts(self, thread: Where = ..., *, chat: str | None = None) -> list[str]:
        """The texts of the bot's messages."""
        return [m.text for m in self.spoken(await self.rig.look(chat or self.chat), thread)]

    async def thread(self) -> str | None:
        """Wait for the only thread of Anna's chat. None on a platform without threads."""
        if not self.rig.forum.threads:
            return None
        (thread,) = (await self.rig.until(lambda view: bool(view.threads), self.chat)).threads
        return thread.id

    async def answered(self) -> None:
        """Send a command and wait for the answer, to check that the gateway works."""
        words = "paired with the owner"
        before = sum(words in text for text in await self.texts())
        await self.writes("/whoami")
        await self.sees(words, times=before + 1)

    async def delivered(self) -> None:
        """Wait until the gateway has recorded that everything it sent has arrived."""
        async with asyncio.timeout(WITHIN), self.store.listen(Topic.SENT) as wake:
            while await outbox.is_due(self.store, [Platform(self.rig.platform)]):
                await wake.wait()

    async def arrives(self, title: str = "Sums", *, chat: str | None = None) -> str | None:
        """Hand off a new session and return its thread.

        The next message is its third.
        """
        async with self.desk("what is 2 and 2?", title=title) as desk:
            done = await desk.hand_off(self.rig.platform)
        assert done.state is State.COMPLETED, done.error
        assert done.thread is not None
        assert done.thread.chat_id == (chat or self.chat)
        await self.sees(HANDED_OFF, done.thread.thread_id, chat=chat)
        return done.thread.thread_id

    # Processes

    @contextlib.asynccontextmanager
    async def gateway(self, *, until: LinkState = LinkState.CONNECTED) -> AsyncGenerator[Gateway]:
        """Run a gateway and yield once its link to the rig's platform is in that state.

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

    async def health(self, platform: Platform | None = None) -> PlatformHealth | None:
        """The health that a gateway reports for a platform, or None if no gateway serves it."""
        platform = platform or self.rig.platform
        serves = await gateways.serving(self.store, platform)
        return serves.links[platform] if serves else None

    async def until_link(self, state: LinkState, platform: Platform | None = None) -> None:
        """Wait until a gateway reports that state of a platform."""
        async with asyncio.timeout(WITHIN):
            while True:
                if (health := await self.health(platform)) and health.state is state:
                    return
                await asyncio.sleep(0.02)

    @contextlib.asynccontextmanager
    async def desk(self, *said: str, title: str = "Sums", **more: Any) -> AsyncGenerator[Desk]:
        """A terminal with a new session that contains these messages."""
        session = await sessions.create(self.store, ME, Platform.LOCAL, title=title, **more)
        async with self.sits_down(session) as desk:
            await desk.says(*said)
            yield desk

    @contextlib.asynccontextmanager
    async def sits_down(self, session: Session) -> AsyncGenerator[Desk]:
        """A terminal that holds this session, as soon as no turn runs elsewhere: an answer can be
        seen a moment before its turn ends."""
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(
            self.store, session.id, "a terminal on desk", address=here, wait_seconds=WITHIN
        ) as held:
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
            await self.types(shown, *said)
            yield shown

    async def types(self, shown: Terminal, *said: str, after: int = 0) -> None:
        """Type these messages and wait for each answer.

        `after` is the number of earlier messages.
        """
        for number, text in enumerate(said, after + 1):
            shown.say(text)
            await shown.shows(f"({number}) {text}")
            await shown.ready()

    # State

    async def session(self, title: str = "Sums") -> Session:
        return await sessions.find(self.store, ME, title)

    async def said(self, title: str = "Sums") -> list[tuple[str, str]]:
        """The role and the text of each message."""
        session = await self.session(title)
        return [(m.role.value, m.content) for m in await transcripts.load(self.store, session.id)]

    async def handoffs(self) -> Sequence[Handoff]:
        """Newest first."""
        return await handoff_queries.recent(self.store, 20)

    async def handoff(self, *states: State, step: Step | None = None) -> Handoff:
        """Wait until the newest handoff is in one of these states, and at that step, and return
        it."""
        async with asyncio.timeout(WITHIN), self.store.listen(Topic.HANDOFFS) as wake:
            while True:
                for newest in await handoff_queries.recent(self.store, 1):
                    if newest.state in states and step in (None, newest.step):
                        return newest
                await wake.wait(0.1)


@contextlib.asynccontextmanager
async def opened(person: Person, rig: type[PlatformRig]) -> AsyncGenerator[Household]:
    """A household without paired users, in which only the platform and the model run."""
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(request, "POLL_SECONDS", LOOK)
        phone = await stack.enter_async_context(rig.opened())
        model = EchoModel()
        url = await stack.enter_async_context(model.serving())
        folder = Path(person.environment["HOME"])
        settings = folder / "config.toml"
        settings.write_text(phone.settings(), "utf-8")
        settings.chmod(0o600)
        clock = SharedClock(folder / "clock")
        person.environment.update(
            **clock.environment,
            **constants({**IMPATIENT, **rig.constants}),
            SEGUE_CONFIG=str(settings),
            SEGUE_GATEWAY_LOG=str(folder / "gateway.log"),
            SEGUE_MODEL="openai/gpt-test",
            OPENAI_BASE_URL=url,
            OPENAI_API_KEY="sk-test",
        )
        store = await stack.enter_async_context(
            await segue.store.open(person.environment["SEGUE_STORE"], clock=clock)
        )
        await owners.ensure(store, ME)
        await owners.introduced(store, ME)
        anna, eve = await phone.user("Anna"), await phone.user("Eve")
        yield Household(person=person, store=store, model=model, rig=phone, anna=anna, eve=eve)
        faults = (await phone.look()).faults
        assert not faults, faults
