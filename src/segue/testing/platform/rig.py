"""The rig with which the contract suite tests the adapter: an example for your own.

class TestTheTestPlatform(RemoteContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[PeerRig]:
        async with serving() as peer, PeerRig.plugged_in(peer) as rig:
            yield rig
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from segue.core.address import Platform
from segue.platforms.base import Adapter
from segue.testing.contract.fake import FakeRig, uploads
from segue.testing.contract.malformed import Path, Specimen
from segue.testing.contract.rig import Act, Feature, File, Place
from segue.testing.platform.adapter import PeerAdapter
from segue.testing.platform.control import Driver
from segue.testing.platform.state import Shape
from segue.testing.platform.wire import (
    Changed,
    Commanded,
    Joined,
    Pressed,
    Rules,
    Said,
    Update,
    WireChat,
    WireFile,
    WireMessage,
    WireUser,
)

THREADED = frozenset({Shape.DM, Shape.GROUP, Shape.CHANNEL, Shape.FORUM})
IMPATIENT = 0.6


class PeerRig(FakeRig):
    """Anna on the test platform."""

    driver: Driver
    methods: Mapping[Act, str] = {**FakeRig.methods, Act.FETCH: "file"}
    usual = Shape.GROUP
    lacks = frozenset({Feature.HISTORY, Feature.OTHERS, Feature.USER_THREADS})
    rules: Rules = Rules()
    speaks: type[PeerAdapter] = PeerAdapter

    async def prepare(self) -> None:
        await self.driver.rules(self.rules)

    def another(self) -> Adapter:
        return self._made(self._peer.token)

    def impatient(self) -> Adapter:
        return self._made(self._peer.token, silence=IMPATIENT)

    def denied(self) -> Adapter:
        return self._made("wrong")

    def _made(self, token: str, **more: float) -> Adapter:
        return self.speaks(Platform.MATRIX, self._peer.url, token, **more)

    def has_threads(self, shape: str) -> bool:
        return self.rules.threads and shape in THREADED

    async def place(self, shape: str) -> Place:
        return Place(await self.driver.chat(Shape(shape), [self.anna], name="Team"))

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = (), **more: Any) -> str:
        sent = uploads(files)
        return await self.driver.say(self.anna, at.chat, text, thread=at.thread, files=sent, **more)

    async def command(self, at: Place, text: str) -> str:
        return await self.driver.command(self.anna, at.chat, text, thread=at.thread)

    async def forward(self, at: Place, author: str, text: str) -> str:
        return await self.say(at, text, forwarded_from=author)

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self.say(at, text, reply_to=message)

    async def press(self, message: str, label: str) -> None:
        await self.driver.press(self.anna, message, label)

    async def join(self, at: Place) -> None:
        await self.driver.join(self.anna, at.chat)

    # Others

    async def delete_thread(self, at: Place) -> None:
        await self.driver.delete_thread(at.thread or "")

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        bob = await self.driver.user("Bob")
        members = [self.anna, bob] if with_anna else [bob]
        await self.driver.populate(at.chat, members)

    async def other_bot_says(self, at: Place, text: str) -> None:
        bot = await self.driver.user("Other", bot=True)
        await self.driver.say(bot, at.chat, text, thread=at.thread)

    # The platform

    async def threads(self, at: Place) -> int:
        return len((await self.driver.look(at.chat)).threads)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


def specimen(update: Update, *required: Path) -> Specimen:
    everywhere: tuple[Path, ...] = (
        ("kind",), ("id",), ("chat",), ("chat", "id"), ("chat", "type"), ("chat", "members"),
        ("user",), ("user", "id"), ("user", "bot"),
    )  # fmt: skip
    built: dict[str, Any] = msgspec.to_builtins(update)
    return Specimen(built, (*everywhere, *required))


CHAT = WireChat(id="!group:1", type="group", name="Team", topic="work", members=3)
ANNA = WireUser(id="user:1", name="Anna", bot=False)
FILE = WireFile(id="file:1", name="a.txt", media_type="text/plain", size=3)
MESSAGE = WireMessage(id="message:1", text="hello", files=(FILE,))
IN_MESSAGE: tuple[Path, ...] = (
    ("message",), ("message", "id"), ("message", "text"), ("message", "files", 0, "id"),
    ("message", "files", 0, "name"), ("message", "files", 0, "media_type"),
    ("message", "files", 0, "size"),
)  # fmt: skip
SPECIMENS = (
    specimen(Said(id="update:1", chat=CHAT, user=ANNA, message=MESSAGE), *IN_MESSAGE),
    specimen(Changed(id="update:2", chat=CHAT, user=ANNA, message=MESSAGE), *IN_MESSAGE),
    specimen(Commanded(id="update:3", chat=CHAT, user=ANNA, message=MESSAGE), *IN_MESSAGE),
    specimen(
        Pressed(id="update:4", chat=CHAT, user=ANNA, message="message:1", data="a:1"),
        ("message",),
        ("data",),
    ),
    specimen(Joined(id="update:5", chat=CHAT, user=ANNA)),
)
