"""Wait for a change without polling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Pulse:
    """Counts changes and wakes the tasks that wait for one."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def beat(self) -> None:
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Return once the condition, checked after each change, holds, or when the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    await self._next.wait()
