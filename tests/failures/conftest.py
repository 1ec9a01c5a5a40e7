"""A household: Anna with her terminals and her phone, where the gateway and each terminal is a
process of its own; and the `house` of the gateway's tests, which is quicker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass

import pytest

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.address import Address, ChatType, HomeChannel, Platform, Sender
from segue.core.handoff import Handoff
from segue.core.session import ME
from segue.testing.platform import Hands, Peer, Shape, Thread
from segue.testing.platform.process import serving
from tests.gateway.conftest import echoing
from tests.gateway.conftest import house as house
from tests.gateway.conftest import settings as settings
from tests.household import HANDED_OFF as HANDED_OFF
from tests.household import WITHIN, Indoors, indoors
from tests.household import Gateway as Gateway
from tests.terminal import gateways
from tests.terminal.conftest import Person
from tests.terminal.conftest import person as person

# Its assertions are explained as those of a test module are.
pytest.register_assert_rewrite("tests.failures.advice")

STAYED = "The session stayed where it was"
"""How a thread is told that nothing came of it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Household(Indoors):
    peer: Peer
    hands: Hands
    """On her phone, and those of others."""
    anna: str
    """The owner, as the platform knows her."""
    chat: str
    """Her direct messages with the bot, in which handoffs arrive."""

    async def handoffs(self) -> Sequence[Handoff]:
        """The newest first."""
        return await self.store.recent_handoffs(20)

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
        peer = await stack.enter_async_context(serving())
        hands = await stack.enter_async_context(peer.hands())
        store, mind = await indoors(person, stack)
        gateways.serving(person, "segue.testing.platform.adapter:make")
        person.environment.update(SEGUE_TELEGRAM_URL=peer.url, SEGUE_TELEGRAM_TOKEN=peer.token)
        anna = await hands.user("Anna")
        chat = await hands.chat(Shape.DM, [anna])
        await store.owners.link(Sender(platform=Platform.TELEGRAM, user_id=anna), ME)
        address = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id=chat)
        await store.owners.set_home(ME, HomeChannel(address=address, name="Home"))
        return Household(
            person=person, peer=peer, hands=hands, store=store, mind=mind, anna=anna, chat=chat
        )

    yield runner.run(build())
    runner.run(stack.aclose())
