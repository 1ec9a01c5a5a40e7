"""A household: Anna with her terminals and her phone, where the platform, the gateway and each
terminal is a process of its own; and the `house` of the gateway's tests, which is quicker."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import segue.store
from segue.agent.models.base import Piece, Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.address import Address, ChatType, HomeChannel, Platform, Sender
from segue.core.handoff import Handoff, State, Step
from segue.core.session import ME, Session
from segue.store import Store, Topic
from segue.testing.http import HangUp, Request, Response
from segue.testing.models.openai import Answer, FakeOpenAI, Say
from segue.testing.platform import Hands, Peer, Shape, Thread, running
from tests.gateway.conftest import echoing
from tests.gateway.conftest import house as house
from tests.gateway.conftest import settings as settings
from tests.terminal.conftest import Person
from tests.terminal.conftest import person as person
from tests.terminal.gateways import serving
from tests.terminal.pty import CODE, Terminal

# Its assertions are explained as those of a test module are.
pytest.register_assert_rewrite("tests.failures.advice")

WITHIN = 20.0
HANDED_OFF = "This session has just been handed off"
"""How the prompt of the confirming turn begins."""
STAYED = "The session stayed where it was"
"""How a thread is told that nothing came of it."""


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


class Slow(ScriptedModel):
    """In a `house`: says what `echo` says, and thinks long about what has certain words in it."""

    def __init__(self, words: str) -> None:
        super().__init__(echoing())
        self.go = asyncio.Event()
        """Set it to let it answer."""
        self.thinks = asyncio.Event()
        """Set when it thinks long."""
        self._words = words
        self._once = False

    def only_once(self) -> None:
        """From now on it answers everything at once; what it thinks about goes on."""
        self._once = True

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        if self._words in prompt.messages[-1].content and not self._once:
            self.thinks.set()
            await self.go.wait()
        async for piece in super().stream(prompt):
            yield piece


@dataclass(frozen=True, slots=True)
class Gateway:
    """`segue gateway run`, under way."""

    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def ends(self) -> None:
        """Let it end in order: whatever it has in hand is done then."""
        self.process.terminate()
        assert await asyncio.to_thread(self.process.wait, WITHIN) == 0

    def freeze(self) -> None:
        """It lives, and does nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Household:
    person: Person
    """At her terminals."""
    peer: Peer
    hands: Hands
    """On her phone, and those of others."""
    store: Store
    """The test's own view of it."""
    mind: Mind
    anna: str
    """The owner, as the platform knows her."""
    chat: str
    """Her direct messages with the bot, in which handoffs arrive."""

    @property
    def log(self) -> Path:
        return Path(self.person.environment["HOME"]) / "gateway.err"

    # Processes

    @contextlib.asynccontextmanager
    async def gateway(self) -> AsyncGenerator[Gateway]:
        """One that has reached its platform; in the end it is killed."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(  # noqa: ASYNC220 - nothing waits for it
                [sys.executable, "-m", "segue", "gateway", "run"],
                env={**CODE, **self.person.environment},
                cwd=self.person.environment["HOME"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        gateway = Gateway(process)
        try:
            await self._until_connected(process)
            yield gateway
        finally:
            gateway.kill()

    async def _until_connected(self, process: subprocess.Popen[bytes]) -> None:
        async with asyncio.timeout(WITHIN):
            while process.poll() is None:
                serves = await self.store.gateways.serving(Platform.TELEGRAM)
                if serves and serves.links[Platform.TELEGRAM].state == "connected":
                    return
                await asyncio.sleep(0.02)
        raise AssertionError(f"the gateway has ended: {self.log.read_text()}")

    @contextlib.asynccontextmanager
    async def terminal(
        self, *said: str, title: str = "Sums", **more: Any
    ) -> AsyncGenerator[Terminal]:
        """A new session, in which that was said."""
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

    async def handoffs(self) -> Sequence[Handoff]:
        """The newest first."""
        return await self.store.recent_handoffs(20)

    async def handoff(self, *states: State, step: Step | None = None) -> Handoff:
        """The newest one, once it is in one of these states, and at that step."""
        async with asyncio.timeout(WITHIN), self.store.listen(Topic.HANDOFFS) as wake:
            while True:
                for newest in (await self.handoffs())[:1]:
                    if newest.state in states and step in (None, newest.step):
                        return newest
                await wake.wait(0.1)

    async def thread(self) -> Thread:
        """The only one in her chat."""
        await self.hands.thread(self.chat)
        (thread,) = (await self.hands.look(self.chat)).threads
        return thread

    async def in_thread(self, thread: str | None) -> list[str]:
        """What the bot said there."""
        shown = await self.hands.look(self.chat)
        return [m.text for m in shown.messages if m.thread == thread and m.author != self.anna]

    async def answered(self) -> None:
        """Let the gateway answer one command more: it is at work."""
        words = "paired with the owner"
        before = sum(words in text for text in await self.in_thread(None))
        await self.hands.say(self.anna, self.chat, "/whoami")
        await self.sees(words, before + 1)

    async def sees(self, words: str, times: int = 1) -> None:
        """Wait until the bot has said something with these words so often in her chat."""
        await self.hands.until(
            lambda shown: (
                sum(words in m.text and m.author != self.anna for m in shown.messages) >= times
            ),
            chat=self.chat,
            within=WITHIN,
        )


@pytest.fixture
def household(person: Person, runner: asyncio.Runner) -> Generator[Household]:
    """With Anna, who is paired and has a home channel, and nothing running but the platform."""
    stack = contextlib.AsyncExitStack()

    async def build() -> Household:
        peer = stack.enter_context(running())
        hands = await stack.enter_async_context(peer.hands())
        mind = Mind()
        url = await stack.enter_async_context(mind.serving())
        store = await stack.enter_async_context(
            await segue.store.open(person.environment["SEGUE_STORE"])
        )
        serving(person, "segue.testing.platform.adapter:make")
        person.environment.update(
            SEGUE_TELEGRAM_URL=peer.url,
            SEGUE_TELEGRAM_TOKEN=peer.token,
            SEGUE_MODEL="openai/gpt-test",
            OPENAI_BASE_URL=url,
            OPENAI_API_KEY="sk-test",
        )
        anna = await hands.user("Anna")
        chat = await hands.chat(Shape.DM, [anna])
        await store.owners.ensure(ME)
        await store.owners.introduced(ME)
        await store.owners.link(Sender(platform=Platform.TELEGRAM, user_id=anna), ME)
        address = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id=chat)
        await store.owners.set_home(ME, HomeChannel(address=address, name="Home"))
        return Household(
            person=person, peer=peer, hands=hands, store=store, mind=mind, anna=anna, chat=chat
        )

    yield runner.run(build())
    runner.run(stack.aclose())
