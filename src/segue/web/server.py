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
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.frames import CloseCode

from segue.config import WebSettings
from segue.core.address import Platform
from segue.core.errors import ConnectFailed
from segue.platforms.webhook import Webhook
from segue.store import Store, pages, pairings
from segue.store.pages import PageLocation
from segue.store.processes import machine
from segue.web import endpoints, protocols
from segue.web.guard import ServerNames
from segue.web.hooks import HOOKS, Hooks
from segue.web.http import MOST_SENDERS, MOST_STRANGERS, Refused, Strangers, refusal
from segue.web.page import WebPage
from segue.web.protocols import HttpProtocol, ServerSite, WebSocketProtocol

STOPPING = 1.0
"""Seconds for clients to read what was sent before the server stops."""
_ABSOLUTE = "http://"

logger = logging.getLogger(__name__)


class Server:
    def __init__(self, addresses: Sequence[str] = (endpoints.LOOPBACK,)) -> None:
        """`addresses` are those of this machine to serve on. Links use the last one."""
        self.page: WebPage | None = None
        self.site = ServerSite(
            self._is_websocket,
            Strangers(MOST_STRANGERS, protocols.is_of_own_account),
            Strangers(MOST_SENDERS),
        )
        self.hooks = Hooks(self.site.senders)
        self.moved = ""
        """Why it is not on the port that was wanted, for display. Empty if it is."""
        self._addresses = tuple(addresses)
        self._names = ServerNames()
        self._servers: list[asyncio.Server] = []

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
        configuration = protocols.configuration(self._answer)
        configuration.load()
        loop = asyncio.get_running_loop()
        for one in bound.sockets:
            server = await loop.create_server(
                lambda: HttpProtocol(self.site, configuration), sock=one
            )
            self._servers.append(server)
        return PageLocation(port=actual, addresses=self._addresses)

    async def stop(self) -> None:
        """Close all connections, and wait until their clients know it."""
        for server in self._servers:
            server.close()
        await self.hooks.close()
        connections = tuple(self.site.state.connections)
        for connection in connections:
            connection.shutdown()
        await self._emptied()
        if tasks := tuple(self.site.state.tasks):
            _, slow = await asyncio.wait(tasks, timeout=STOPPING)
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    async def close_page(self) -> None:
        """Stop serving the page, and close its WebSockets."""
        if not self.hooks:  # at once, so that a page that reconnects does not find it missing
            await self.stop()
        self.page = None
        for one in self.websockets:
            one.go_away(CloseCode.GOING_AWAY)

    async def _emptied(self) -> None:
        """Wait until all connections are closed. Cut off those that take long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOPPING):
                while self.site.state.connections:
                    await self.site.emptied.wait()
        for connection in self.site.state.connections:
            connection.transport.abort()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(one for server in self._servers for one in server.sockets)

    @property
    def websockets(self) -> set[WebSocketProtocol]:
        """The open WebSockets."""
        return self.site.websockets

    # The application that uvicorn calls

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open_page(WebSocket(scope, receive, send))
            return
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except Refused as refused:
            response = refusal(refused.status, refused.headers)
        except ClientDisconnect:
            return
        except Exception:
            logger.exception("request failed path=%s", scope["path"])
            response = refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        target = _target(request)
        if target.startswith(HOOKS):
            return await self.hooks.answer(request, target)
        response = self._route(request, target)
        if response is None:  # the handshake of a WebSocket, which uvicorn has not taken for one
            raise Refused(HTTPStatus.BAD_REQUEST)
        return response

    def _route(self, request: Request, target: str) -> Response | None:
        """Return the response of the page, or None to open a WebSocket. Raise Refused."""
        if self.page is None:
            raise Refused(HTTPStatus.NOT_FOUND)
        return self.page.answer(request, target, self._names)

    def _is_websocket(self, scope: Scope) -> bool:
        request = Request(scope)
        target = _target(request)
        try:
            return not target.startswith(HOOKS) and self._route(request, target) is None
        except Refused:
            return False

    async def _open_page(self, websocket: WebSocket) -> None:
        if self.page is None:
            return
        try:
            await websocket.accept()
            await self.page.serve(websocket)
        except Exception:
            logger.exception("connection handler failed")
            protocol: WebSocketProtocol = websocket.scope["state"]["connection"]
            protocol.go_away(CloseCode.INTERNAL_ERROR)


def _target(request: Request) -> str:
    """The path and the query as they were sent. An absolute URL under the name in the Host header
    means the same as the path."""
    path: str = request.scope["raw_path"].decode("ascii")
    authority = f"{_ABSOLUTE}{request.headers.get('Host', '')}"
    if path.startswith(f"{authority}/"):
        path = path.removeprefix(authority)
    query: bytes = request.scope["query_string"]
    return f"{path}?{query.decode('ascii')}" if query else path


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
