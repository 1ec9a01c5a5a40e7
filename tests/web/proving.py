"""How a browser that is only its wire proves itself, and sees to it that the server has."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from segue.core import proof
from segue.core.proof import Exchange


@dataclass(frozen=True, slots=True)
class Key:
    """Of a link, or of a browser."""

    id: str
    secret: str


def link_key(token: str) -> Key:
    return Key(*proof.of_link(token))


@contextlib.asynccontextmanager
async def opened(url: str, **more: Any) -> AsyncGenerator[ClientConnection]:
    """The WebSocket of a page that was loaded from that address, on which nothing is proven."""
    live = f"{url.replace('http', 'ws', 1)}/live"
    async with connect(live, origin=Origin(url), proxy=None, **more) as wire:
        yield wire


async def ask(wire: ClientConnection, frame: dict[str, Any]) -> dict[str, Any]:
    """What it answers to that."""
    await wire.send(msgspec.json.encode(frame).decode())
    return msgspec.json.decode(await wire.recv())


async def prove(wire: ClientConnection, url: str, key: Key) -> Exchange | None:
    """What both sides have signed; None when the server does not know that key."""
    nonce = secrets.token_hex(32)
    told = await ask(wire, {"do": "greet", "key": key.id, "nonce": nonce})
    if told["is"] == "unknown":
        return None
    exchange = Exchange(origin=url, browser_nonce=nonce, server_nonce=told["nonce"])
    assert told == {
        "is": "proof",
        "nonce": exchange.server_nonce,
        "proof": exchange.server_proof(key.secret),
    }
    proven = {"do": "prove", "proof": exchange.browser_proof(key.secret)}
    await wire.send(msgspec.json.encode(proven).decode())
    return exchange


async def pair(url: str, token: str) -> Key | None:
    """That of a new browser which opened the link with that token; None when it is not let in."""
    link = link_key(token)
    async with opened(url) as wire:
        exchange = await prove(wire, url, link)
        if exchange is None or msgspec.json.decode(await wire.recv())["is"] == "unknown":
            return None
        return Key(*exchange.new_browser(link.secret))


@contextlib.asynccontextmanager
async def entered(
    url: str, key: Key, **more: Any
) -> AsyncGenerator[tuple[ClientConnection, dict[str, Any]]]:
    """The WebSocket of that browser, which has proven itself, and how the server greets it."""
    async with opened(url, **more) as wire:
        assert await prove(wire, url, key) is not None, "the server does not know this browser"
        hello = msgspec.json.decode(await wire.recv())
        assert hello["is"] == "hello"
        yield wire, hello
