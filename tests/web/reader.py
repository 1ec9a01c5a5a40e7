"""An open page as it behaves when its gateway dies.

It reconnects, requests what it missed, and resends what was not acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.web.handshake import Key, entered

PAUSE = 0.02
"""Seconds before it reconnects."""

Json = dict[str, Any]


@dataclass
class Conversation:
    rev: int = 0
    messages: dict[int, Json] = field(default_factory=dict[int, Json])
    """By number, each as in the newest frame."""

    def put(self, message: Json) -> None:
        known = self.messages.get(message["no"])
        if known is None or known["rev"] < message["rev"]:
            self.messages[message["no"]] = message

    @property
    def told(self) -> list[tuple[str, str]]:
        """The author and the HTML of each message, in order."""
        return [(m["author"], m["html"]) for _, m in sorted(self.messages.items())]


class Reader:
    def __init__(self, url: str, key: Key, hears: Callable[[], None]) -> None:
        """`hears` is called for each message that the server pushes."""
        self.followed: dict[str, Conversation] = {}
        self.connections = 0
        self._hears = hears
        self._url = url
        self._key = key
        self._unsaid: dict[str, Json] = {}
        self._wire: ClientConnection | None = None
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncGenerator[None]:
        """Stay connected inside the block."""
        task = asyncio.create_task(self._read())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def open(self, chat: str) -> Conversation:
        """Follow that conversation from now on."""
        if chat not in self.followed:
            self.followed[chat] = Conversation()
            await self._send({"do": "open", "chat": chat, "after": 0})
        return self.followed[chat]

    async def say(self, chat: str, text: str) -> None:
        """Send a message, and resend it until it is acknowledged."""
        frame = {"do": "say", "chat": chat, "key": str(uuid.uuid4()), "text": text}
        self._unsaid[frame["key"]] = frame
        await self._send(frame)

    async def until(self, chat: str, count: int) -> None:
        """Wait until the conversation has `count` messages and all messages are acknowledged."""
        while self._unsaid or len(self.followed[chat].messages) < count:
            self._changed.clear()
            await self._changed.wait()

    # The connection

    async def _read(self) -> None:
        while True:
            try:
                await self._connected()
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError):
                pass
            finally:
                self._wire = None
            await asyncio.sleep(PAUSE)

    async def _connected(self) -> None:
        async with entered(self._url, self._key, max_queue=None) as (wire, _):
            self.connections += 1
            self._wire = wire
            for frame in self._unsaid.copy().values():
                await self._send(frame)
            for chat, known in self.followed.copy().items():
                await self._send({"do": "open", "chat": chat, "after": known.rev})
            async for told in wire:
                self._hear(msgspec.json.decode(told))
                self._changed.set()

    async def _send(self, frame: Json) -> None:
        if self._wire is not None:
            with contextlib.suppress(ConnectionClosed):  # it is sent again after reconnecting
                await self._wire.send(msgspec.json.encode(frame).decode())

    def _hear(self, told: Json) -> None:
        match told["is"]:
            case "shown":
                known = self.followed[told["chat"]]
                for message in told["messages"]:
                    known.put(message)
                known.rev = max(known.rev, told["rev"])
            case "message":
                known = self.followed[told["chat"]]
                known.put(told["message"])
                self._hears()
            case "taken":
                self._unsaid.pop(told["key"], None)
            case "refused":
                raise AssertionError(told["reason"])
            case _:
                pass
