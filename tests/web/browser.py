"""A browser reduced to its WebSocket."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection

WITHIN = 15.0


@dataclass
class Browser:
    """An open page, as its server sees it."""

    wire: ClientConnection
    hello: dict[str, Any] | None = None
    """The server's greeting, until a test reads it."""
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def ask(self, do: str, **fields: Any) -> str:
        """Send a request and return its idempotency key, if it has one."""
        if do in {"say", "press", "new", "bring", "rename", "delete", "export", "job"}:
            fields.setdefault("key", str(uuid.uuid4()))
        await self.wire.send(msgspec.json.encode({"do": do, **fields}).decode())
        return fields.get("key", "")

    async def until(self, kind: str, wanted: Any = None, **fields: Any) -> dict[str, Any]:
        """Return the next frame of that kind with these fields."""
        async with asyncio.timeout(WITHIN):
            while True:
                tell, self.hello = self.hello or msgspec.json.decode(await self.wire.recv()), None
                self.told.append(tell)
                if tell["is"] != kind or any(tell.get(k) != v for k, v in fields.items()):
                    continue
                if wanted is None or wanted(tell):
                    return tell

    async def message(self, words: str) -> dict[str, Any]:
        """Return the agent's next message that contains these words, and is not in the
        transcript."""
        told = await self.until(
            "message",
            lambda t: words in t["message"]["html"] and t["message"]["author"] == "agent",
        )
        return told["message"]

    async def line(self, words: str, role: str = "assistant") -> dict[str, Any]:
        """Return the next message of the transcript with that role and these words."""

        def found(told: dict[str, Any]) -> list[dict[str, Any]]:
            return [m for m in told["lines"] if m["role"] == role and words in m["html"]]

        return found(await self.until("shown", found))[0]

    async def new(self) -> str:
        key = await self.ask("new")
        chat = (await self.until("taken", key=key))["chat"]
        await self.ask("open", chat=chat)
        await self.until("shown", chat=chat)
        return chat
