"""The daemon's event stream: https://html.spec.whatwg.org/multipage/server-sent-events.html.

The daemon sends an event once, to the clients that listen then, so it is kept until it is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable

from segue.platforms.errors import Lost, Refused, parsed
from segue.platforms.signal.wire import SignalEnvelope, SignalEvent
from segue.platforms.unrecorded import Unrecorded

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
_DATA = b"data:"


class EventStream:
    """Receives envelopes in order."""

    def __init__(self, lines: Callable[[], AsyncGenerator[bytes]]) -> None:
        """`lines` opens a stream."""
        self._lines = lines
        self._unrecorded = Unrecorded[tuple[str, SignalEnvelope]]()
        self._answered = asyncio.Event()
        self._listening: asyncio.Task[Refused | Lost] | None = None

    async def open(self) -> None:
        """Listen, unless it does. Return when the daemon answers. Before 0.14.4 it does so only
        after 15 seconds, or with the first event, so this does not wait for long."""
        if self._listening is None or self._listening.done():
            self._answered.clear()
            self._listening = asyncio.create_task(self._listen())
            self._listening.add_done_callback(lambda _: self._unrecorded.wake())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._answered.wait()

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def next(self) -> tuple[str, SignalEnvelope] | None:
        """The account's number and its first envelope that is not recorded; None if something else
        came. Raise Refused or Lost if the connection is gone."""
        if self._listening is None or self._listening.cancelled():
            raise Lost("it was closed", arrived=False)
        if self._listening.done():
            raise self._listening.result()
        return await self._unrecorded.first()

    def recorded(self, envelope: SignalEnvelope) -> None:
        self._unrecorded.remove(update_id(envelope))

    async def _listen(self) -> Refused | Lost:
        """Take events until the connection is lost. Return why."""
        try:
            async for line in self._lines():
                if line.startswith(_DATA):
                    self._take(line.removeprefix(_DATA))
                self._answered.set()
                self._unrecorded.wake()
        except (Refused, Lost) as error:
            return error
        finally:
            self._answered.set()
        return Lost("the connection was closed", arrived=False)

    def _take(self, data: bytes) -> None:
        event = parsed(data, SignalEvent)
        if event is None:
            logger.warning("updates skipped platform=signal ids=unknown")
        elif event.exception is not None:
            # It stays with signal-cli until the sender's new safety number is trusted.
            logger.warning(
                "message not readable platform=signal reason=%s: type `segue doctor`",
                event.exception.type,
            )
        elif (envelope := parsed(event.envelope, SignalEnvelope)) is not None:
            self._unrecorded.add(update_id(envelope), (event.account, envelope))


def update_id(envelope: SignalEnvelope) -> str:
    """A timestamp identifies a message of its author."""
    return f"{envelope.timestamp} {envelope.source_uuid}"
