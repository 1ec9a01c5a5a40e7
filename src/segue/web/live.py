"""The WebSocket of an open page."""

from __future__ import annotations

import contextlib
from typing import cast

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected
from websockets.frames import CloseCode

from segue.web.protocols import LingeringTransport, WebSocketProtocol


class Disconnected(Exception):
    """The page has closed the connection, or it broke."""


class LiveSocket:
    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._protocol = cast("WebSocketProtocol", websocket.scope["state"]["connection"])

    @property
    def transport(self) -> LingeringTransport:
        return self._protocol.transport

    @property
    def peer(self) -> tuple[str, int]:
        return self.transport.get_extra_info("peername")

    @property
    def here(self) -> tuple[str, int]:
        return self.transport.get_extra_info("sockname")

    def header(self, name: str) -> str:
        """The values of that header."""
        return " ".join(self._websocket.headers.getlist(name))

    def prove(self) -> None:
        """Lift the limits for strangers: the page is authenticated."""
        self._protocol.prove()

    async def receive(self) -> str | bytes:
        """Return the next frame, or raise Disconnected."""
        try:
            message = await self._websocket.receive()
        except WebSocketDisconnected as error:
            raise Disconnected from error
        if message["type"] == "websocket.disconnect":
            raise Disconnected
        text = message.get("text")
        return message["bytes"] if text is None else text

    async def send(self, text: str) -> None:
        """Send a frame, once the page has read the ones before, or raise Disconnected."""
        try:
            await self._websocket.send_text(text)
        except (WebSocketDisconnect, WebSocketDisconnected) as error:
            raise Disconnected from error

    async def close(self, code: CloseCode, reason: str = "") -> None:
        """Close the connection. Idempotent."""
        with contextlib.suppress(WebSocketDisconnect, WebSocketDisconnected):
            await self._websocket.close(code, reason)

    def abort(self) -> None:
        """Break the connection, without waiting for the page."""
        self.transport.abort()
