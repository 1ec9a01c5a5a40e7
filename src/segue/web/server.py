"""The page's server: static files, and one WebSocket for everything private."""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import BaseTransport
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from segue.store import Store
from segue.store.pages import PageLocation
from segue.web import admission, files, guard, ports
from segue.web.frames import FRAME_LIMIT, PROOF_LIMIT
from segue.web.networks import LOOPBACK
from segue.web.session import Talk
from segue.web.strangers import Strangers

LIVE = "/live"
OPENING = 10.0
"""Seconds for a request to arrive and its response to be read."""
PROVING = 10.0
"""Seconds for a page to authenticate."""

logger = logging.getLogger(__name__)


class Server:
    def __init__(self, store: Store, addresses: Sequence[str] = (LOOPBACK,)) -> None:
        """`addresses` are those of this machine to serve on. Links use the last one."""
        self._store = store
        self._addresses = tuple(addresses)
        self._files = files.load()
        self._names: frozenset[str] = frozenset()
        self._alias = ""
        """A name that users may type. localhost can also mean other addresses, where another
        program could listen, so this name only redirects to the page's address."""
        self._servers: list[WebSocketServer] = []
        self._strangers = Strangers()
        self._talks: set[Talk] = set()
        self.url = ""

    async def start(self, port: int | None = None, last: int | None = None) -> PageLocation:
        """Serve on `port`, else on the page's last port, else on one of the usual ones. Raise
        PortHeld if the port belongs to another program."""
        bound = ports.bound(self._addresses, port, last)
        actual: int = bound[0].getsockname()[1]
        self._names = frozenset(f"{address}:{actual}" for address in self._addresses)
        self._alias = f"localhost:{actual}"
        self._servers = [await self._serve(one) for one in bound]
        self.url = f"http://{self._addresses[-1]}:{actual}"
        return PageLocation(port=actual, addresses=self._addresses)

    async def _serve(self, bound: socket.socket) -> WebSocketServer:
        class Connection(_Connection):
            strangers = self._strangers

        return await serve(
            self._talk,
            sock=bound,
            process_request=self._request,
            open_timeout=OPENING,
            max_size=PROOF_LIMIT,
            max_queue=16,
            compression=None,
            server_header=None,
            logger=_Discreet(logging.getLogger("segue.web.wire")),
            create_connection=Connection,
        )

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for server in self._servers:
            await server.wait_closed()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(one for server in self._servers for one in server.sockets)

    @property
    def connections(self) -> set[ServerConnection]:
        """The connections whose WebSocket is open."""
        return {one for server in self._servers for one in server.connections}

    # Called by the adapter

    def changed(self, page: str, no: int) -> None:
        for talk in self._talks:
            talk.changed(page, no)

    def working(self, page: str, seconds: float) -> None:
        for talk in self._talks:
            talk.working(page, seconds)

    def listed(self, owner: str) -> None:
        for talk in self._talks:
            talk.listed(owner)

    # Requests

    def _request(self, connection: ServerConnection, request: Request) -> Response | None:
        try:
            return self._answer(request)
        except guard.Refused as refused:
            return files.refusal(refused.status)

    def _answer(self, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        if path == "/" and request.headers.get_all("Host") == [self._alias]:
            return files.refusal(HTTPStatus.TEMPORARY_REDIRECT, Location=f"{self.url}/")
        is_live = path == LIVE and bool(request.headers.get_all("Upgrade"))
        host = guard.check_names(request.headers, self._names, origin=is_live)
        if request.method != "GET":
            return files.refusal(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET")
        if path == LIVE:
            return None if is_live else files.refusal(HTTPStatus.UPGRADE_REQUIRED)
        if path not in self._files:
            return files.refusal(HTTPStatus.NOT_FOUND)
        kind, body = self._files[path]
        return files.response(HTTPStatus.OK, host, body, kind)

    async def _talk(self, connection: ServerConnection) -> None:
        try:
            async with asyncio.timeout(PROVING):
                visitor = await self._proven(connection)
        except (TimeoutError, admission.NotProven):
            logger.debug("page connection refused: nothing proven")
            await connection.close(CloseCode.POLICY_VIOLATION, "not proven")
            return
        except ConnectionClosed:
            return
        talk = Talk(self._store, connection, visitor, self.changed, self.listed)
        self._talks.add(talk)
        try:
            await talk.run()
        except* ConnectionClosed:
            pass
        finally:
            self._talks.discard(talk)

    async def _proven(self, connection: ServerConnection) -> guard.Visitor:
        """Authenticate the browser, and lift the limits for strangers."""
        if connection.request is None:
            raise admission.NotProven
        headers = connection.request.headers
        name = _browser(" ".join(headers.get_all("User-Agent")))
        visitor = await admission.admit(self._store, connection, headers["Origin"], name)
        self._strangers.remove(connection)
        connection.protocol.max_message_size = FRAME_LIMIT
        return visitor


class _Connection(ServerConnection):
    strangers: Strangers

    def __init__(self, protocol: ServerProtocol, server: WebSocketServer, **limits: Any) -> None:
        super().__init__(protocol, server, **limits)
        # The library's own responses must be as safe as ours.
        protocol.reject = _reject
        self._echoed = 0

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        address, *_ = transport.get_extra_info("peername", ("",))
        self.strangers.add(self, address, self._send_away)

    def connection_lost(self, exc: Exception | None) -> None:
        self.strangers.remove(self)
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


def _browser(agent: str) -> str:
    """A name for the browser that the user recognises."""
    known = ("Edg", "Firefox", "Chrome", "Safari")
    kind = next((name for name in known if name in agent), "a browser")
    systems = ("iPhone", "iPad", "Android", "Windows", "Mac", "Linux")
    system = next((name for name in systems if name in agent), "")
    return f"{kind.replace('Edg', 'Edge')} on {system}" if system else kind
