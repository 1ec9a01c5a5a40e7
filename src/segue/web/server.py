"""The gateway's one HTTP server, for the page and for webhooks."""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import BaseTransport
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from segue.store.pages import PageLocation
from segue.web import files, guard, hooks, http, ports
from segue.web.frames import FRAME_LIMIT, PROOF_LIMIT
from segue.web.guard import Names
from segue.web.hooks import Hooks
from segue.web.http import BodyReceiver, HttpConnection
from segue.web.networks import LOOPBACK
from segue.web.page import WebPage
from segue.web.strangers import Strangers

MOST_SENDERS = 16
"""Connections whose bodies arrive at the same time. This limits the memory in use."""


class Server:
    def __init__(self, addresses: Sequence[str] = (LOOPBACK,)) -> None:
        """`addresses` are those of this machine to serve on. Links use the last one."""
        self.page: WebPage | None = None
        self.hooks = Hooks()
        self.connections: set[HttpConnection] = set()
        self.strangers = Strangers()
        self.senders = Strangers(MOST_SENDERS)
        self._addresses = tuple(addresses)
        self._names = Names()
        self._servers: list[WebSocketServer] = []

    @property
    def url(self) -> str:
        return self._names.url

    async def start(self, port: int | None = None, last: int | None = None) -> PageLocation:
        """Serve on `port`, else on the last port, else on one of the usual ones. Raise PortHeld if
        the port belongs to another program."""
        bound = ports.bound(self._addresses, port, last)
        actual: int = bound[0].getsockname()[1]
        self._names = Names(
            hosts=frozenset(f"{address}:{actual}" for address in self._addresses),
            alias=f"localhost:{actual}",
            url=f"http://{self._addresses[-1]}:{actual}",
        )
        self._servers = [await self._serve(one) for one in bound]
        return PageLocation(port=actual, addresses=self._addresses)

    async def _serve(self, bound: socket.socket) -> WebSocketServer:
        def connection(
            protocol: ServerProtocol, server: WebSocketServer, **limits: Any
        ) -> HttpConnection:
            return HttpConnection(self, _WebSocket(self.strangers, protocol, server, **limits))

        return await serve(
            self._talk,
            sock=bound,
            open_timeout=http.OPENING,
            max_size=PROOF_LIMIT,
            max_queue=16,
            compression=None,
            server_header=None,
            logger=_Discreet(logging.getLogger("segue.web.wire")),
            create_connection=cast("type[ServerConnection]", connection),
        )

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for connection in tuple(self.connections):
            connection.send_away()
        for server in self._servers:
            await server.wait_closed()

    def open_page(self, page: WebPage) -> None:
        self.page = page

    async def close_page(self) -> None:
        """Stop serving the page, and close its WebSockets."""
        self.page = None
        closing = (socket.close(CloseCode.GOING_AWAY) for socket in self.websockets)
        await asyncio.gather(*closing)

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(one for server in self._servers for one in server.sockets)

    @property
    def websockets(self) -> set[ServerConnection]:
        """The open WebSockets."""
        return {one for server in self._servers for one in server.connections}

    def route(self, request: Request) -> Response | BodyReceiver | None:
        try:
            if request.path.startswith(hooks.PATH):
                return self.hooks.receiver(request)
            if self.page is None:
                raise guard.Refused(HTTPStatus.NOT_FOUND)
            return self.page.answer(request, self._names)
        except guard.Refused as refused:
            return files.refusal(refused.status)

    async def _talk(self, connection: ServerConnection) -> None:
        if self.page is not None:
            await self.page.talk(connection, self.strangers)


class _WebSocket(ServerConnection):
    def __init__(
        self, strangers: Strangers, protocol: ServerProtocol, server: WebSocketServer, **limits: Any
    ) -> None:
        super().__init__(protocol, server, **limits)
        # The library's own responses must be as safe as ours.
        protocol.reject = _reject
        self._strangers = strangers
        self._echoed = 0

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._strangers.add(transport, http.address(transport), self._send_away)

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.remove(self.transport)
        super().connection_lost(exc)

    def _send_away(self) -> None:
        if self.protocol.state is State.CONNECTING:
            self.protocol.send_response(files.refusal(HTTPStatus.SERVICE_UNAVAILABLE))
        elif self.protocol.state is State.OPEN:
            self.protocol.send_close(CloseCode.TRY_AGAIN_LATER, "too many connections")
        self.send_data()
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Drop a client that sends pings and never reads: pongs are sent without flow control and
        would fill the memory. No browser does this."""
        before = self.transport.get_write_buffer_size()
        super().data_received(data)
        self._echoed += max(0, self.transport.get_write_buffer_size() - before)
        if self._echoed > FRAME_LIMIT:
            self.transport.abort()


def _reject(status: HTTPStatus | int, text: str) -> Response:
    return files.refusal(HTTPStatus(status))


class _Discreet(logging.LoggerAdapter[logging.Logger]):
    """Logs warnings and errors only, regardless of the level set: the library would log every
    header, including tokens and cookies."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's own name
        return level >= logging.WARNING and super().isEnabledFor(level)
