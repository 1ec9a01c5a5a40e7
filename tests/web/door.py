"""The page's server alone, without a gateway behind it, and hands that send it any bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from websockets.asyncio.client import connect

from segue.store import Store
from segue.testing.clock import FakeClock
from segue.web.server import Server
from tests.web.browser import WITHIN, Browser

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
    """With two owners: `me` and `you`."""
    clock: FakeClock
    """The store's; the server counts tries by it, too."""

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

    async def exchange(self, token: str, headers: Headers = ()) -> Answer:
        return await self.ask("/exchange", [("X-Segue-Token", token), *headers])

    async def cookie(self, owner: str = "me") -> str:
        """That of a browser of theirs."""
        answer = await self.exchange(await self.store.pages.link(owner))
        assert answer.status == 204
        return answer.one("Set-Cookie").partition(";")[0]

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
    async def browser(self, cookie: str) -> AsyncGenerator[Browser]:
        headers = {"Cookie": cookie, "Origin": self.server.url}
        url = f"ws://{self.host}/live"
        async with connect(url, additional_headers=headers, proxy=None, max_queue=None) as wire:
            yield Browser(wire)


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name.lower(), value.strip()) for name, _, value in pairs)
    return Answer(int(first.split(" ")[1]), headers, body)
