"""Ways in which the connections of a bot fail, for as long as a test wants."""

from __future__ import annotations

import asyncio
from enum import StrEnum

from segue.testing.http import HangUp, Response


class Outage(StrEnum):
    REFUSE = "refuse"
    """Nothing listens."""
    CLOSE = "close"
    """A connection is accepted and closed."""
    SILENT = "silent"
    """A connection is accepted, and nothing ever comes."""
    HANDSHAKE = "handshake"
    """The answer is a web page, as that of a proxy."""
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    BUSY = "429"
    BROKEN = "500"
    UNAVAILABLE = "503"
    GOODBYE = "goodbye"
    """A connection begins as it should, and ends at once."""
    TOO_MANY = "too many"
    """The bot has too many connections: the platform says so in its own way, and closes this
    one."""


RETRY_SECONDS = 30
"""How long BUSY asks the bot to wait."""


class Outages:
    """The outage that a test ordered, if any."""

    def __init__(self) -> None:
        self.now: Outage | None = None
        self.everything = False
        """Whether all calls fail, and not only those for connections."""
        self.arrivals: list[float] = []
        """The time of each request since the outage began, by the clock of the event loop."""
        self._over = asyncio.Event()

    def begin(self, outage: Outage, *, everything: bool) -> None:
        self.now = outage
        self.everything = everything
        self.arrivals.clear()

    def end(self) -> None:
        """Drop the connections that hang, and let new ones work."""
        self.now = None
        self._over.set()
        self._over = asyncio.Event()

    def arrive(self) -> None:
        self.arrivals.append(asyncio.get_running_loop().time())

    async def response(self) -> Response:
        """What a request gets, instead of an answer. Raise HangUp if that is nothing."""
        match self.now:
            case Outage.SILENT:
                await self._over.wait()
                raise HangUp
            case Outage.HANDSHAKE:
                return Response(200, {"Content-Type": "text/html"}, b"<html>Hello.</html>")
            case Outage.UNAUTHORIZED | Outage.FORBIDDEN | Outage.BROKEN | Outage.UNAVAILABLE:
                return Response(int(self.now), body=b"{}")
            case Outage.BUSY:
                return Response(429, {"Retry-After": str(RETRY_SECONDS)}, b"{}")
            case _:
                raise HangUp
