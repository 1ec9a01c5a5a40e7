"""The test platform, in a separate process, passes the contract suite in every shape of chat."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from segue.core.address import Platform
from segue.platforms.base import Adapter, Dialect
from segue.testing.contract.fake import FakeRig
from segue.testing.contract.malformed import Path, Specimen
from segue.testing.contract.reconnecting import ReconnectContract
from segue.testing.contract.rig import Act, Feature, File, Place, Seen
from segue.testing.contract.suite import RemoteContract
from segue.testing.platform import FAKE, Driver, Peer, PeerAdapter, Rules, Shape, Upload, serving
from segue.testing.platform.wire import (
    Changed,
    Commanded,
    Joined,
    Pressed,
    Said,
    Update,
    WireChat,
    WireFile,
    WireMessage,
    WireUser,
)
from tests.harness.fakes import forked

FULL = Rules()
BARE = Rules(
    threads=False,
    edits=False,
    buttons=False,
    typing=False,
    keys=False,
    dialect=Dialect.PLAIN,
    echo=False,
    link=None,
)
LACKS = frozenset(Feature) - {Feature.RETRY_TIMES, Feature.REPEATS, Feature.REDELIVERY}
THREADED = frozenset({Shape.DM, Shape.GROUP, Shape.CHANNEL, Shape.FORUM})
IMPATIENT = 0.6


class PeerRig(FakeRig):
    """Anna on the test platform."""

    driver: Driver
    methods: Mapping[Act, str] = {**FakeRig.methods, Act.FETCH: "file"}
    usual = Shape.GROUP
    lacks = frozenset({Feature.HISTORY, Feature.OTHERS, Feature.USER_THREADS})

    def __init__(self, peer: Peer, driver: Driver, rules: Rules) -> None:
        self._peer = peer
        self.driver = driver
        self._rules = rules
        self._other_bot = ""
        self.anna = ""
        self.adapter = self.another()

    async def begin(self) -> None:
        await self.driver.clear(self._rules)
        self.anna = await self.driver.user(self.name)
        self._other_bot = await self.driver.user("Other", bot=True)
        await self.adapter.connect()

    async def end(self) -> None:
        await self.adapter.close()

    def another(self) -> Adapter:
        return PeerAdapter(Platform.MATRIX, self._peer.url, self._peer.token)

    def impatient(self) -> Adapter:
        return PeerAdapter(Platform.MATRIX, self._peer.url, self._peer.token, silence=IMPATIENT)

    def denied(self) -> Adapter:
        return PeerAdapter(Platform.MATRIX, self._peer.url, "wrong")

    def has_threads(self, shape: str) -> bool:
        return self._rules.threads and shape in THREADED

    async def place(self, shape: str) -> Place:
        return Place(await self.driver.chat(Shape(shape), [self.anna], name="Team"))

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        uploads = [
            Upload(name=file.name, media_type=file.media_type, content=file.content)
            for file in files
        ]
        return await self.driver.say(self.anna, at.chat, text, thread=at.thread, files=uploads)

    async def command(self, at: Place, text: str) -> str:
        return await self.driver.command(self.anna, at.chat, text, thread=at.thread)

    async def forward(self, at: Place, author: str, text: str) -> str:
        return await self.driver.say(
            self.anna, at.chat, text, thread=at.thread, forwarded_from=author
        )

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self.driver.say(self.anna, at.chat, text, thread=at.thread, reply_to=message)

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(message, text)

    async def press(self, message: str, label: str) -> None:
        await self.driver.press(self.anna, message, label)

    async def join(self, at: Place) -> None:
        await self.driver.join(self.anna, at.chat)

    async def delete_thread(self, at: Place) -> None:
        assert at.thread is not None
        await self.driver.delete_thread(at.thread)

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        bob = await self.driver.user("Bob")
        await self.driver.populate(at.chat, [self.anna, bob] if with_anna else [bob])

    async def other_bot_says(self, at: Place, text: str) -> None:
        await self.driver.say(self._other_bot, at.chat, text, thread=at.thread)

    async def seen(self, text: str) -> Sequence[Seen]:
        shown = await self.driver.look()
        return [
            Seen(
                message.id,
                Place(message.chat, message.thread),
                message.text,
                tuple(button.label for button in message.buttons),
            )
            for message in shown.messages
            if message.text == text
        ]

    async def typing(self, at: Place) -> int:
        shown = await self.driver.look(at.chat)
        return sum(seen.times for seen in shown.typing if seen.thread == at.thread)

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


@pytest.fixture(scope="module")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


@contextlib.asynccontextmanager
async def plugged_in(peer: Peer, rules: Rules) -> AsyncGenerator[PeerRig]:
    async with peer.driver() as driver:
        rig = PeerRig(peer, driver, rules)
        await rig.begin()
        yield rig
        await rig.end()


class TestWithEverything(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[PeerRig]:
        async with plugged_in(peer, FULL) as rig:
            yield rig

    @pytest.fixture(params=[Shape.DM, Shape.CHANNEL, Shape.NO_THREADS, Shape.THREADS_REFUSED])
    def shape(self, request: pytest.FixtureRequest) -> str:
        """Chats whose threads start with a message or not, and chats without threads. A group is
        the usual shape."""
        return request.param


class TestWithNothing(RemoteContract):
    """A platform without threads, edits, buttons, typing, keys and markup, whose users
    can only write."""

    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[PeerRig]:
        async with plugged_in(peer, BARE) as rig:
            rig.lacks = LACKS
            yield rig


class TestReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[PeerRig]:
        async with serving() as peer, plugged_in(peer, FULL) as rig:
            yield rig
