"""A household whose phone is on Telegram: the gateway with its built-in adapter is a process of its
own, and the Bot API is in that of the test. What differs between kinds of chats is in the tests of
the adapter; here each journey is made in one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest

from segue.core.address import Address, ChatType, HomeChannel, Platform, Sender
from segue.core.handoff import Handoff, State
from segue.core.session import ME
from segue.core.transcript import ToolCall
from segue.store.gateways import Link
from segue.testing.models.openai import Say
from segue.testing.telegram import Hands, Kind, Message, Peer, Shown
from segue.testing.telegram.process import serving
from tests.household import HANDED_OFF, WITHIN, Indoors, indoors
from tests.terminal.conftest import Person
from tests.terminal.conftest import person as person
from tests.terminal.pty import Terminal

TELEGRAM = Platform.TELEGRAM


class Shape(StrEnum):
    """Of the chat in which handoffs arrive."""

    FORUM = "a group with topics"
    TOPICS = "a direct message with topics"
    DM = "a direct message without topics"
    GROUP = "a group without topics"
    SUPERGROUP = "a supergroup without topics"

    @property
    def has_topics(self) -> bool:
        return self in (Shape.FORUM, Shape.TOPICS)

    @property
    def is_private(self) -> bool:
        return self in (Shape.TOPICS, Shape.DM)


KINDS = {
    Shape.FORUM: Kind.FORUM,
    Shape.GROUP: Kind.GROUP,
    Shape.SUPERGROUP: Kind.SUPERGROUP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home(Indoors):
    peer: Peer
    hands: Hands
    """On her phone, and those of others."""
    anna: int
    """The owner, as Telegram knows her."""
    eve: int
    """A stranger."""

    # Who and where

    async def chat(self, shape: Shape) -> int:
        """Anna's with the bot; Eve is there too, where there can be others."""
        if shape.is_private:
            return await self.hands.private(self.anna, topics=shape.has_topics)
        return await self.hands.chat(
            KINDS[shape], [self.anna, self.eve], manage_topics=shape is Shape.FORUM
        )

    async def at_home(self, shape: Shape) -> int:
        """A chat of Anna's in which handoffs arrive, without any pairing."""
        chat = await self.chat(shape)
        await self.store.owners.link(Sender(platform=TELEGRAM, user_id=str(self.anna)), ME)
        kind = ChatType.DM if shape.is_private else ChatType.GROUP
        address = Address(platform=TELEGRAM, chat_type=kind, chat_id=str(chat))
        await self.store.owners.set_home(ME, HomeChannel(address=address, name="Home"))
        return chat

    # Processes

    async def until_link(self, state: Link, platform: Platform = TELEGRAM) -> str:
        """Wait until a gateway says that of a platform; what else it says of it."""
        async with asyncio.timeout(WITHIN):
            while True:
                if (health := await self.health(platform)) and health.state is state:
                    return health.detail
                await asyncio.sleep(0.02)

    async def arrives(self, chat: int, title: str = "Sums") -> int | None:
        """A session goes to that chat; the topic in which it is then. The next thing that is said
        there is the third."""
        async with self.desk("what is 2 and 2?", title=title) as desk:
            done = await desk.hand_off()
        assert done.state is State.COMPLETED, done.error
        assert done.thread is not None
        assert done.thread.chat_id == str(chat)
        thread = None if done.thread.thread_id is None else int(done.thread.thread_id)
        await self.sees(HANDED_OFF, chat, thread=thread)
        return thread

    async def hands_off(self, shown: Terminal) -> Handoff:
        """To the end, which is returned; the terminal is left."""
        shown.say("/handoff telegram")
        assert await shown.end() == 0
        return await self.handoff(State.COMPLETED)

    # What is there

    async def sees(
        self, words: str, chat: int, *, thread: int | None = None, times: int = 1
    ) -> Message:
        """The newest message of the bot with these words at that very place, once there are so
        many."""

        def found(shown: Shown) -> list[Message]:
            return [m for m in self.spoken(shown, thread) if words in m.text]

        shown = await self.hands.until(
            lambda shown: len(found(shown)) >= times, chat=chat, within=WITHIN
        )
        return found(shown)[-1]

    def spoken(self, shown: Shown, thread: int | None) -> list[Message]:
        """What the bot said in a topic; None: in the chat itself."""
        people = (self.anna, self.eve)
        return [
            m
            for m in shown.messages
            if m.author not in people and (m.thread if m.topic else None) == thread
        ]

    async def confirmed(self) -> None:
        """Wait until the gateway has taken up all that was said and done on Telegram."""
        await self.hands.until(lambda shown: shown.unconfirmed == 0, within=WITHIN)


def wants(tool: str, number: int = 1, **arguments: object) -> Say:
    """The model calls a tool."""
    return Say(calls=(ToolCall(f"call_{number}", tool, msgspec.json.encode(arguments).decode()),))


@pytest.fixture
def home(person: Person, runner: asyncio.Runner) -> Generator[Home]:
    """With Anna and Eve, who are strangers to the program yet, and nothing running but Telegram."""
    stack = contextlib.AsyncExitStack()

    async def build() -> Home:
        peer = await stack.enter_async_context(serving())
        hands = await stack.enter_async_context(peer.hands())
        settle(person, peer)
        store, mind = await indoors(person, stack)
        anna, eve = await hands.user("Anna"), await hands.user("Eve")
        return Home(
            person=person, peer=peer, hands=hands, store=store, mind=mind, anna=anna, eve=eve
        )

    home = runner.run(build())
    yield home
    errors = runner.run(home.hands.errors())
    runner.run(stack.aclose())
    assert errors == ()


def settle(person: Person, peer: Peer) -> None:
    """Let the person's settings name that Telegram."""
    settings = Path(person.environment["HOME"]) / "config.toml"
    settings.write_text(
        f'[platforms.telegram]\nurl = "{peer.url}"\ntoken = "{peer.token}"\n', "utf-8"
    )
    settings.chmod(0o600)
    person.environment.update(
        SEGUE_CONFIG=str(settings), SEGUE_GATEWAY_LOG=str(settings.parent / "gateway.log")
    )
