"""A small real HTTP server on loopback, for fakes that speak a platform's or provider's protocol.

It can misbehave as real servers do: answer slowly, stall, or drop the connection mid-response.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import urllib.parse
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import h11

_PATIENCE = 20.0

Tunnel = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """Keys are lower-case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | AsyncGenerator[bytes] = b""
    """A generator is streamed chunk by chunk, and closed when the client disconnects."""
    tunnel: Tunnel | None = None
    """Takes over the connection instead of an answer, as for a WebSocket."""


class HangUp(Exception):
    """Raised by a handler or a response body to drop the connection, as a crash would."""


Handler = Callable[[Request], Awaitable[Response]]


def bind(port: int = 0) -> socket.socket:
    """Return a loopback socket with that port, or a free one. Several sockets can share a port."""
    # asyncio sets TCP_NODELAY only on sockets created with this protocol, so that writes do not
    # wait for each other.
    bound = socket.socket(proto=socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


@contextlib.asynccontextmanager
async def serving(handler: Handler, bound: socket.socket | None = None) -> AsyncGenerator[str]:
    """Serve `handler` and yield the base URL, such as `http://127.0.0.1:43210`.

    Listens on the socket `bound`, or on a free port. Afterwards that socket and every connection
    are closed, including those that are only just accepted.
    """
    # asyncio's own server does not know a connection until some time after accepting it.
    loop = asyncio.get_running_loop()
    listener = bound or bind()
    tasks: dict[asyncio.Task[None], socket.socket] = {}

    def accept() -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = listener.accept()
            task = loop.create_task(_serve(client, handler))
            tasks[task] = client
            task.add_done_callback(ended)

    def ended(task: asyncio.Task[None]) -> None:
        tasks.pop(task).close()  # open only if the task was cancelled before it began

    listener.listen(100)
    listener.setblocking(False)
    loop.add_reader(listener, accept)
    try:
        port: int = listener.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.remove_reader(listener)
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def request(method: str, url: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Send a request as it is, and return the status and the body of the answer; 0 if there is
    none. The underscores in the names of headers are dashes."""
    at = urllib.parse.urlsplit(url)
    given = {"Host": at.netloc, "Connection": "close", "Content-Length": str(len(body)), **headers}
    target = f"{at.path}?{at.query}" if at.query else at.path
    lines = [f"{method} {target} HTTP/1.1"]
    lines += (f"{name.replace('_', '-')}: {value}" for name, value in given.items())
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(at.hostname, at.port)
            try:
                writer.write("\r\n".join([*lines, "", ""]).encode() + body)
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return 0, b""
    first, _, content = answer.partition(b"\r\n\r\n")
    words = first.split(b" ", 2)
    status = int(words[1]) if len(words) > 1 else 0
    return status, content


async def _serve(client: socket.socket, handler: Handler) -> None:
    reader, writer = await asyncio.open_connection(sock=client)
    try:
        with contextlib.suppress(ConnectionError):
            await _Connection(reader, writer, handler).serve()
            writer.close()
            await writer.wait_closed()
    finally:
        writer.transport.abort()


class _Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._wire = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        try:
            while request := await self._receive():
                response = await self._handler(request)
                if response.tunnel is not None:
                    await response.tunnel(self._reader, self._writer)
                    break
                await self._answer(response)
                if self._wire.our_state is h11.MUST_CLOSE:
                    break
                self._wire.start_next_cycle()
        except HangUp:
            self._writer.transport.abort()
        except h11.RemoteProtocolError:
            pass

    async def _receive(self) -> Request | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._wire.next_event()
            if event is h11.NEED_DATA:
                self._wire.receive_data(await self._reader.read(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {k.decode().lower(): v.decode("latin-1") for k, v in head.headers}
                return Request(head.method.decode(), head.target.decode(), headers, bytes(body))
            else:
                return None

    async def _answer(self, response: Response) -> None:
        headers = {"Content-Type": "application/json", **response.headers}
        if isinstance(response.body, bytes):
            headers["Content-Length"] = str(len(response.body))
        await self._send(h11.Response(status_code=response.status, headers=list(headers.items())))
        if isinstance(response.body, bytes):
            await self._send(h11.Data(data=response.body))
        else:
            async with contextlib.aclosing(response.body) as chunks:
                async for chunk in chunks:
                    await self._send(h11.Data(data=chunk))
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        if data := self._wire.send(event):
            self._writer.write(data)
            await self._writer.drain()
