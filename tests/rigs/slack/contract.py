"""The contract suite's rig for Slack."""

from __future__ import annotations

import contextlib
import html
from collections.abc import AsyncGenerator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from segue.platforms.base import Adapter
from segue.platforms.slack.adapter import SlackAdapter
from segue.testing.contract.fake import FakeRig
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import CHATTER, Act, Feature, File, Place, Seen
from segue.testing.peers import Trouble
from tests.fakes.slack import BOT, COMMAND, Driver, Kind, Message, Peer, Settings, Upload
from tests.rigs.slack import SlackRig
from tests.rigs.slack.specimens import ANNA, CHANNEL, SPECIMENS

UNKNOWN_TOKEN = "xoxb-100000001-100000002-atokenthatnobodyhasgiven"
LOST = Settings(retry_seconds=())
"""Slack delivers nothing again, as after six minutes."""


class Shape(StrEnum):
    CHANNEL = "channel"
    PRIVATE = "private"  # a channel
    DM = "dm"
    GROUP_DM = "group_dm"
    ASSISTANT = "assistant"  # a thread in a direct message


CHANNELS = {Shape.CHANNEL: Kind.CHANNEL, Shape.PRIVATE: Kind.GROUP, Shape.GROUP_DM: Kind.MPIM}
NONE = frozenset({Feature.REPLIES})
"""What no shape has: on Slack, a reply to a message is a message in its thread."""


class AnnaOnSlack(FakeRig):
    """Anna on Slack.

    A user has one direct message with a bot, so each that a test asks for is another Anna's.
    """

    driver: Driver
    author = ANNA
    serial = "injected"
    scene = CHANNEL
    methods: Mapping[Act, str] = {**SlackRig.methods, Act.SEND: "chat.postMessage"}
    lacks = NONE
    lookup = "conversations.info"
    usual = Shape.CHANNEL

    def __init__(self, peer: Peer, driver: Driver, anna: str) -> None:
        self._peer = peer
        self.driver = driver
        self._annas: dict[str, str] = {}  # her account in each chat
        self._chats: dict[str, str] = {}  # the chat of each of her messages
        self.anna = anna
        self.adapter = self.another()

    def another(self, token: str = "", **more: Any) -> Adapter:
        peer = self._peer
        return SlackAdapter(token or peer.token, peer.app_token, peer.url, **more)

    def impatient(self) -> Adapter:
        return self.another(silence=0.6)

    def denied(self) -> Adapter:
        return self.another(UNKNOWN_TOKEN)

    def has_threads(self, shape: str) -> bool:
        return True

    def can_fail(self, act: Act, trouble: Trouble) -> bool:
        """Outside of threads there is no status to set."""
        return act is not Act.TYPING

    async def place(self, shape: str) -> Place:
        thread = None
        if shape in (Shape.DM, Shape.ASSISTANT):
            self.anna = await self.driver.user(self.name)
            chat = await self.driver.chat(Kind.IM, [self.anna])
            thread = await self.driver.assist(self.anna) if shape == Shape.ASSISTANT else None
        else:
            members = [self.anna, *([await self.driver.user("Bob")] * (shape == Shape.GROUP_DM))]
            chat = await self.driver.chat(CHANNELS[Shape(shape)], members)
        self._annas[chat] = self.anna
        return Place(chat, thread)

    async def noticed(self) -> None:
        await self.driver.settings(LOST)

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        sent = [Upload(name=f.name, media_type=f.media_type, content=f.content) for f in files]
        anna = self._annas[at.chat]
        said = await self.driver.say(anna, at.chat, text, thread=at.thread, files=sent)
        self._chats[said] = at.chat
        return said

    async def command(self, at: Place, text: str) -> str:
        """Threads have no slash commands, so there it is a message."""
        if at.thread is not None:
            return await self.say(at, text)
        return await self.driver.command(self._annas[at.chat], at.chat, COMMAND, text[1:])

    async def forward(self, at: Place, author: str, text: str) -> str:
        them = await self.driver.user(author)
        anna = self._annas[at.chat]
        said = await self.driver.share(anna, at.chat, them, text, at.thread)
        self._chats[said] = at.chat
        return said

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(self._chats[message], message, text)

    async def delete(self, message: str) -> None:
        await self.driver.delete(self._chats[message], message)

    async def press(self, message: str, label: str) -> None:
        shown = (await self.driver.look()).messages
        [found] = [it for it in shown if it.id == message and label in it.labels]
        await self.driver.press(self._annas[found.chat], found.chat, found.id, label)

    async def join(self, at: Place) -> None:
        """Remove the bot and invite it again."""
        for joined in (False, True):
            await self.driver.rights(self._annas[at.chat], at.chat, joined=joined)

    async def begin_thread(self, at: Place, message: str) -> Place:
        return Place(at.chat, message)

    async def delete_thread(self, at: Place) -> None:
        assert at.thread is not None
        await self.driver.delete_thread(at.chat, at.thread)

    async def others(self, at: Place, count: int) -> None:
        bob = await self.driver.user("Bob")
        await self.driver.chat_on(bob, at.chat, CHATTER, count, thread=at.thread)

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        members = [self.anna] if with_anna else []
        members += [await self.driver.user(name) for name in ("Bob", "Eve")]
        await self.driver.populate(at.chat, members)

    async def other_bot_says(self, at: Place, text: str) -> None:
        bot = await self.driver.user("Other", bot=True)
        await self.driver.say(bot, at.chat, text, thread=at.thread)

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        shown = (await self.driver.look()).messages
        texts = (text, html.unescape(text))
        return [_seen(it) for it in shown if it.text in texts and not it.streaming]

    async def typing(self, at: Place) -> int:
        shown = await self.driver.look(at.chat)
        return sum(seen.times for seen in shown.typing if seen.thread == at.thread)

    async def threads(self, at: Place) -> int:
        """The bot's messages outside of threads: each opens one."""
        shown = (await self.driver.look(at.chat)).messages
        return sum(it.author == BOT.id and it.thread is None and not it.subtype for it in shown)

    # The platform

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


@contextlib.asynccontextmanager
async def plugged_in(peer: Peer) -> AsyncGenerator[AnnaOnSlack]:
    """A rig on a fake in its initial state."""
    async with peer.driver() as driver:
        await driver.clear()
        rig = AnnaOnSlack(peer, driver, await driver.user("Anna"))
        await rig.adapter.connect()
        yield rig
        await rig.adapter.close()
        assert await driver.errors() == ()


def _seen(message: Message) -> Seen:
    return Seen(message.id, Place(message.chat, message.thread), message.text, message.labels)
