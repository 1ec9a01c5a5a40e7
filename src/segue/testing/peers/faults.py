"""The faults that a test ordered, and their injection into calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from enum import StrEnum

from segue.testing.http import HangUp
from segue.testing.peers.errors import Garble, Refuse
from segue.testing.peers.pulse import Pulse


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
