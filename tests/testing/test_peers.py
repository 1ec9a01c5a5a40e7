"""The smallest fake that there can be: a wall that the bot writes on, and people too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import httpx2
import pytest
from msgspec import Struct

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import (
    Clear,
    Fail,
    Faults,
    Look,
    OrderRefused,
    Pulse,
    Shared,
    Steps,
    Trouble,
    tls,
)


class Settings(Struct, frozen=True):
    room: int = 2
    """Lines that there is room for."""


class Line(Struct, frozen=True):
    text: str


class Write(peers.Order, frozen=True):
    text: str


Shown = peers.Shown[Line]


class Full(peers.Refuse):
    pass


class Updates:
    """Nobody is told of anything but what is injected."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def inject(self, frames: Sequence[str]) -> None:
        self.all += frames

    def repeat(self, last: int) -> None:
        self.all += self.all[-last:]

    def hold(self) -> None:
        raise AssertionError("it is not held")

    def release(self, *, backwards: bool) -> None:
        raise AssertionError(f"it is not released, backwards={backwards}")


def ordered(fail: Fail) -> Exception:
    return Full(fail.trouble)


class World:
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        self.pulse = pulse
        self.settings = settings
        self.faults = Faults(pulse, ordered)
        self.updates = Updates()
        self.lines: list[Line] = []

    def steps(self) -> Steps:
        return {Write: lambda order: self.write(order.text)}

    def write(self, text: str) -> int:
        if len(self.lines) == self.settings.room:
            raise Full("The wall is full.")
        self.lines.append(Line(text))
        return len(self.lines)

    def shown(self, chat: str | None) -> Shown:
        lines = tuple(line for line in self.lines if chat is None or line.text.startswith(chat))
        told = len(self.updates.all)
        return Shown(version=self.pulse.count, messages=lines, hanging=0, unconfirmed=told)


class Doors(peers.Doors[Settings, World]):
    orders = Write | Clear[Settings] | Look[str] | Shared

    def _fresh(self, settings: Settings) -> World:
        return World(settings, self._pulse)

    async def _answer_bot(self, request: Request) -> Response:
        try:
            async with self._world.faults.around("write", None):
                self._world.write(request.body.decode())
        except Full as full:
            return Response(507, body=str(full).encode())
        self._pulse.beat()
        return Response()


class Hands(peers.Hands[str, Line, Shown]):
    def __init__(self, url: str) -> None:
        super().__init__(url, Shown)

    async def write(self, text: str) -> int:
        return await self._ask(Write(text=text), int)

    async def clear(self, settings: Settings) -> None:
        await self._do(Clear(settings=settings))


class Peer(peers.Peer):
    def hands(self) -> Hands:
        return Hands(self.control)

    def bot(self) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
        return httpx2.AsyncClient(base_url=self.url, verify=tls(), trust_env=False)


WALL = peers.Fake(
    package="tests.testing.nothing", token="-", settings=Settings, doors=Doors, peer=Peer
)


async def test_people_and_the_bot_meet_there() -> None:
    async with WALL.serving() as peer, peer.hands() as hands, peer.bot() as bot:
        assert await hands.write("Anna was here") == 1
        assert (await bot.post("/", content=b"I was too")).status_code == 200
        assert (await hands.message("I was too")).text == "I was too"
        assert (await hands.look("Anna")).texts == ["Anna was here"]
        with pytest.raises(AssertionError, match=r"not within 0\.01 s; there is"):
            await hands.until(lambda shown: len(shown.texts) == 3, within=0.01)


async def test_what_is_not_possible_is_refused_with_the_reason() -> None:
    async with WALL.serving(Settings(room=0)) as peer, peer.hands() as hands:
        with pytest.raises(OrderRefused, match=r"'Anna'.*The wall is full"):
            await hands.write("Anna")
        await hands.clear(Settings(room=1))
        assert await hands.write("Anna") == 1


async def test_trouble_comes_as_the_fake_says_it() -> None:
    async with WALL.serving() as peer, peer.hands() as hands, peer.bot() as bot:
        await hands.fail("write", Trouble.BUSY)
        assert (await bot.post("/", content=b"I")).text == "busy"
        await hands.fail("write", Trouble.DROP_AFTER)
        with pytest.raises(httpx2.RemoteProtocolError):
            await bot.post("/", content=b"I")
        await hands.inject(["a", "b"])
        await hands.repeat()
        shown = await hands.look()
        assert (shown.texts, shown.unconfirmed) == (["I"], 3)


async def test_the_test_s_door_is_open_while_the_platform_is_down() -> None:
    async with WALL.serving() as peer, peer.hands() as hands, peer.bot() as bot:
        await hands.down()
        with pytest.raises(httpx2.ConnectError):
            await bot.post("/", content=b"I")
        assert (await hands.look()).texts == []
        await hands.up()
        await bot.post("/", content=b"I")
        assert (await hands.look()).texts == ["I"]


def test_one_that_does_not_start_is_told_of() -> None:
    with (
        pytest.raises(RuntimeError, match="nothing did not start"),
        WALL.running(),
    ):
        pass
