"""The gateway's one HTTP server, for the page and for webhooks.

It runs while one of them is mounted. A request under `/hooks/` goes to the platform's handler:
anyone may reach it, so the host and origin checks of the page do not apply, and each handler
authenticates its requests. All others go to the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from asyncio import BaseTransport
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from segue.config import WebSettings
from segue.core.address import Platform
from segue.core.errors import ConnectFailed
from segue.platforms.webhook import Webhook, WebhookRequest
from segue.store import Store, pages, pairings
from segue.store.pages import PageLocation
from segue.store.processes import machine
from segue.web import endpoints, http
from segue.web.frames import FRAME_LIMIT, PROOF_LIMIT
from segue.web.guard import ServerNames
from segue.web.http import BodyReceiver, HttpConnection, HttpSite, Refused, Strangers
from segue.web.page import WebPage

HOOKS = "/hooks/"
MOST_HOOKS = 64
"""Requests that are handled at the same time. More are refused, for the platform to send again."""
_MOST_FIELDS = 100
"""Fields of a query."""

logger = logging.getLogger(__name__)


class Hooks:
    def __init__(self) -> None:
        self._mounted: dict[str, Webhook] = {}
        self._running: dict[asyncio.Task[Response], str] = {}
        """The platform of each running handler."""

    def __len__(self) -> int:
        return len(self._mounted)

    def mount(self, platform: Platform, webhook: Webhook) -> None:
        self._mounted[platform.value] = webhook

    async def unmount(self, platform: Platform) -> None:
        """Idempotent. Running handlers are cancelled."""
        self._mounted.pop(platform.value, None)
        running = [task for task, name in self._running.items() if name == platform.value]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def receiver(self, request: Request) -> Response | BodyReceiver:
        """Return what receives the request's body, or a response. Raise Refused."""
        path, _, query = request.path.partition("?")
        name = path.removeprefix(HOOKS)
        webhook = self._mounted.get(name)
        if webhook is None:
            raise Refused(HTTPStatus.NOT_FOUND)
        rules = webhook.webhook_rules
        if request.method not in rules.methods:
            allowed = ", ".join(rules.methods)
            return http.refusal(HTTPStatus.METHOD_NOT_ALLOWED, Allow=allowed)
        if int(request.headers.get("Content-Length", 0)) > rules.body_limit:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if len(self._running) >= MOST_HOOKS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE)
        fields = _fields(query)
        headers = {key: ", ".join(request.headers.get_all(key)) for key in request.headers}

        def start(body: bytes) -> asyncio.Task[Response]:
            whole = WebhookRequest(method=request.method, query=fields, headers=headers, body=body)
            task = asyncio.create_task(_handle(name, webhook, whole))
            self._running[task] = name
            task.add_done_callback(self._running.pop)
            return task

        return BodyReceiver(rules.body_limit, start)


async def _handle(name: str, webhook: Webhook, request: WebhookRequest) -> Response:
    try:
        async with asyncio.timeout(webhook.webhook_rules.seconds):
            response = await webhook.handle_webhook(request)
    except TimeoutError:
        logger.error("webhook timed out platform=%s", name)  # noqa: TRY400 - where is of no use
        return http.refusal(HTTPStatus.SERVICE_UNAVAILABLE)
    return http.response(response.status, "", response.body, response.media_type)


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST) from error


