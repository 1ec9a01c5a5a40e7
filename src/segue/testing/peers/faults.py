"""The faults that a test ordered, and their injection into calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from segue.testing.http import HangUp
from segue.testing.peers.control import Fail, Trouble
from segue.testing.peers.pulse import Pulse


class Garble(Exception):
    """The answer must be invalid."""


class Faults:
    def __init__(self, pulse: Pulse, refusal: Callable[[Fail], Exception]) -> None:
        """`refusal` makes this platform's error for BUSY, BROKEN and FORBIDDEN."""
        self._pulse = pulse
        self._refusal = refusal
        self._waiting: list[tuple[Fail, int]] = []
        """Each fault with the number of times left."""
        self._calm = asyncio.Event()
        self.hanging = 0

    def order(self, fail: Fail) -> None:
        self._waiting.append((fail, fail.times))

    def calm(self) -> None:
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

    def _take(self, method: str, chat: str | None) -> Fail | None:
        for index, (fail, left) in enumerate(self._waiting):
            if fail.method == method and fail.chat in (None, chat):
                self._waiting[index : index + 1] = [(fail, left - 1)] if left > 1 else []
                return fail
        return None

    async def _before(self, fault: Fail) -> None:
        match fault.trouble:
            case Trouble.BUSY | Trouble.BROKEN | Trouble.FORBIDDEN:
                raise self._refusal(fault)
            case Trouble.DROP_BEFORE:
                raise HangUp
            case Trouble.DELAY:
                await asyncio.sleep(fault.seconds)
            case Trouble.HANG:
                await self._hang()
            case Trouble.DROP_AFTER | Trouble.HANG_AFTER | Trouble.GARBLED:
                pass

    async def _after(self, fault: Fail) -> None:
        if fault.trouble is Trouble.DROP_AFTER:
            raise HangUp
        if fault.trouble is Trouble.GARBLED:
            raise Garble
        if fault.trouble is Trouble.HANG_AFTER:
            await self._hang()

    async def _hang(self) -> None:
        self.hanging += 1
        self._pulse.beat()
        try:
            await self._calm.wait()
        finally:
            self.hanging -= 1
            self._pulse.beat()
        raise HangUp
