"""A household with its phone on Telegram.

The gateway, with its built-in adapter, runs in a separate process; the Bot API fake runs in the
test's process. The adapter tests cover the differences between kinds of chats, so each journey here
uses one kind.
"""

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
from segue.store.gateways import LinkState
from segue.testing.models.openai import Say
from segue.testing.telegram import Hands, Kind, Message, Peer, Shown
from segue.testing.telegram.process import serving
from tests.harness.household import HANDED_OFF, WITHIN, Indoors, indoors
from tests.harness.pty import Terminal
from tests.harness.terminal import Person
from tests.harness.terminal import person as person

TELEGRAM = Platform.TELEGRAM


class Shape(StrEnum):
    """The kind of chat that receives handoffs."""

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
    """Acts for Anna and other users on Telegram."""
    anna: int
    """The owner's Telegram user id."""
    eve: int
    """The user id of a stranger."""

    # Users and chats

    async def chat(self, shape: Shape) -> int:
        """A chat with Anna and the bot. Eve is a member too, unless the chat is private."""
        if shape.is_private:
            return await self.hands.private(self.anna, topics=shape.has_topics)
        return await self.hands.chat(
            KINDS[shape], [self.anna, self.eve], manage_topics=shape is Shape.FORUM
        )

    async def at_home(self, shape: Shape) -> int:
        """A chat that is Anna's home channel, set up without pairing."""
        chat = await self.chat(shape)
        await self.store.owners.link(Sender(platform=TELEGRAM, user_id=str(self.anna)), ME)
        kind = ChatType.DM if shape.is_private else ChatType.GROUP
        address = Address(platform=TELEGRAM, chat_type=kind, chat_id=str(chat))
        await self.store.owners.set_home(ME, HomeChannel(address=address, name="Home"))
        return chat

    # Processes

    async def until_link(self, state: LinkState, platform: Platform = TELEGRAM) -> str:
        """Wait until a gateway reports that state of a platform, and return the detail it
        reports."""
        async with asyncio.timeout(WITHIN):
            while True:
                if (health := await self.health(platform)) and health.state is state:
                    return health.detail
                await asyncio.sleep(0.02)

    async def arrives(self, chat: int, title: str = "Sums") -> int | None:
        """Hand off a new session to that chat and return its topic.

        The next message is its third.
        """
        async with self.desk("what is 2 and 2?", title=title) as desk:
            done = await desk.hand_off()
        assert done.state is State.COMPLETED, done.error
        assert done.thread is not None
        assert done.thread.chat_id == str(chat)
        thread = None if done.thread.thread_id is None else int(done.thread.thread_id)
        await self.sees(HANDED_OFF, chat, thread=thread)
        return thread

    async def hands_off(self, shown: Terminal) -> Handoff:
        """Hand off from a terminal, which exits, and return the completed handoff."""
        shown.say("/handoff telegram")
        assert await shown.end() == 0
        return await self.handoff(State.COMPLETED)

    # State

    async def sees(
        self, words: str, chat: int, *, thread: int | None = None, times: int = 1
    ) -> Message:
        """Wait for `times` messages of the bot with these words in exactly that place.

        Return the newest.
        """

        def found(shown: Shown) -> list[Message]:
            return [m for m in self.spoken(shown, thread) if words in m.text]

        shown = await self.hands.until(
            lambda shown: len(found(shown)) >= times, chat=chat, within=WITHIN
        )
        return found(shown)[-1]

    def spoken(self, shown: Shown, thread: int | None) -> list[Message]:
        """The bot's messages in a topic, or in the chat itself if `thread` is None."""
        people = (self.anna, self.eve)
        return [
            m
            for m in shown.messages
            if m.author not in people and (m.thread if m.topic else None) == thread
        ]

    async def confirmed(self) -> None:
        """Wait until the gateway has confirmed every update."""
        await self.hands.until(lambda shown: shown.unconfirmed == 0, within=WITHIN)


def wants(tool: str, number: int = 1, **arguments: object) -> Say:
    """An answer in which the model calls a tool."""
    return Say(calls=(ToolCall(f"call_{number}", tool, msgspec.json.encode(arguments).decode()),))


@pytest.fixture
def home(person: Person, runner: asyncio.Runner) -> Generator[Home]:
    """A household with Anna and Eve, neither of them paired. Only Telegram is running."""
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
    """Point the user's settings to that Telegram."""
    settings = Path(person.environment["HOME"]) / "config.toml"
    settings.write_text(
        f'[platforms.telegram]\nurl = "{peer.url}"\ntoken = "{peer.token}"\n', "utf-8"
    )
    settings.chmod(0o600)
    person.environment.update(
        SEGUE_CONFIG=str(settings), SEGUE_GATEWAY_LOG=str(settings.parent / "gateway.log")
    )
