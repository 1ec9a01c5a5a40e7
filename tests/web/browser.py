"""A browser that is only its wire."""

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
    """An open page, as its server knows it."""

    wire: ClientConnection
    hello: dict[str, Any] | None = None
    """How it was greeted, until a test asks for that."""
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def ask(self, do: str, **fields: Any) -> str:
        """Ask for something; the key it was given, if it has one."""
        if do in {"say", "press", "new"}:
            fields.setdefault("key", str(uuid.uuid4()))
        await self.wire.send(msgspec.json.encode({"do": do, **fields}).decode())
        return fields.get("key", "")

    async def until(self, kind: str, wanted: Any = None, **fields: Any) -> dict[str, Any]:
        """The next thing of that kind that it is told, with these fields."""
        async with asyncio.timeout(WITHIN):
            while True:
                tell, self.hello = self.hello or msgspec.json.decode(await self.wire.recv()), None
                self.told.append(tell)
                if tell["is"] != kind or any(tell.get(k) != v for k, v in fields.items()):
                    continue
                if wanted is None or wanted(tell):
                    return tell

    async def message(self, words: str) -> dict[str, Any]:
        """The next message of the agent's with these words in it."""
        told = await self.until(
            "message",
            lambda t: words in t["message"]["html"] and t["message"]["author"] == "agent",
        )
        return told["message"]

    async def new(self) -> str:
        key = await self.ask("new")
        chat = (await self.until("taken", key=key))["chat"]
        await self.ask("open", chat=chat, after=0)
        await self.until("shown", chat=chat)
        return chat
