"""The contract suite's rig for Telegram."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from segue.core.address import Address
from segue.platforms.base import Adapter
from segue.platforms.telegram.adapter import TelegramAdapter
from segue.testing.contract.fake import FakeRig, uploads
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import CHATTER, Feature, File, Place, Seen, reading
from tests.fakes.telegram import Driver, Kind, Message, cleaned
from tests.fakes.telegram.markup import parse_html
from tests.fakes.telegram.state import Refuse
from tests.rigs.telegram import TelegramRig
from tests.rigs.telegram.specimens import ANNA, FORUM, SPECIMENS

UNKNOWN_TOKEN = "7000000001:a_token_that_nobody_has_given_to_it_01"


class Shape(StrEnum):
    TOPICS = "topics"
    """A direct message with topics."""
    DM = "dm"
    GROUP = "group"
    SUPERGROUP = "supergroup"
    FORUM = "forum"
    REFUSED = "refused"
    """A forum whose topics the bot may not manage."""


KINDS = {
    Shape.GROUP: Kind.GROUP,
    Shape.SUPERGROUP: Kind.SUPERGROUP,
    Shape.FORUM: Kind.FORUM,
    Shape.REFUSED: Kind.FORUM,
}


class AnnaOnTelegram(FakeRig):
    """Anna on Telegram.

    A user has only one private chat with a bot, so each private chat that a test asks for gets
    another account of Anna.
    """

    driver: Driver
    author = ANNA["id"]
    scene = FORUM["id"]
    methods = TelegramRig.methods
    lacks = frozenset({Feature.HISTORY, Feature.DELETIONS, Feature.USER_THREADS})
    many = 105  # a batch has at most 100
    usual = Shape.FORUM

    def another(self) -> Adapter:
        return TelegramAdapter(self._peer.token, f"{self._peer.url}/", album_seconds=0.01)

    def impatient(self) -> Adapter:
        return TelegramAdapter(self._peer.token, self._peer.url, silence=0.6)

    def denied(self) -> Adapter:
        return TelegramAdapter(UNKNOWN_TOKEN, self._peer.url)

    def has_threads(self, shape: str) -> bool:
        return shape in (Shape.TOPICS, Shape.FORUM)

    async def place(self, shape: str) -> Place:
        if shape in (Shape.DM, Shape.TOPICS):
            self.anna = str(await self.driver.user(self.name))
            chat = await self.driver.private(int(self.anna), topics=shape == Shape.TOPICS)
        else:
            kind = KINDS[Shape(shape)]
            manage = shape == Shape.FORUM
            chat = await self.driver.chat(kind, [int(self.anna)], manage_topics=manage)
        self._annas[chat] = int(self.anna)
        return Place(str(chat))

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = (), **more: Any) -> str:
        chat, thread = _numbers(at)
        anna = self._annas[chat]
        said = await self.driver.say(anna, chat, text, thread=thread, files=uploads(files), **more)
        self._said[str(said)] = chat
        return str(said)

    async def forward(self, at: Place, author: str, text: str) -> str:
        return await self.say(at, text, forwarded_from=await self.driver.user(author))

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self.say(at, text, reply_to=int(message))

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(self._said[message], int(message), text)

    async def press(self, message: str, label: str) -> None:
        shown = (await self.driver.look()).messages
        [found] = [it for it in shown if it.id == int(message) and label in it.labels]
        await self.driver.press(self._annas[found.chat], found.chat, found.id, label)

    async def others(self, at: Place, count: int) -> None:
        chat, thread = _numbers(at)
        bob = await self.driver.user("Bob")
        for _ in range(count):
            await self.driver.say(bob, chat, CHATTER, thread=thread)

    async def join(self, at: Place) -> None:
        chat, _ = _numbers(at)
        await self.driver.join(self._annas[chat], chat)

    async def delete_thread(self, at: Place) -> None:
        chat, thread = _numbers(at)
        assert thread is not None
        await self.driver.delete_topic(chat, thread)

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        bob = await self.driver.user("Bob")
        await self.driver.populate(int(at.chat), [int(self.anna), bob] if with_anna else [bob])

    async def other_bot_says(self, at: Place, text: str) -> None:
        chat, thread = _numbers(at)
        bot = await self.driver.user("Other", username="other_bot", bot=True)
        await self.driver.say(bot, chat, text, thread=thread)

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        shown = await self.driver.look()
        return [_seen(it) for it in shown.messages if it.text in _displayed(text)]

    async def typing(self, at: Place) -> int:
        chat, thread = _numbers(at)
        shown = await self.driver.look(chat)
        return sum(seen.times for seen in shown.typing if seen.thread == thread)

    async def threads(self, at: Place) -> int:
        return len((await self.driver.look(int(at.chat))).threads)

    # The platform

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


def _numbers(at: Place) -> tuple[int, int | None]:
    return int(at.chat), None if at.thread is None else int(at.thread)


def _seen(message: Message) -> Seen:
    thread = str(message.thread) if message.topic else None
    return Seen(str(message.id), Place(str(message.chat), thread), message.text, message.labels)


def _displayed(text: str) -> tuple[str, ...]:
    """How a text may be displayed: said by a user, sent as HTML, or sent as plain text."""
    try:
        return text, cleaned(text), cleaned(parse_html(text).text)
    except Refuse:
        return text, cleaned(text)


async def topic(rig: AnnaOnTelegram, shape: Shape = Shape.FORUM) -> Address:
    """The address of a new topic in a new chat of that shape."""
    thread = await rig.adapter.create_handoff_thread(await home_at(rig, shape), "Work", key="1")
    assert thread is not None
    return thread


async def home_at(rig: AnnaOnTelegram, shape: Shape) -> Address:
    """The address of a new chat of that shape."""
    at = await rig.place(shape)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "This is home.")
        # The last update of another chat may be delivered again, as it was not confirmed.
        while (address := (await reader.next()).address).chat_id != at.chat:
            pass
    return address