class Server:
    def __init__(self, addresses: Sequence[str] = (endpoints.LOOPBACK,)) -> None:
        """`addresses` are those of this machine to serve on. Links use the last one."""
        self.page: WebPage | None = None
        self.hooks = Hooks()
        self.site = HttpSite(self._route)
        self.moved = ""
        """Why it is not on the port that was wanted, for display. Empty if it is."""
        self._addresses = tuple(addresses)
        self._names = ServerNames()
        self._servers: list[WebSocketServer] = []

    @property
    def url(self) -> str:
        return self._names.url

    async def start(self, port: int | None = None, last: int | None = None) -> PageLocation:
        """Serve on `port`, else on the last port, else on one of the usual ones. Raise PortHeld if
        the port belongs to another program."""
        bound = endpoints.bound(self._addresses, port, last)
        actual: int = bound.sockets[0].getsockname()[1]
        if bound.held is not None:
            again = "; open it with a new link" if last is not None else ""
            self.moved = f"{bound.held.reason}, so the page is on port {actual}{again}"
        self._names = ServerNames(
            hosts=frozenset(f"{address}:{actual}" for address in self._addresses),
            alias=f"localhost:{actual}",
            url=f"http://{self._addresses[-1]}:{actual}",
        )
        self._servers = [await self._serve(one) for one in bound.sockets]
        return PageLocation(port=actual, addresses=self._addresses)

    async def _serve(self, bound: socket.socket) -> WebSocketServer:
        def connection(
            protocol: ServerProtocol, server: WebSocketServer, **limits: Any
        ) -> HttpConnection:
            websocket = _WebSocket(self.site.strangers, protocol, server, **limits)
            return HttpConnection(self.site, websocket)

        return await serve(
            self._open_page,
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
        for connection in tuple(self.site.connections):
            connection.send_away()
        for server in self._servers:
            await server.wait_closed()

    async def close_page(self) -> None:
        """Stop serving the page, and close its WebSockets."""
        if not self.hooks:  # at once, so that a page that reconnects does not find it missing
            await self.stop()
        self.page = None
        await asyncio.gather(*(one.close(CloseCode.GOING_AWAY) for one in self.websockets))

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(one for server in self._servers for one in server.sockets)

    @property
    def websockets(self) -> set[ServerConnection]:
        """The open WebSockets."""
        return {one for server in self._servers for one in server.connections}

    def _route(self, request: Request) -> Response | BodyReceiver | None:
        try:
            if request.path.startswith(HOOKS):
                return self.hooks.receiver(request)
            if self.page is None:
                raise http.Refused(HTTPStatus.NOT_FOUND)
            return self.page.answer(request, self._names)
        except http.Refused as refused:
            return http.refusal(refused.status)

    async def _open_page(self, connection: ServerConnection) -> None:
        if self.page is not None:
            await self.page.serve(connection, self.site.strangers)


class SharedServer:
    """The server that the page and the webhooks share. It runs while one of them is mounted, on a
    port that stays the same across restarts."""

    def __init__(self, settings: WebSettings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._lock = asyncio.Lock()
        self.server: Server | None = None
        """None while nothing is mounted."""
        self._alone: dict[Platform, Server] = {}
        """The servers of webhooks that have a port of their own."""

    async def mount_page(self, page: WebPage) -> str:
        """Serve the page and return its URL, or raise ConnectFailed."""

        def mount(server: Server) -> None:
            server.page = page

        return (await self._mount(Platform.WEB, mount)).url

    async def unmount_page(self) -> None:
        await self._unmount(Server.close_page)

    async def mount(self, platform: Platform, webhook: Webhook) -> None:
        if (port := webhook.webhook_rules.port) is not None:
            server = await self._mount_alone(platform, webhook, port)
        else:
            server = await self._mount(
                platform, lambda server: server.hooks.mount(platform, webhook)
            )
        logger.info("webhook mounted url=%s%s%s", server.url, HOOKS, platform)

    async def _mount_alone(self, platform: Platform, webhook: Webhook, port: int) -> Server:
        server = Server()
        server.hooks.mount(platform, webhook)
        try:
            await server.start(port)
        except (endpoints.PortHeld, OSError) as error:
            reason = (
                f"port {port} cannot be used for its webhook. Choose another: "
                f"`segue config set platforms.{platform}.port NUMBER`"
            )
            raise ConnectFailed(platform=platform, reason=reason) from error
        self._alone[platform] = server
        return server

    async def unmount(self, platform: Platform) -> None:
        if (server := self._alone.pop(platform, None)) is not None:
            await server.hooks.unmount(platform)
            await server.stop()
            return
        await self._unmount(lambda server: server.hooks.unmount(platform))

    async def _unmount(self, unmount: Callable[[Server], Awaitable[None]]) -> None:
        async with self._lock:
            if (server := self.server) is not None:
                await unmount(server)
                if server.page is None and not server.hooks:
                    self.server = None
                    await server.stop()

    async def _mount(self, platform: Platform, mount: Callable[[Server], None]) -> Server:
        async with self._lock:
            if self.server is not None:
                mount(self.server)
                return self.server
            try:
                self.server = await self._started(mount)
            except endpoints.PortHeld as error:
                if error.is_foreign:
                    await self._forget(error.port)
                raise ConnectFailed(platform=platform, reason=str(error)) from error
            except OSError as error:
                reason = error.strerror or str(error)
                raise ConnectFailed(platform=platform, reason=reason) from error
            return self.server

    async def _started(self, mount: Callable[[Server], None]) -> Server:
        server = Server(self._addresses())
        mount(server)  # first, so that no open page that reconnects finds nothing here
        last = await pages.location(self._store, machine())
        async with contextlib.AsyncExitStack() as stack:
            place = await server.start(self._settings.port, last and last.port)
            stack.push_async_callback(server.stop)
            if server.moved:
                logger.warning("page moved port=%d: %s", place.port, server.moved)
            await pages.record_location(self._store, machine(), place)
            stack.pop_all()
        return server

    def _addresses(self) -> tuple[str, ...]:
        private = endpoints.private_addresses() if self._settings.lan else ()
        if self._settings.lan and not private:
            logger.warning("page served to this machine only: it is in no local network")
        return (endpoints.LOOPBACK, *private)

    async def _forget(self, port: int) -> None:
        """Unpair the browsers of this port. A process of another account holds it, and may have
        served pages there that can use the browsers' keys."""
        if forgotten := await pairings.forget_browsers(self._store, port):
            logger.warning("browsers unpaired port=%d number=%d", port, forgotten)


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
        self._strangers.add(transport, http.client(transport), self._send_away)

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.remove(self.transport)
        super().connection_lost(exc)

    def _send_away(self) -> None:
        if self.protocol.state is State.CONNECTING:
            self.protocol.send_response(http.refusal(HTTPStatus.SERVICE_UNAVAILABLE))
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
    return http.refusal(HTTPStatus(status))


class _Discreet(logging.LoggerAdapter[logging.Logger]):
    """Logs warnings and errors only, regardless of the level set: the library would log every
    header, including tokens and cookies."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's own name
        return level >= logging.WARNING and super().isEnabledFor(level)
