"""Socket Mode: the connections over which Slack delivers envelopes, each to be acknowledged.

An event is acknowledged when it is recorded, because it could be lost otherwise. If that takes
three seconds, Slack delivers it again, and the gateway drops the repetition. A slash command or a
pressed button is delivered only once, and after three seconds its user sees an error, so it is
acknowledged in time, recorded or not (docs/decisions/0020-slack.md).

The adapter reads from a `Socket`. `EnvelopeQueue` has the envelopes that wait, and `WebSockets` the
connections. URLs can hold secrets, so they are in no error or log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Literal

from msgspec import Raw, Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from segue.platforms.connection import Reconnects
from segue.platforms.errors import Lost, Refused, parsed

logger = logging.getLogger(__name__)

WebSocket = ClientConnection
_LARGEST = 16 * 1024 * 1024
"""Bytes of a frame."""
_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.WARNING)  # below that, the library logs URLs
ACK_SECONDS = 2.0
"""After this time, an envelope that is delivered only once is acknowledged, recorded or not."""
_OFF = "Socket Mode is off; turn it on at https://api.slack.com/apps, under Socket Mode"
_TOO_MANY = "it has more connections than Slack allows; stop other programs that use the same app"
_REFUSALS = {"link_disabled": (403, _OFF), "too_many_websockets": (429, _TOO_MANY)}
"""The reasons for which Slack closes a connection that must not be replaced at once. `warning`,
`refresh_requested` and others are about that connection alone."""


class Envelope(Struct, frozen=True):
    """https://docs.slack.dev/apis/events-api/using-socket-mode"""

    type: str
    envelope_id: str = ""
    payload: Raw = Raw(b"{}")
    reason: str = ""  # of a disconnect


@dataclass(frozen=True, slots=True)
class EnvelopeDelivery:
    envelope: Envelope
    socket: WebSocket
    at: float
    """The time of its arrival, in seconds."""


class Socket:
    """Receives envelopes, in order, over one connection, or over two while one replaces the
    other."""

    def __init__(
        self, endpoint: Callable[[], Awaitable[str]], silence: float, *, trust_env: bool
    ) -> None:
        """`endpoint` returns a URL that can be connected to once."""
        self._queue = EnvelopeQueue()
        self._sockets = WebSockets(
            endpoint, self._on_frame, self._queue.wake, silence=silence, trust_env=trust_env
        )
        self.open = self._sockets.open
        self.close = self._sockets.close
        self._once: dict[str, asyncio.Task[None]] = {}
        """The acknowledgements of envelopes that are delivered only once."""

    async def next(self) -> EnvelopeDelivery | None:
        """The first envelope that is not recorded; None if something else came. Raise Refused or
        Lost if no connection is left."""
        if not self._sockets.is_open:
            raise self._sockets.failure
        return await self._queue.first()

    async def recorded(self, delivery: EnvelopeDelivery) -> None:
        name = delivery.envelope.envelope_id
        self._queue.remove(name)
        acknowledgement = self._once.pop(name, None)
        if acknowledgement is None or acknowledgement.cancel():
            await self._acknowledge(delivery)

    async def _acknowledge(self, delivery: EnvelopeDelivery, after: float = 0.0) -> None:
        await asyncio.sleep(after)
        text = json.dumps({"envelope_id": delivery.envelope.envelope_id})
        await self._sockets.send(delivery.socket, text)

    def _on_frame(self, socket: WebSocket, frame: str | bytes) -> None:
        envelope = parsed(frame, Envelope)
        if envelope is None:
            logger.warning("updates skipped platform=slack ids=unknown")
        elif envelope.type == "disconnect":
            self._leave(socket, envelope.reason)
        elif name := envelope.envelope_id:
            delivery = EnvelopeDelivery(envelope, socket, time.time())
            self._queue.add(name, delivery)
            if envelope.type != "events_api":
                acknowledgement = self._acknowledge(delivery, ACK_SECONDS)
                self._once[name] = self._sockets.start(acknowledgement)
        self._queue.wake()

    def _leave(self, socket: WebSocket, reason: str) -> None:
        """Slack is about to close this connection. Raise Refused if another one would not help."""
        if reason in _REFUSALS:
            status, text = _REFUSALS[reason]
            raise Refused(status, text, code=reason)
        logger.info("connection is replaced platform=slack reason=%s", reason)
        self._sockets.replace(socket)


