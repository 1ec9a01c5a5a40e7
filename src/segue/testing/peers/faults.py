"""What goes wrong: calls that are refused or lost, and connections that fail for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from enum import StrEnum

from segue.testing.http import HangUp, Response
from segue.testing.peers.updates import Pulse


class Refuse(Exception):
    """Refuses a call with this response, or an action of the test with this reason.

    A `mistake` is a call that no bot should make: the fake also records it as an error.
    """

    def __init__(self, reason: str, response: Response, *, mistake: bool = False) -> None:
        super().__init__(reason)
        self.response = response
        self.mistake = mistake


class Malformed(Exception):
    """The request cannot be parsed. The fake refuses it in its own format."""


class Garble(Exception):
    """The answer must be invalid."""


class Trouble(StrEnum):
    """A fault injected into a call."""

    BUSY = "busy"
    """429 with a retry time; the call has no effect."""
    BROKEN = "broken"
    """500; the call has no effect, but the bot cannot know that."""
    FORBIDDEN = "forbidden"
    """403; the call has no effect."""
    DROP_BEFORE = "drop_before"
    """The connection is dropped before the call has an effect, but the bot cannot know that."""
    DROP_AFTER = "drop_after"
    """The call takes effect, and the connection is dropped before the answer."""
    GARBLED = "garbled"
    """The call takes effect, and the answer is 200 with an invalid body."""
    DELAY = "delay"
    """The call takes effect after some seconds."""
    ANSWER_LATE = "answer_late"
    """The call takes effect, and its answer waits until `calm`."""
    HANG = "hang"
    """The call has no effect and no answer, until `calm` drops the connection."""
    HANG_AFTER = "hang_after"
    """The call takes effect but gets no answer, until `calm` drops the connection."""


@dataclass(slots=True)
class Fault:
    """A fault for the next calls of a method, only in `chat` if it is given."""

    method: str
    trouble: Trouble
    times: int
    seconds: float
    """How long BUSY asks the bot to wait, and how long DELAY waits."""
    chat: str | None


class Faults:
    def __init__(self, pulse: Pulse, refusal: Callable[[Trouble, float], Refuse]) -> None:
        """`refusal` makes the platform's error for BUSY, BROKEN and FORBIDDEN."""
        self._pulse = pulse
        self._refusal = refusal
        self._waiting: list[Fault] = []
        self._calm = asyncio.Event()
        self.hanging = 0

    def add(self, fault: Fault) -> None:
        self._waiting.append(fault)

    def calm(self) -> None:
        """Remove all faults, and drop the connections of hanging calls."""
        self._waiting.clear()
        self._calm.set()
        self._calm = asyncio.Event()

    @contextlib.asynccontextmanager
    async def around(self, method: str, chat: str | None) -> AsyncGenerator[None]:
        """Wrap the effect of a call, and inject the fault ordered for it before or after."""
        fault = self._take(method, chat)
        if fault is not None:
            await self._before(fault)
        yield
        if fault is not None:
            await self._after(fault)

    def _take(self, method: str, chat: str | None) -> Fault | None:
        for fault in self._waiting:
            if fault.method == method and fault.chat in (None, chat):
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                return fault
        return None

    async def _before(self, fault: Fault) -> None:
        match fault.trouble:
            case Trouble.BUSY | Trouble.BROKEN | Trouble.FORBIDDEN:
                raise self._refusal(fault.trouble, fault.seconds)
            case Trouble.DROP_BEFORE:
                raise HangUp
            case Trouble.DELAY:
                await asyncio.sleep(fault.seconds)
            case Trouble.HANG:
                await self._hang()
            case Trouble.DROP_AFTER | Trouble.HANG_AFTER | Trouble.GARBLED | Trouble.ANSWER_LATE:
                pass

    async def _after(self, fault: Fault) -> None:
        if fault.trouble is Trouble.DROP_AFTER:
            raise HangUp
        if fault.trouble is Trouble.GARBLED:
            raise Garble
        if fault.trouble is Trouble.ANSWER_LATE:
            await self._calmed()
        if fault.trouble is Trouble.HANG_AFTER:
            await self._hang()

    async def _hang(self) -> None:
        await self._calmed()
        raise HangUp

    async def _calmed(self) -> None:
        self.hanging += 1
        self._pulse.beat()
        try:
            await self._calm.wait()
        finally:
            self.hanging -= 1
            self._pulse.beat()


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
