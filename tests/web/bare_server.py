"""The page's server without a gateway, and a client that can send any bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import segue.store
from segue.config import WebSettings
from segue.store import Store, owners, pairings
from segue.testing.clock import FakeClock
from segue.web.adapter import WebAdapter
from segue.web.page import WebPage
from segue.web.server import Server, SharedServer
from tests.web.browser import WITHIN, Browser
from tests.web.handshake import Key, entered, opened, pair, prove

Headers = Iterable[tuple[str, str]]


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
    """Has two owners: `me` and `you`."""
    clock: FakeClock
    """The store's clock."""

    @property
    def page(self) -> WebPage:
        assert self.server.page is not None
        return self.server.page

    @property
    def host(self) -> str:
        return self.server.url.removeprefix("http://")

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    async def send(self, raw: bytes) -> Answer | None:
        """Send these bytes and return the first answer, or None if the server closes without
        one."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(WITHIN):
                writer.write(raw)
                return await read_answer(reader, has_body=not raw.startswith(b"HEAD "))
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
        """Send a request. `host` "" means the server's own name, and None omits the header."""
        named = [] if host is None else [("Host", host or self.host)]
        lines = [f"{name}: {value}" for name, value in (*named, *headers)]
        raw = "\r\n".join((f"{method} {path} HTTP/1.1", *lines, "", "")).encode("latin-1")
        answer = await self.send(raw)
        assert answer is not None
        return answer

    async def pair(self, token: str) -> Key | None:
        """Open the link with that token and return the new browser's key, or None if it is
        refused."""
        return await pair(self.server.url, token)

    async def key(self, owner: str = "me") -> Key:
        """The key of a new browser of that owner."""
        key = await self.pair(await pairings.link(self.store, owner))
        assert key is not None
        return key

    async def knows(self, key: Key, url: str | None = None) -> bool:
        """Return whether the server accepts the key of a browser or link, at that URL of its
        own."""
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


def page_server(store: Store, addresses: Sequence[str] = ("127.0.0.1",)) -> Server:
    """A server of the page, not yet started."""
    server = Server(addresses)
    server.page = WebPage(store)
    return server


def web_adapter(store: Store, **settings: Any) -> WebAdapter:
    """An adapter with a separate server."""
    return WebAdapter(store, SharedServer(WebSettings(**settings), store))


@contextlib.contextmanager
def opened_door(folder: Path, runner: asyncio.Runner) -> Generator[Door]:
    """A server whose store is in that folder."""

    async def begin() -> Door:
        clock = FakeClock()
        store = await segue.store.open(f"sqlite://{folder}/segue.db", clock=clock)
        await owners.ensure(store, "me")
        await owners.ensure(store, "you")
        server = page_server(store)
        await server.start(0)
        return Door(server, store, clock)

    async def end() -> None:
        await door.server.stop()
        await door.store.close()

    door = runner.run(begin())
    yield door
    runner.run(end())


async def read_answer(reader: asyncio.StreamReader, *, has_body: bool = True) -> Answer:
    """Read one answer. The connection may stay open."""
    answer = parse(await reader.readuntil(b"\r\n\r\n"))
    if answer.status in {101, 304} or not has_body:
        return answer
    return replace(answer, body=await reader.readexactly(int(answer.one("Content-Length"))))


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name.lower(), value.strip()) for name, _, value in pairs)
    return Answer(int(first.split(" ")[1]), headers, body)
