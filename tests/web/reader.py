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
class Seen:
    """What the page shows."""

    lines: dict[int, Json] = field(default_factory=dict[int, Json])
    """The messages of the transcript, by seq."""
    messages: dict[int, Json] = field(default_factory=dict[int, Json])
    """The messages between them, by number."""
    moves: dict[int, Json] = field(default_factory=dict[int, Json])
    seq: int = 0
    edits: int = 0

    @property
    def told(self) -> list[tuple[str, str]]:
        """The role and the HTML of each message of the transcript, in order."""
        return [(line["role"], line["html"]) for _, line in sorted(self.lines.items())]

    def show(self, told: Json) -> None:
        if told["fresh"]:
            for shown in (self.lines, self.messages, self.moves):
                shown.clear()
        for line in told["lines"]:
            self.lines[line["seq"]] = line
            self.messages.pop(line["shows"], None)
        self.messages |= {message["no"]: message for message in told["messages"]}
        self.moves |= {move["no"]: move for move in told["moves"]}
        self.seq, self.edits = told["seq"], told["edits"]


class Reader:
    """A page that shows one session."""

    def __init__(self, url: str, key: Key, chat: str, hears: Callable[[], None]) -> None:
        """`hears` is called for each new message."""
        self.chat = chat
        self.seen = Seen()
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

    async def say(self, text: str) -> None:
        """Send a message, and resend it until it is acknowledged."""
        frame = {"do": "say", "chat": self.chat, "key": str(uuid.uuid4()), "text": text}
        self._unsaid[frame["key"]] = frame
        await self._send(frame)

    async def until(self, seq: int) -> None:
        """Wait until the page shows that message, and all messages are acknowledged."""
        while self._unsaid or seq not in self.seen.lines:
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
            known = {"seq": self.seen.seq, "edits": self.seen.edits}
            await self._send({"do": "open", "chat": self.chat, **known})
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
                known = len(self.seen.lines)
                self.seen.show(told)
                if len(self.seen.lines) > known:
                    self._hears()
            case "message":
                self.seen.messages[told["message"]["no"]] = told["message"]
                self._hears()
            case "taken":
                self._unsaid.pop(told["key"], None)
            case "refused":
                raise AssertionError(told["reason"])
            case _:
                pass
