"""The page: static files, and one WebSocket for everything private."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from importlib import resources

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from segue.store import Store
from segue.web import guard, http
from segue.web.frames import FRAME_LIMIT
from segue.web.guard import ServerNames
from segue.web.http import Strangers
from segue.web.open_page import OpenPage, Preview

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
LIVE = "/live"
PROVING = 10.0
"""Seconds for a page to authenticate."""

logger = logging.getLogger(__name__)


def static_files() -> dict[str, tuple[str, bytes]]:
    """All files by path, with their content types."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in (resources.files("segue.web") / "assets").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            found[f"/{file.name}"] = (_TYPES[suffix], file.read_bytes())
    found["/"] = found["/index.html"]
    return found


class WebPage:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._files = static_files()
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

    def answer(self, request: Request, names: ServerNames) -> Response | None:
        """Return the response, or None to open the WebSocket. Raise Refused."""
        path = request.path.partition("?")[0]
        if path == "/" and request.headers.get_all("Host") == [names.alias]:
            return http.refusal(HTTPStatus.TEMPORARY_REDIRECT, Location=f"{names.url}/")
        is_live = path == LIVE and bool(request.headers.get_all("Upgrade"))
        host = guard.check_names(request.headers, names.hosts, origin=is_live)
        if request.method != "GET":
            return http.refusal(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET")
        if path == LIVE:
            return None if is_live else http.refusal(HTTPStatus.UPGRADE_REQUIRED)
        if path not in self._files:
            return http.refusal(HTTPStatus.NOT_FOUND)
        kind, body = self._files[path]
        return http.response(HTTPStatus.OK, host, body, kind)

    async def serve(self, connection: ServerConnection, strangers: Strangers) -> None:
        """Serve an open WebSocket until it is closed."""
        try:
            async with asyncio.timeout(PROVING):
                visitor = await self._proven(connection)
        except (TimeoutError, guard.NotProven):
            logger.debug("page connection refused: nothing proven")
            await connection.close(CloseCode.POLICY_VIOLATION, "not proven")
            return
        except ConnectionClosed:
            return
        # Lift the limits for strangers.
        strangers.remove(connection.transport)
        connection.protocol.max_message_size = FRAME_LIMIT
        open_page = OpenPage(self._store, connection, visitor, self.changed, self.previewed)
        self.open_pages.add(open_page)
        try:
            await open_page.run()
        except* ConnectionClosed:
            pass
        finally:
            self.open_pages.discard(open_page)

    async def _proven(self, connection: ServerConnection) -> guard.Visitor:
        if connection.request is None:
            raise guard.NotProven
        headers = connection.request.headers
        name = _browser(" ".join(headers.get_all("User-Agent")))
        return await guard.admit(self._store, connection, headers["Origin"], name)


def _browser(agent: str) -> str:
    """A name for the browser that the user recognises."""
    known = ("Edg", "Firefox", "Chrome", "Safari")
    kind = next((name for name in known if name in agent), "a browser")
    systems = ("iPhone", "iPad", "Android", "Windows", "Mac", "Linux")
    system = next((name for name in systems if name in agent), "")
    return f"{kind.replace('Edg', 'Edge')} on {system}" if system else kind
