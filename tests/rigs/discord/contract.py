"""The contract suite's rig for Discord.

It makes adapters as the registry does. For one whose calls time out early, it calls the function in
`PlatformSpec.make` with `silence`, a number of seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, cast

from segue.core.address import Address, Platform
from segue.platforms import registry
from segue.platforms.base import Adapter, MenuEntry
from segue.platforms.spec import PlatformSettings
from segue.testing.contract.fake import FakeRig, uploads
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import CHATTER, Act, Feature, File, Place, Seen, reading
from segue.testing.peers import Trouble
from tests.fakes.discord import USUAL, Driver, Kind, Permission
from tests.fakes.discord.state import Message
from tests.rigs.discord import DiscordRig
from tests.rigs.discord.specimens import ANNA, MESSAGE, SPECIMENS

UNKNOWN_TOKEN = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.Gnobody.a_token_that_nobody_has_given_to_it_01"
MENU = [MenuEntry(name, f"The command {name}") for name in ("approve", "resume", "status")]
_TIMES = 5
"""A fault also hits the repetitions of a call that discord.py and aiohttp make by themselves."""


class Shape(StrEnum):
    TEXT = "text"
    REFUSED = "refused"
    """A text channel in which the bot may not open threads."""
    ANNOUNCEMENT = "announcement"
    VOICE = "voice"
    """The messages of a voice channel."""
    FORUM = "forum"
    DM = "dm"


KINDS = {
    Shape.TEXT: Kind.TEXT,
    Shape.REFUSED: Kind.TEXT,
    Shape.ANNOUNCEMENT: Kind.ANNOUNCEMENT,
    Shape.VOICE: Kind.VOICE,
    Shape.FORUM: Kind.FORUM,
}


class AnnaOnDiscord(FakeRig):
    """Anna on Discord.

    A user has only one direct message with a bot, so each one that a test asks for gets another
    account of Anna.
    """

    driver: Driver
    author = ANNA["id"]
    scene = MESSAGE["channel_id"]
    methods = DiscordRig.methods
    lacks = frozenset({Feature.JOINS, Feature.FORWARD_AUTHORS, Feature.REDELIVERY})
    lookup = "get_channel"
    usual = Shape.TEXT

    async def prepare(self) -> None:
        self.guild = await self.driver.guild()

    def another(self) -> Adapter:
        return registry.make(Platform.DISCORD, self._settings())

    def impatient(self) -> Adapter:
        spec = registry.SPECS[Platform.DISCORD]
        make = cast("Callable[..., Adapter]", registry.load(spec, spec.make))
        return make(self._settings(), silence=0.6)

    def denied(self) -> Adapter:
        return registry.make(Platform.DISCORD, self._settings(UNKNOWN_TOKEN))

    def _settings(self, token: str = "") -> PlatformSettings:
        values = {"token": token or self._peer.token, "url": self._peer.url}
        return PlatformSettings(platform=Platform.DISCORD, values=values)

    def has_threads(self, shape: str) -> bool:
        return shape in (Shape.TEXT, Shape.ANNOUNCEMENT, Shape.FORUM)

    async def place(self, shape: str) -> Place:
        if shape == Shape.DM:
            self.anna = str(await self.driver.user(self.name))
            chat = await self.driver.dm(int(self.anna))
        else:
            chat = await self.driver.chat(KINDS[Shape(shape)], [int(self.anna)])
        if shape == Shape.REFUSED:
            await self.driver.permit(chat, USUAL & ~Permission.CREATE_PUBLIC_THREADS)
        self._annas[str(chat)] = int(self.anna)
        return Place(str(chat))

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = (), **more: Any) -> str:
        channel = _channel(at)
        said = await self.driver.say(
            self._annas[at.chat], channel, text, files=uploads(files), **more
        )
        self._said[str(said)] = channel
        return str(said)

    async def command(self, at: Place, text: str) -> str:
        await self.adapter.offer(MENU)
        return str(await self.driver.slash(self._annas[at.chat], _channel(at), text))

    async def forward(self, at: Place, author: str, text: str) -> str:
        return await self.say(at, "", forwarded=text)

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self.say(at, text, reply_to=int(message))

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(self._said[message], int(message), text)

    async def delete(self, message: str) -> None:
        await self.driver.delete(self._said[message], int(message))

    async def press(self, message: str, label: str) -> None:
        [found] = [it for it in (await self.driver.look()).messages if it.id == int(message)]
        anna = self._annas[str(found.chat)]
        await self.driver.press(anna, found.thread or found.chat, found.id, label)

    async def begin_thread(self, at: Place, message: str) -> Place:
        anna = self._annas[at.chat]
        thread = await self.driver.open_thread(anna, int(at.chat), "Talk", source=int(message))
        return Place(at.chat, str(thread))

    async def delete_thread(self, at: Place) -> None:
        await self.driver.delete_channel(_channel(at))

    async def others(self, at: Place, count: int) -> None:
        bob = await self.driver.user("Bob")
        for _ in range(count):
            await self.driver.say(bob, _channel(at), CHATTER)

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        if not with_anna:
            await self.driver.leave(int(self.anna), self.guild)

    async def other_bot_says(self, at: Place, text: str) -> None:
        bot = await self.driver.user("Other", bot=True)
        await self.driver.say(bot, _channel(at), text)

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        return [
            Seen(str(it.id), _place(it), it.text, it.labels)
            for it in (await self.driver.look()).messages
            if it.text == text
        ]

    async def typing(self, at: Place) -> int:
        shown = await self.driver.look(int(at.chat))
        return sum(it.times for it in shown.typing if (it.thread or it.chat) == _channel(at))

    async def threads(self, at: Place) -> int:
        return len((await self.driver.look(int(at.chat))).threads)

    # The platform

    def can_fail(self, act: Act, trouble: Trouble) -> bool:
        """Where the bot may not open a thread, the handoff arrives in the channel itself."""
        return (act, trouble) != (Act.OPEN_THREAD, Trouble.FORBIDDEN)

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        also = ["start_thread"] if act is Act.OPEN_THREAD else []
        for method in (self.methods[act], *also):
            await self.driver.fail(method, trouble, seconds=seconds, times=_TIMES)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


def _channel(at: Place) -> int:
    """The id of the thread or, outside of threads, of the channel."""
    return int(at.thread or at.chat)


def _place(message: Message) -> Place:
    return Place(str(message.chat), None if message.thread is None else str(message.thread))


async def home_at(rig: AnnaOnDiscord, shape: Shape) -> Address:
    """The address of a new chat of that shape."""
    at = await rig.place(shape)
    if shape is Shape.FORUM:
        found = await rig.adapter.find_chat(at.chat)
        assert found is not None
        return found.address
    async with reading(rig.adapter) as reader:
        await rig.say(at, "This is home.")
        return (await reader.next()).address
