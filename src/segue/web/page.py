"""The page: static files, and one WebSocket for everything private."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHeader
from websockets.frames import CloseCode
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from segue.store import Store
from segue.web import guard, static_files
from segue.web.guard import ServerNames
from segue.web.http import CLOSE, Refused, refusal, safe_headers
from segue.web.live import Disconnected, LiveSocket
from segue.web.open_page import OpenPage, Preview

LIVE = "/live"
PROVING = 9.0
"""Seconds for a page to authenticate, before the connection is cut off."""
_VERSION = "13"
"""Of the WebSocket protocol."""

logger = logging.getLogger(__name__)


class WebPage:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._files = static_files.load()
        self.open_pages: set[OpenPage] = set()
        self._previews: dict[str, Preview] = {}

    # Called by the adapter

    def changed(self, page: str, no: int) -> None:
        for one in self.open_pages:
            one.changed(page, no)

    def preview(self, page: str, text: str, after: int = 0) -> None:
        """Show the answer that is being written there, after that message of the session. An empty
        text ends it."""
        preview = Preview(page, text, after)
        if preview == self._previews.get(page, Preview(page)):
            return
        self._previews[page] = preview
        if not text:
            del self._previews[page]
        for one in self.open_pages:
            one.preview(preview)

    def previewed(self, page: str) -> Preview | None:
        return self._previews.get(page)

    # Called by the server

    def answer(self, request: Request, target: str, names: ServerNames) -> Response | None:
        """Return the response, or None to open the WebSocket. Raise Refused."""
        path = target.partition("?")[0]
        if path == "/" and request.headers.getlist("Host") == [names.alias]:
            return refusal(HTTPStatus.TEMPORARY_REDIRECT, {"Location": f"{names.url}/"})
        is_live = path == LIVE and bool(request.headers.getlist("Upgrade"))
        host = guard.check_names(request.headers, names.hosts, origin=is_live)
        if request.method != "GET":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET"})
        if path == LIVE:
            return _handshake_refusal(request)
        if path not in self._files:
            raise Refused(HTTPStatus.NOT_FOUND)
        headers = safe_headers(host)
        if _has_body(request):  # which is not read
            headers |= CLOSE
        return self._files[path].answer(request.headers, headers)

    async def serve(self, websocket: WebSocket) -> None:
        """Serve an open WebSocket until it is closed."""
        socket = LiveSocket(websocket)
        try:
            async with asyncio.timeout(PROVING):
                visitor = await self._proven(socket)
        except (TimeoutError, guard.NotProven):
            logger.debug("page connection refused: nothing proven")
            await socket.close(CloseCode.POLICY_VIOLATION, "not proven")
            return
        except Disconnected:
            return
        socket.prove()
        open_page = OpenPage(self._store, socket, visitor, self.changed, self.previewed)
        self.open_pages.add(open_page)
        try:
            await open_page.run()
        except* Disconnected:
            pass
        finally:
            self.open_pages.discard(open_page)

    async def _proven(self, socket: LiveSocket) -> guard.Visitor:
        name = _browser(socket.header("User-Agent"))
        return await guard.admit(self._store, socket, socket.header("Origin"), name)


def _handshake_refusal(request: Request) -> Response | None:
    """Refuse what is no handshake of a WebSocket. None if it is one."""
    versions = request.headers.getlist("Sec-WebSocket-Version")
    if _has_body(request):
        raise Refused(HTTPStatus.BAD_REQUEST)
    if versions and versions != [_VERSION]:
        raise Refused(HTTPStatus.UPGRADE_REQUIRED, {**_UPGRADE, "Sec-WebSocket-Version": _VERSION})
    if len(request.headers) > MAX_NUM_HEADERS or _has_long_line(request):
        raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    try:
        headers = Headers(request.headers.items())
    except InvalidHeader as error:
        raise Refused(HTTPStatus.BAD_REQUEST) from error
    protocol = f"HTTP/{request.scope['http_version']}"
    handshake = Handshake(path=LIVE, headers=headers, method="GET", protocol=protocol)
    status = HTTPStatus(ServerProtocol().accept(handshake).status_code)
    if status is HTTPStatus.SWITCHING_PROTOCOLS:
        return None
    raise Refused(status, _UPGRADE if status is HTTPStatus.UPGRADE_REQUIRED else None)


_UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade, close"}


def _has_long_line(request: Request) -> bool:
    """Whether `websockets` would not read a header."""
    return any(len(name) + len(value) + 4 > MAX_LINE_LENGTH for name, value in request.headers.raw)


def _has_body(request: Request) -> bool:
    length = request.headers.get("Content-Length", "0")
    return "Transfer-Encoding" in request.headers or bool(length.strip("0"))


def _browser(agent: str) -> str:
    """A name for the browser that the user recognises."""
    known = ("Edg", "Firefox", "Chrome", "Safari")
    kind = next((name for name in known if name in agent), "a browser")
    systems = ("iPhone", "iPad", "Android", "Windows", "Mac", "Linux")
    system = next((name for name in systems if name in agent), "")
    return f"{kind.replace('Edg', 'Edge')} on {system}" if system else kind
