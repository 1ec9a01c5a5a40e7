"""The demo's browser. Like the real page, it uses HTTP and a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
import secrets
import uuid
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from segue.core.errors import DemoFailed
from segue.store import pairings
from segue.store.pairings import ProofExchange
from segue.system import http
from segue.web import frames
from segue.web.page import LIVE

_TAG = re.compile(r"<[^>]*>")

_tell: msgspec.json.Decoder[frames.Tell] = msgspec.json.Decoder(frames.Tell)


class Browser:
    """An open page. It keeps what the server sends."""

    def __init__(self, wire: ClientConnection, conversation: str) -> None:
        self.conversation = conversation
        self.lines: dict[int, frames.Line] = {}
        """The messages of the transcript, by seq."""
        self.messages: dict[int, frames.Message] = {}
        """The messages between them, by number."""
        self.arrived = 0
        """The last message from before the session came here."""
        self._wire = wire
        self._taken: set[str] = set()
        self._refused: str | None = None
        self._opened = False
        self._changed = asyncio.Condition()

    async def open(self) -> None:
        """Open the conversation."""
        await _send(self._wire, frames.Open(chat=self.conversation))
        await self.until(lambda: self._opened)

    async def say(self, text: str) -> int:
        """Send `text`, and return the seq of the message before it once the server has it."""
        key = str(uuid.uuid4())
        last = max(self.lines, default=0)
        await _send(self._wire, frames.Say(chat=self.conversation, key=key, text=text))
        await self.until(lambda: key in self._taken)
        return last

    @property
    def history(self) -> list[frames.Line]:
        """The messages from before the session came here."""
        return [line for seq, line in sorted(self.lines.items()) if seq <= self.arrived]

    def answers(self, after: int) -> list[frames.Line | frames.Message]:
        """Return the agent's messages after that seq."""
        lines = [line for seq, line in sorted(self.lines.items()) if seq > after]
        notices = [m for m in self.messages.values() if m.author == "agent" and m.after is not None]
        return [
            *(line for line in lines if line.role == "assistant"),
            *(notice for notice in notices if (notice.after or 0) > after),
        ]

    @property
    def is_asked(self) -> bool:
        """Whether the page shows a question with buttons."""
        return any(message.buttons for message in self.messages.values())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, or raise DemoFailed if the server refuses a request."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._refused is not None or condition())
        if self._refused is not None:
            raise DemoFailed(reason=f"the page was refused: {self._refused}")

    async def listen(self) -> None:
        """Process frames from the server until the connection closes."""
        with contextlib.suppress(ConnectionClosed):
            async for frame in self._wire:
                self._receive(_tell.decode(frame))
                await self._notify()
        self._refused = "the connection closed"
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _receive(self, told: frames.Tell) -> None:
        match told:
            case frames.Shown(lines=lines, messages=messages, moves=moves):
                self._opened = True
                self.lines.update({line.seq: line for line in lines})
                self.messages.update({message.no: message for message in messages})
                self.arrived = max([self.arrived, *(move.after for move in moves)])
            case frames.Changed(message=message):
                self.messages[message.no] = message
            case frames.Taken(key=key):
                self._taken.add(key)
            case frames.Refused(reason=reason):
                self._refused = reason
            case _:
                pass


@contextlib.asynccontextmanager
async def open_browser(link: str) -> AsyncGenerator[Browser]:
    """Open `link` in a new browser.

    Raises DemoFailed if the browser is refused, or if the link works a second time.
    """
    wanted = parse_qs(urlsplit(link).fragment)
    async with connect_browser(link) as wire:
        browser = Browser(wire, wanted["c"][0])
        listening = asyncio.create_task(browser.listen())
        try:
            await browser.open()
            await _check_used(link)  # not before: the server has answered, so the link is used up
            yield browser
        finally:
            listening.cancel()
            await asyncio.wait({listening})


@contextlib.asynccontextmanager
async def connect_browser(link: str) -> AsyncGenerator[ClientConnection]:
    """Load the page at `link`, pair, and yield the WebSocket. Raises DemoFailed if refused."""
    parts = urlsplit(link)
    origin = f"{parts.scheme}://{parts.netloc}"
    async with http.client(trust_env=False, timeout=httpx2.Timeout(5.0)) as client:
        page = await client.get(f"{origin}/")
    if page.status_code != HTTPStatus.OK or "<html" not in page.text:
        raise DemoFailed(reason=f"the page answered with HTTP {page.status_code}")
    async with connect(f"ws://{parts.netloc}{LIVE}", origin=Origin(origin), proxy=None) as wire:
        await _pair(wire, origin, parse_qs(parts.fragment)["t"][0])
        yield wire


async def _check_used(link: str) -> None:
    try:
        async with connect_browser(link):
            pass
    except DemoFailed:
        return
    raise DemoFailed(reason="the link could be used twice")


async def _pair(wire: ClientConnection, origin: str, token: str) -> None:
    key, secret = pairings.link_keys(token)
    nonce = secrets.token_hex(32)
    await _send(wire, frames.Greet(key=key, nonce=nonce))
    told = _tell.decode(await wire.recv())
    if not isinstance(told, frames.Proof):
        raise DemoFailed(reason="the link was refused")
    exchange = ProofExchange(origin=origin, browser_nonce=nonce, server_nonce=told.nonce)
    if told.proof != exchange.server_proof(secret):
        raise DemoFailed(reason="the page's server did not prove that it is ours")
    await _send(wire, frames.Prove(proof=exchange.browser_proof(secret)))


async def _send(wire: ClientConnection, frame: frames.Greet | frames.Prove | frames.Ask) -> None:
    await wire.send(msgspec.json.encode(frame).decode())


def text(shown: str) -> str:
    """Return the text of the HTML that the page shows."""
    return " ".join(html.unescape(_TAG.sub(" ", shown)).split())
