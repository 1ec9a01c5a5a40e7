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

from segue.platforms.errors import Lost, Refused

logger = logging.getLogger(__name__)

WebSocket = ClientConnection
_LARGEST = 16 * 1024 * 1024
"""Bytes of a frame."""
_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.WARNING)  # below that, the library logs URLs


class WebSockets:
    """Connections to one server: mostly one, or two while one replaces the other."""

    def __init__(
        self,
        received: Callable[[WebSocket, str | bytes], None],
        lost: Callable[[], None],
        *,
        silence: float,
        trust_env: bool = False,
    ) -> None:
        """`received` gets each frame, and `lost` is called when a connection has ended. `silence`
        is the timeout in seconds for connecting. With `trust_env`, use the proxy from the
        environment."""
        self._received = received
        self._lost = lost
        self._silence = silence
        self._proxy: Literal[True] | None = True if trust_env else None
        self._open: set[WebSocket] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        """Whether a connection is open."""
        return bool(self._open)

    async def connect(self, url: str) -> None:
        """Connect, and wait for the first frame. Raise Lost if that fails."""
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
        self._open.add(socket)
        self.start(self._read(socket))

    async def replace(self, endpoint: Callable[[], Awaitable[str]]) -> None:
        """Connect once more, before the server closes a connection. `endpoint` returns the URL. If
        it fails, the connection is lost when the server closes it."""
        try:
            await self.connect(await endpoint())
        except (Refused, Lost) as error:
            logger.info("connection not replaced: %s", error)

    async def _read(self, socket: WebSocket) -> None:
        try:
            with contextlib.suppress(ConnectionClosed):
                async for frame in socket:
                    self._received(socket, frame)
        finally:
            self._open.discard(socket)
            self._lost()
            await socket.close()

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
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
