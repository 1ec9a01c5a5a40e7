"""A household: Anna with her terminals and her phone.

The gateway and each terminal run in separate processes. The faster `house` of the gateway tests is
available too.
"""

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
from tests.harness import gateways
from tests.harness.household import HANDED_OFF as HANDED_OFF
from tests.harness.household import WITHIN, Indoors, indoors
from tests.harness.household import Gateway as Gateway
from tests.harness.terminal import Person
from tests.harness.terminal import person as person

# Assertions in this module get pytest's detailed messages too.
pytest.register_assert_rewrite("tests.failures.advice")

STAYED = "The session stayed where it was"
"""The notice in a thread after a failed handoff."""


class Slow(ScriptedModel):
    """A model for a `house`: answers like `echo`, but waits before it answers certain words."""

    def __init__(self, words: str) -> None:
        super().__init__(echoing())
        self.go = asyncio.Event()
        """Set it to let the model answer."""
        self.thinks = asyncio.Event()
        """Set when the model is waiting."""
        self._words = words
        self._once = False

    def only_once(self) -> None:
        """Answer everything at once from now on.

        An answer that is already waiting keeps waiting.
        """
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
    """Acts for Anna and other users on the platform."""
    anna: str
    """The owner's user id on the platform."""
    chat: str
    """Her direct messages with the bot, which receive handoffs."""

    async def handoffs(self) -> Sequence[Handoff]:
        """Newest first."""
        return await self.store.recent_handoffs(20)

    async def thread(self) -> Thread:
        """The only thread in her chat."""
        await self.hands.thread(self.chat)
        (thread,) = (await self.hands.look(self.chat)).threads
        return thread

    async def in_thread(self, thread: str | None) -> list[str]:
        """The bot's messages there."""
        shown = await self.hands.look(self.chat)
        return [m.text for m in shown.messages if m.thread == thread and m.author != self.anna]

    async def answered(self) -> None:
        """Send a command and wait for the answer, to check that the gateway works."""
        words = "paired with the owner"
        before = sum(words in text for text in await self.in_thread(None))
        await self.hands.say(self.anna, self.chat, "/whoami")
        await self.sees(words, before + 1)

    async def sees(self, words: str, times: int = 1) -> None:
        """Wait until the bot has sent `times` messages with these words in Anna's chat."""
        await self.hands.until(
            lambda shown: (
                sum(words in m.text and m.author != self.anna for m in shown.messages) >= times
            ),
            chat=self.chat,
            within=WITHIN,
        )


@pytest.fixture
def household(person: Person, runner: asyncio.Runner) -> Generator[Household]:
    """A household in which Anna is paired and has a home channel. Only the platform is running."""
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
