"""The page's server: a few files, the exchange of a token for a cookie, and one WebSocket."""

from __future__ import annotations

import logging
import secrets
import socket
import time
from asyncio import BaseTransport
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from weakref import WeakKeyDictionary

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from segue.core.address import Platform, Sender
from segue.core.errors import PairingRefused
from segue.store import Store
from segue.web import files, ports
from segue.web.frames import FRAME_LIMIT
from segue.web.guard import TOKEN, Guard, Refused, Visitor, cookie
from segue.web.talk import Talk

LIVE = "/live"
MOST_CONNECTIONS = 100
"""More are sent away, so that nobody uses up what the rest of the gateway needs."""
OPENING = 10.0
"""Seconds in which a request has to be here, and its answer taken."""
_EXCHANGE = "/exchange"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

logger = logging.getLogger(__name__)


class Server:
    def __init__(
        self, store: Store, *, lan: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`lan`: serve the local network, too."""
        self._store = store
        self._lan = lan
        self._clock = clock
        self._files = files.load()
        self._guard = Guard(store, frozenset())
        self._server: WebSocketServer | None = None
        self._visitors: WeakKeyDictionary[ServerConnection, Visitor] = WeakKeyDictionary()
        self._talks: set[Talk] = set()
        self.url = ""

    async def start(self, port: int | None = None) -> None:
        """Serve on that port, or on one of the usual ones."""
        host = "0.0.0.0" if self._lan else "127.0.0.1"  # noqa: S104 - on purpose only
        bound = ports.bound(host, port)
        actual: int = bound.getsockname()[1]
        names = [*_LOOPBACK, *(ports.own_names() if self._lan else ())]
        called = frozenset(f"{name}:{actual}" for name in names)
        self._guard = Guard(self._store, called, self._clock)
        self._server = await serve(
            self._talk,
            sock=bound,
            process_request=self._request,
            open_timeout=OPENING,
            max_size=FRAME_LIMIT,
            max_queue=16,
            compression=None,
            server_header=None,
            logger=_Discreet(logging.getLogger("segue.web.wire")),
            create_connection=_Connection,
        )
        shown = ports.own_address() if self._lan else "127.0.0.1"
        self.url = f"http://{shown}:{actual}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return () if self._server is None else self._server.sockets

    # What the adapter tells

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

    async def _request(self, connection: ServerConnection, request: Request) -> Response | None:
        try:
            return await self._answer(connection, request)
        except Refused as refused:
            return files.refusal(refused.status)

    async def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        is_live = path == LIVE and bool(request.headers.get_all("Upgrade"))
        host = self._guard.check_names(request.headers, origin=is_live)
        if request.method != "GET":
            return files.refusal(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET")
        if path == LIVE:
            # A page cannot see why its WebSocket is refused, so it may ask in the ordinary way.
            self._visitors[connection] = await self._guard.visitor(request.headers)
            return None if is_live else files.refusal(HTTPStatus.UPGRADE_REQUIRED)
        if path == _EXCHANGE:
            secret = await self._admitted(request)
            return files.response(HTTPStatus.NO_CONTENT, host, Set_Cookie=cookie(secret))
        if path not in self._files:
            return files.refusal(HTTPStatus.NOT_FOUND)
        kind, body = self._files[path]
        return files.response(HTTPStatus.OK, host, body, kind)

    async def _admitted(self, request: Request) -> str:
        """The secret of a browser that brings a token for the first time."""
        tokens = request.headers.get_all(TOKEN)
        if len(tokens) != 1 or not tokens[0]:
            raise Refused(HTTPStatus.FORBIDDEN)
        self._guard.may_try()
        name = _browser(" ".join(request.headers.get_all("User-Agent")))
        sender = Sender(platform=Platform.WEB, user_id=secrets.token_hex(8), name=name)
        try:
            secret = await self._store.pages.admit(tokens[0], sender)
        except PairingRefused as error:
            logger.warning("A browser brought a token that is not valid")
            raise Refused(HTTPStatus.FORBIDDEN) from error
        self._guard.forgive()
        return secret

    async def _talk(self, connection: ServerConnection) -> None:
        visitor = self._visitors[connection]
        talk = Talk(self._store, connection, visitor, self.changed, self.listed)
        self._talks.add(talk)
        try:
            await talk.run()
        except* ConnectionClosed:
            pass
        finally:
            self._talks.discard(talk)


class _Connection(ServerConnection):
    def __init__(self, protocol: ServerProtocol, server: WebSocketServer, **limits: Any) -> None:
        super().__init__(protocol, server, **limits)
        # What the library answers by itself is to be as safe as what we answer.
        protocol.reject = _reject
        self._echoed = 0

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.server.handler_tasks) > MOST_CONNECTIONS:
            self.protocol.send_response(files.refusal(HTTPStatus.SERVICE_UNAVAILABLE))
            self.send_data()
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Pongs are sent without waiting for them to be taken, so who pings and never reads would
        fill the memory; no browser does."""
        before = self.transport.get_write_buffer_size()
        super().data_received(data)
        self._echoed += max(0, self.transport.get_write_buffer_size() - before)
        if self._echoed > FRAME_LIMIT:
            self.transport.abort()


def _reject(status: HTTPStatus | int, text: str) -> Response:
    return files.refusal(HTTPStatus(status))


class _Discreet(logging.LoggerAdapter[logging.Logger]):
    """Tells what went wrong and nothing else, whatever levels are set: the library would tell each
    header, and so tokens and cookies."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's own name
        return level >= logging.WARNING and super().isEnabledFor(level)


def _browser(agent: str) -> str:
    """A name for it that a person knows again."""
    known = ("Edg", "Firefox", "Chrome", "Safari")
    kind = next((name for name in known if name in agent), "a browser")
    systems = ("iPhone", "iPad", "Android", "Windows", "Mac", "Linux")
    system = next((name for name in systems if name in agent), "")
    return f"{kind.replace('Edg', 'Edge')} on {system}" if system else kind
