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

from segue.platforms.errors import Lost, parsed
from segue.platforms.slack.wire import Envelope
from segue.platforms.unrecorded import Unrecorded
from segue.platforms.websocket import WebSocket, WebSockets

logger = logging.getLogger(__name__)

ACK_SECONDS = 2.0
"""After this time, what is delivered only once is acknowledged, recorded or not."""


@dataclass(frozen=True, slots=True)
class EnvelopeDelivery:
    envelope: Envelope
    socket: WebSocket
    at: float
    """The time of its arrival, in seconds."""


class Socket:
    """Receives envelopes, in order, over one connection or more."""

    def __init__(
        self, endpoint: Callable[[], Awaitable[str]], silence: float, *, trust_env: bool
    ) -> None:
        """`endpoint` returns a URL that can be connected to once."""
        self._endpoint = endpoint
        self._unrecorded = Unrecorded[EnvelopeDelivery]()
        lost = self._unrecorded.wake
        self._sockets = WebSockets(self._take, lost, silence=silence, trust_env=trust_env)
        self.close = self._sockets.close
        self._once: dict[str, asyncio.Task[None]] = {}
        """Deliveries that do not come again, each with its acknowledgement."""

    async def open(self) -> None:
        """Connect, unless it is connected."""
        if not self._sockets:
            await self._sockets.connect(await self._endpoint())

    async def next(self) -> EnvelopeDelivery | None:
        """The first envelope that is not recorded; None if something else came. Raise Lost if no
        connection is left."""
        if not self._sockets:
            raise Lost("the connection was lost", arrived=False)
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
            self._sockets.start(self._sockets.replace(self._endpoint))
        elif name := envelope.envelope_id:
            delivery = EnvelopeDelivery(envelope, socket, time.time())
            self._unrecorded.add(name, delivery)
            if envelope.type != "events_api":
                acknowledgement = self._acknowledge(delivery, ACK_SECONDS)
                self._once[name] = self._sockets.start(acknowledgement)
        self._unrecorded.wake()
