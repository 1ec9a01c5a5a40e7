"""One lane per chat: what comes in there is done in order, and chats do not wait for each other.

A lane exists while it has something to do, so that what is kept here does not grow with the number
of chats that were ever heard of.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from segue.core.address import Address

MOST_WAITING = 20
"""So many may wait in one chat before it is told to wait itself."""

T = TypeVar("T")


class Lanes(Generic[T]):
    """Does `work` on each thing that is put in, one at a time per address."""

    def __init__(self, work: Callable[[Address, T], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: dict[Address, deque[T]] = {}
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        self._open = True

    def __len__(self) -> int:
        """How many chats have something under way."""
        return len(self._tasks)

    def put(self, address: Address, item: T, *, most: int | None = MOST_WAITING) -> bool:
        """Do it after everything that was put in for that address; False when `most` wait."""
        waiting = self._waiting.setdefault(address, deque())
        if most is not None and len(waiting) >= most:
            return False
        waiting.append(item)
        if address not in self._tasks and self._open:
            self._tasks[address] = asyncio.create_task(self._drive(address), name=f"{address}")
        return True

    def waiting(self, address: Address) -> int:
        """How many wait there, the one under way not counted."""
        return len(self._waiting.get(address, ()))

    def replace(self, address: Address, change: Callable[[T], T | None]) -> bool:
        """Change the first that waits there and that `change` has another for."""
        waiting = self._waiting.get(address, deque[T]())
        for place, item in enumerate(waiting):
            if (changed := change(item)) is not None:
                waiting[place] = changed
                return True
        return False

    async def finish(self, seconds: float) -> None:
        """Begin nothing more, and wait for what is under way, for so long; then end it."""
        self._open = False
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        await self.stop()

    async def stop(self) -> None:
        self._open = False
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _drive(self, address: Address) -> None:
        waiting = self._waiting[address]
        try:
            while waiting and self._open:
                await self._work(address, waiting.popleft())
        finally:
            del self._tasks[address]
            if not waiting:
                del self._waiting[address]