class EnvelopeQueue:
    """Envelopes in the order of their arrival. The first one stays until it is recorded, so a
    receiver that starts again gets it again."""

    def __init__(self) -> None:
        self._waiting: dict[str, EnvelopeDelivery] = {}
        self._changed = asyncio.Event()

    def add(self, name: str, delivery: EnvelopeDelivery) -> None:
        """Add an envelope. A repetition takes the place of the first delivery."""
        self._waiting[name] = delivery
        self._changed.set()

    def wake(self) -> None:
        """Let `first` return although nothing was added."""
        self._changed.set()

    async def first(self) -> EnvelopeDelivery | None:
        """Wait for an envelope, or for `wake`. Return the first one, or None if there is none."""
        if not self._waiting:
            self._changed.clear()
            await self._changed.wait()
        return next(iter(self._waiting.values()), None)

    def remove(self, name: str) -> None:
        """Remove an envelope that is recorded."""
        self._waiting.pop(name, None)


# Connections


class WebSockets:
    """One connection to a server, or two while a new one replaces an old one."""

    def __init__(
        self,
        endpoint: Callable[[], Awaitable[str]],
        on_frame: Callable[[WebSocket, str | bytes], None],
        on_close: Callable[[], None],
        *,
        silence: float,
        trust_env: bool = False,
    ) -> None:
        """`endpoint` returns the URL for a connection. `on_frame` gets each frame, and can raise
        Refused, which ends the connection. `on_close` is called when a connection has ended.
        `silence` is the timeout in seconds for connecting. With `trust_env`, use the proxy from the
        environment."""
        self._endpoint = endpoint
        self._on_frame = on_frame
        self._on_close = on_close
        self._silence = silence
        self._proxy: Literal[True] | None = True if trust_env else None
        self._current: WebSocket | None = None
        self._old: WebSocket | None = None
        """The one before, until the server closes it: frames may still come over it."""
        self._reconnects = Reconnects()
        self._replacing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.failure: Refused | Lost = Lost("it is not connected", arrived=False)
        """Why there is no connection."""

    @property
    def is_open(self) -> bool:
        return self._current is not None

    async def open(self) -> None:
        """Connect, unless it is connected. Raise Refused or Lost if that fails."""
        if self._current is not None:
            return
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.wait([self._replacing])
        await self._connect()

    async def _connect(self) -> None:
        """Connect, and wait for the first frame."""
        self._reconnects.begin()
        url = await self._endpoint()
        try:
            async with asyncio.timeout(self._silence):
                socket = await connect(
                    url, proxy=self._proxy, max_size=_LARGEST, close_timeout=1, logger=_QUIET
                )
                try:
                    self._on_frame(socket, await socket.recv())
                except BaseException:
                    await socket.close()
                    raise
        except (OSError, WebSocketException):
            raise Lost("no connection can be made", arrived=False) from None
        self._old = self._current
        self._current = socket
        self.start(self._read(socket))

    def replace(self, socket: WebSocket) -> None:
        """Replace a connection that the server is about to close, unless that is done or under
        way."""
        under_way = self._replacing is not None and not self._replacing.done()
        if socket is self._current and not under_way and not self._is_closed:
            self._replacing = self.start(self._replace(socket))

    async def _replace(self, socket: WebSocket) -> None:
        """Try until there is a new connection, or until the old one has ended."""
        failure: Refused | Lost | None = None
        while socket is self._current:
            await asyncio.sleep(self._reconnects.pause(failure, at_once=True))
            if self._old is not None:  # one old and one new are enough
                await self._old.close()
                self._old = None
            try:
                await self._connect()
            except (Refused, Lost) as error:
                logger.info("connection not replaced: %s", error)
                failure = error

    async def _read(self, socket: WebSocket) -> None:
        failure: Refused | Lost = Lost("the connection was lost", arrived=False)
        try:
            with contextlib.suppress(ConnectionClosed):
                async for frame in socket:
                    self._on_frame(socket, frame)
        except Refused as refused:
            failure = refused
        finally:
            self._forget(socket, failure)
            self._on_close()
            await socket.close()

    def _forget(self, socket: WebSocket, failure: Refused | Lost) -> None:
        """Handle the end of a connection. If the one before is still open, use that until there is
        another."""
        if socket is self._old:
            self._old = None
        if socket is not self._current:
            return
        self.failure = failure
        self._current = self._old
        self._old = None
        if self._current is not None:
            self.replace(self._current)

    async def send(self, socket: WebSocket, text: str) -> None:
        """Send over a connection, if it is still open."""
        with contextlib.suppress(ConnectionClosed):
            await socket.send(text)

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task, which is cancelled when the connections are closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        self._is_closed = True
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
