"""A proxy between the program and PostgreSQL, for a network that stalls, delays and drops.

A stalled connection stays open on both sides and carries nothing: neither end is told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qs, urlsplit

_CHUNK = 65536


class Link:
    """One connection through the proxy."""

    def __init__(self, writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self._writers = writers
        self.flows = asyncio.Event()
        """Cleared while the connection is stalled."""
        self.flows.set()

    def cut(self) -> None:
        """Reset both sides."""
        for writer in self._writers:
            writer.transport.abort()


class DatabaseProxy:
    """Forwards connections on a local port to the server's socket."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._folder = parse_qs(parts.query)["host"][0]
        self._user = parts.username
        self._database = parts.path
        self._port = 0
        self.links: list[Link] = []
        self.is_up = True
        """Whether new connections are accepted."""
        self.delay = 0.0
        """Seconds by which each chunk is delayed, in both directions."""
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        return f"postgresql://{self._user}@127.0.0.1:{self._port}{self._database}?sslmode=disable"

    def cut(self) -> None:
        """Break all connections."""
        for link in list(self.links):
            link.cut()

    def stall(self) -> None:
        """Stop all traffic on the connections that exist now."""
        for link in self.links:
            link.flows.clear()

    def flow(self) -> None:
        """Let all traffic flow again."""
        for link in self.links:
            link.flows.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[DatabaseProxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.is_up = False
            while self._tasks:
                self.flow()
                self.cut()
                await asyncio.wait(self._tasks, timeout=0.1)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_up:
            writer.transport.abort()
            return
        accepting = asyncio.current_task()
        assert accepting is not None
        self._tasks.add(accepting)
        accepting.add_done_callback(self._tasks.discard)
        there, back = await asyncio.open_unix_connection(f"{self._folder}/.s.PGSQL.5432")
        link = Link((writer, back))
        self.links.append(link)
        pumps = [
            asyncio.create_task(self._pump(link, reader, back)),
            asyncio.create_task(self._pump(link, there, writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        link.flows.set()
        link.cut()
        await asyncio.wait(pumps)
        self.links.remove(link)

    async def _pump(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(_CHUNK):
                await link.flows.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(chunk)
                await writer.drain()
