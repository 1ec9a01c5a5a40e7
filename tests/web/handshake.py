"""Mutual authentication between the server and a browser reduced to its WebSocket."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from segue.store import pairings
from segue.store.pairings import ProofExchange


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a link or a browser."""

    id: str
    secret: str


def link_key(token: str) -> Key:
    return Key(*pairings.link_keys(token))


@contextlib.asynccontextmanager
async def opened(url: str, **more: Any) -> AsyncGenerator[ClientConnection]:
    """The WebSocket of a page loaded from that URL, before authentication."""
    live = f"{url.replace('http', 'ws', 1)}/live"
    async with connect(live, origin=Origin(url), proxy=None, **more) as wire:
        yield wire


async def ask(wire: ClientConnection, frame: dict[str, Any]) -> dict[str, Any]:
    """Send a frame and return the answer."""
    await wire.send(msgspec.json.encode(frame).decode())
    return msgspec.json.decode(await wire.recv())


async def prove(
    wire: ClientConnection, url: str, key: Key, link: Key | None = None
) -> ProofExchange | None:
    """Authenticate with the key. Return the signed exchange, or None if the key is unknown.

    `link` is the link that the page was opened with, if it is not the key.
    """
    nonce = secrets.token_hex(32)
    told = await ask(wire, {"do": "greet", "key": key.id, "nonce": nonce})
    if told["is"] == "unknown":
        return None
    exchange = ProofExchange(origin=url, browser_nonce=nonce, server_nonce=told["nonce"])
    assert told == {
        "is": "proof",
        "nonce": exchange.server_nonce,
        "proof": exchange.server_proof(key.secret),
    }
    proven: dict[str, Any] = {"do": "prove", "proof": exchange.browser_proof(key.secret)}
    if link is not None:
        proven["link"] = {"key": link.id, "proof": exchange.browser_proof(link.secret)}
    await wire.send(msgspec.json.encode(proven).decode())
    return exchange


async def pair(url: str, token: str) -> Key | None:
    """Open the link with that token and return the new browser's key, or None if it is refused."""
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
    """The authenticated WebSocket of that browser, and the server's greeting."""
    async with opened(url, **more) as wire:
        assert await prove(wire, url, key) is not None, "the server does not know this browser"
        hello = msgspec.json.decode(await wire.recv())
        assert hello["is"] == "hello"
        yield wire, hello
