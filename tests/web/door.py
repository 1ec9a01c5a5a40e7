"""The page's server alone, without a gateway behind it, and hands that send it any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import segue.store
from segue.store import Store
from segue.testing.clock import FakeClock
from segue.web.server import Server
from tests.web.browser import WITHIN, Browser
from tests.web.proving import Key, entered, opened, pair, prove

Headers = Iterable[tuple[str, str]]


@contextlib.contextmanager
def reserved_port() -> Generator[int]:
    """A port that the kernel gives to nobody meanwhile; who names it can listen there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name.lower()]

    def one(self, name: str) -> str:
        [value] = self.all(name)
        return value


@dataclass
class Door:
    server: Server
    store: Store
    """With two owners: `me` and `you`."""
    clock: FakeClock
    """The store's."""

    @property
    def host(self) -> str:
        return self.server.url.removeprefix("http://")

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    async def send(self, raw: bytes) -> Answer | None:
        """What it answers to these very bytes; None when it closes without a word."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(WITHIN):
                writer.write(raw)
                head = await reader.readuntil(b"\r\n\r\n")
                answer = parse(head)
                # What was opened stays so; everything else ends.
                return answer if answer.status == 101 else parse(head + await reader.read())
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
            return None
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def ask(
        self, path: str = "/", headers: Headers = (), *, method: str = "GET", host: str | None = ""
    ) -> Answer:
        """A request with that name of the server: its own for "", none for None."""
        named = [] if host is None else [("Host", host or self.host)]
        lines = [f"{name}: {value}" for name, value in (*named, *headers)]
        raw = "\r\n".join((f"{method} {path} HTTP/1.1", *lines, "", "")).encode("latin-1")
        answer = await self.send(raw)
        assert answer is not None
        return answer

    async def pair(self, token: str) -> Key | None:
        """The key of a new browser that opens the link with that token; None when it may not."""
        return await pair(self.server.url, token)

    async def key(self, owner: str = "me") -> Key:
        """That of a new browser of theirs."""
        key = await self.pair(await self.store.pages.link(owner))
        assert key is not None
        return key

    async def knows(self, key: Key, url: str | None = None) -> bool:
        """Whether it knows that browser, or that link, under that address of its own."""
        async with opened(url or self.server.url) as wire:
            return await prove(wire, url or self.server.url, key) is not None

    async def upgrade(self, headers: Headers, *, host: str = "") -> int:
        """The status of an attempt to open the WebSocket."""
        wanted = (
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        )
        return (await self.ask("/live", [*wanted, *headers], host=host)).status

    @contextlib.asynccontextmanager
    async def browser(self, key: Key) -> AsyncGenerator[Browser]:
        async with entered(self.server.url, key, max_queue=None) as (wire, hello):
            yield Browser(wire, hello)


@contextlib.contextmanager
def opened_door(folder: Path, runner: asyncio.Runner) -> Generator[Door]:
    """One whose store is in that folder."""

    async def begin() -> Door:
        clock = FakeClock()
        store = await segue.store.open(f"sqlite://{folder}/segue.db", clock=clock)
        await store.owners.ensure("me")
        await store.owners.ensure("you")
        server = Server(store)
        await server.start(0)
        return Door(server, store, clock)

    async def end() -> None:
        await door.server.stop()
        await door.store.close()

    door = runner.run(begin())
    yield door
    runner.run(end())


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name.lower(), value.strip()) for name, _, value in pairs)
    return Answer(int(first.split(" ")[1]), headers, body)
