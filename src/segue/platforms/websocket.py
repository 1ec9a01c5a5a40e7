"""WebSockets to a platform, for platforms without a library. Their failures are Lost.

URLs can hold secrets, so they are in no error or log. Only adapters import this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Literal

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from segue.platforms.backoff import Reconnects
from segue.platforms.errors import Lost, Refused

logger = logging.getLogger(__name__)

WebSocket = ClientConnection
_LARGEST = 16 * 1024 * 1024
"""Bytes of a frame."""
_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.WARNING)  # below that, the library logs URLs


class WebSockets:
    """One connection to a server, or two while a new one replaces an old one."""

    def __init__(
        self,
        endpoint: Callable[[], Awaitable[str]],
        received: Callable[[WebSocket, str | bytes], None],
        lost: Callable[[], None],
        *,
        silence: float,
        trust_env: bool = False,
    ) -> None:
        """`endpoint` returns the URL for a connection. `received` gets each frame, and can raise
        Refused, which ends the connection. `lost` is called when a connection has ended. `silence`
        is the timeout in seconds for connecting. With `trust_env`, use the proxy from the
        environment."""
        self._endpoint = endpoint
        self._received = received
        self._lost = lost
        self._silence = silence
        self._proxy: Literal[True] | None = True if trust_env else None
        self._current: WebSocket | None = None
        self._old: WebSocket | None = None
        """The one before, until the server closes it: it may still carry something."""
        self._reconnects = Reconnects()
        self._replacing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.failure: Refused | Lost = Lost("it is not connected", arrived=False)
        """Why there is no connection."""

    @property
    def is_open(self) -> bool:
        return self._current is not None

    async def open(self) -> None:
        """Connect, unless it is connected. Raise Refused or Lost if that fails."""
        if self._current is not None:
            return
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.wait([self._replacing])
        await self._connect()

    async def _connect(self) -> None:
        """Connect, and wait for the first frame."""
        self._reconnects.begin()
        url = await self._endpoint()
        try:
            async with asyncio.timeout(self._silence):
                socket = await connect(
                    url, proxy=self._proxy, max_size=_LARGEST, close_timeout=1, logger=_QUIET
                )
                try:
                    self._received(socket, await socket.recv())
                except BaseException:
                    await socket.close()
                    raise
        except (OSError, WebSocketException):
            raise Lost("no connection can be made", arrived=False) from None
        self._old = self._current
        self._current = socket
        self.start(self._read(socket))

    def replace(self, socket: WebSocket) -> None:
        """Replace a connection that the server is about to close. Does nothing if that is done, or
        under way."""
        under_way = self._replacing is not None and not self._replacing.done()
        if socket is self._current and not under_way and not self._is_closed:
            self._replacing = self.start(self._replace(socket))

    async def _replace(self, socket: WebSocket) -> None:
        """Try until there is a new connection, or until the old one has ended."""
        failure: Refused | Lost | None = None
        while socket is self._current:
            await asyncio.sleep(self._reconnects.pause(failure, at_once=True))
            if self._old is not None:  # one old and one new are enough
                await self._old.close()
                self._old = None
            try:
                await self._connect()
            except (Refused, Lost) as error:
                logger.info("connection not replaced: %s", error)
                failure = error

    async def _read(self, socket: WebSocket) -> None:
        failure: Refused | Lost = Lost("the connection was lost", arrived=False)
        try:
            with contextlib.suppress(ConnectionClosed):
                async for frame in socket:
                    self._received(socket, frame)
        except Refused as refused:
            failure = refused
        finally:
            self._forget(socket, failure)
            self._lost()
            await socket.close()

    def _forget(self, socket: WebSocket, failure: Refused | Lost) -> None:
        """A connection has ended. If the one before is still open, it is used until there is
        another."""
        if socket is self._old:
            self._old = None
        if socket is not self._current:
            return
        self.failure = failure
        self._current = self._old
        self._old = None
        if self._current is not None:
            self.replace(self._current)

    async def send(self, socket: WebSocket, text: str) -> None:
        """Send over a connection, if it is still open."""
        with contextlib.suppress(ConnectionClosed):
            await socket.send(text)

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run something that ends when this is closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        self._is_closed = True
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
