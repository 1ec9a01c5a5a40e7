"""Socket Mode: the connections over which Slack delivers envelopes, each of which wants an answer.

An event is acknowledged when it is recorded. If that takes three seconds, Slack delivers it again,
and the gateway drops the second: to acknowledge it earlier could lose it. A slash command or a
pressed button never comes again, and after three seconds its user sees an error, so it is
acknowledged in time, recorded or not (docs/decisions/0020-slack.md).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from segue.platforms.errors import Refused, parsed
from segue.platforms.slack.wire import Envelope
from segue.platforms.unrecorded import Unrecorded
from segue.platforms.websocket import WebSocket, WebSockets

logger = logging.getLogger(__name__)

ACK_SECONDS = 2.0
"""After this time, what is delivered only once is acknowledged, recorded or not."""


_OFF = "Socket Mode is off; turn it on at https://api.slack.com/apps, under Socket Mode"
_TOO_MANY = "it has more connections than Slack allows; stop other programs that use the same app"
_REFUSALS = {"link_disabled": (403, _OFF), "too_many_websockets": (429, _TOO_MANY)}
"""The reasons for which Slack closes a connection that must not be replaced at once. `warning`,
`refresh_requested` and others are about that connection alone."""


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
        self._unrecorded = Unrecorded[EnvelopeDelivery]()
        self._sockets = WebSockets(
            endpoint, self._take, self._unrecorded.wake, silence=silence, trust_env=trust_env
        )
        self.open = self._sockets.open
        self.close = self._sockets.close
        self._once: dict[str, asyncio.Task[None]] = {}
        """Deliveries that do not come again, each with its acknowledgement."""

    async def next(self) -> EnvelopeDelivery | None:
        """The first envelope that is not recorded; None if something else came. Raise Refused or
        Lost if no connection is left."""
        if not self._sockets.is_open:
            raise self._sockets.failure
        return await self._unrecorded.first()

    async def recorded(self, delivery: EnvelopeDelivery) -> None:
        name = delivery.envelope.envelope_id
        self._unrecorded.remove(name)
        acknowledgement = self._once.pop(name, None)
        if acknowledgement is None or acknowledgement.cancel():
            await self._acknowledge(delivery)

    async def _acknowledge(self, delivery: EnvelopeDelivery, after: float = 0.0) -> None:
        await asyncio.sleep(after)
        text = json.dumps({"envelope_id": delivery.envelope.envelope_id})
        await self._sockets.send(delivery.socket, text)

    def _take(self, socket: WebSocket, frame: str | bytes) -> None:
        envelope = parsed(frame, Envelope)
        if envelope is None:
            logger.warning("updates skipped platform=slack ids=unknown")
        elif envelope.type == "disconnect":
            self._leave(socket, envelope.reason)
        elif name := envelope.envelope_id:
            delivery = EnvelopeDelivery(envelope, socket, time.time())
            self._unrecorded.add(name, delivery)
            if envelope.type != "events_api":
                acknowledgement = self._acknowledge(delivery, ACK_SECONDS)
                self._once[name] = self._sockets.start(acknowledgement)
        self._unrecorded.wake()

    def _leave(self, socket: WebSocket, reason: str) -> None:
        """Slack is about to close this connection. Raise Refused if another one would not help."""
        if reason in _REFUSALS:
            status, text = _REFUSALS[reason]
            raise Refused(status, text, code=reason)
        logger.info("connection is replaced platform=slack reason=%s", reason)
        self._sockets.replace(socket)
