"""A WebSocket on a connection of the small HTTP server."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable

from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from segue.testing.http import Request, Response


def upgrade(request: Request, serve: Callable[[WebSocket], Awaitable[None]]) -> Response:
    """Return the response that makes the connection a WebSocket, served until it is closed."""

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = WebSocket(request, reader, writer)
        try:
            if socket.open:
                await serve(socket)
        except Close as close:
            socket.close(close.code, str(close))

    return Response(101, tunnel=tunnel)


class Close(Exception):
    """Closes the connection that is served with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class WebSocket:
    """Sends without waiting, so that any code can send at any time."""

    def __init__(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        handshake = ServerProtocol()
        handshake.send_response(
            handshake.accept(Handshake(request.target, Headers(request.headers)))
        )
        # h11 has read the request, so the frames are another protocol's.
        self._wire = ServerProtocol(state=handshake.state)
        self._arrived: list[bytes] = []
        self._deflate = zlib.compressobj()
        self.is_compressed = False
        """Whether each message is sent as the next part of one zlib stream."""
        self._write(handshake)

    @property
    def open(self) -> bool:
        return self._wire.state is OPEN

    @property
    def code(self) -> int | None:
        """The code with which the client closed the connection, or None."""
        return None if self._wire.close_rcvd is None else self._wire.close_rcvd.code

    def send(self, message: str | bytes) -> None:
        """Send a message, unless the connection is closed."""
        if not self.open:
            return
        if self.is_compressed:
            data = message.encode() if isinstance(message, str) else message
            message = self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        if isinstance(message, str):
            self._wire.send_text(message.encode())
        else:
            self._wire.send_binary(message)
        self._write(self._wire)

    def close(self, code: int, reason: str = "") -> None:
        if self.open:
            self._wire.send_close(code, reason)
            self._write(self._wire)

    def drop(self) -> None:
        """Drop the connection, without a close frame."""
        self._wire.fail(1006)
        self._writer.transport.abort()

    async def receive(self) -> bytes | None:
        """Return the next message, or None once the connection is closed."""
        while not self._arrived:
            # A client that closed the connection waits for the server to end it.
            if self.code is not None or not (data := await self._reader.read(65536)):
                return None
            self._wire.receive_data(data)
            # Clients of chat platforms send no fragments.
            self._arrived += [
                bytes(it.data)
                for it in self._wire.events_received()
                if isinstance(it, Frame) and it.opcode in (Opcode.TEXT, Opcode.BINARY)
            ]
            self._write(self._wire)
        return self._arrived.pop(0)

    def _write(self, protocol: ServerProtocol) -> None:
        for data in protocol.data_to_send():
            if data:
                self._writer.write(data)
