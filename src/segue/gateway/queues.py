"""One queue per chat: items are handled in order, and chats do not wait for each other. A queue
exists only while it has work, so memory does not grow with the number of chats."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from segue.core.address import Address, Platform
from segue.gateway.containment import cancel, finish

MAX_WAITING = 20
"""Limit of waiting items per chat. Beyond it, the user is asked to wait."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    """The queue of one chat."""

    address: Address
    waiting: deque[T] = field(default_factory=deque)
    driver: asyncio.Task[None] | None = None


class Queues(Generic[T]):
    """Calls `work` for each item, one at a time per address."""

    def __init__(self, work: Callable[[T], Awaitable[None]]) -> None:
        self._work = work
        self._queues: dict[Address, _Queue[T]] = {}
        self._open = True

    def put(
        self,
        address: Address,
        item: T,
        *,
        most: int | None = MAX_WAITING,
        after: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Queue an item for that address. Return False if `most` items are already waiting. If
        nothing is being handled there, the item is, once `after` returns."""
        queue = self._queues.setdefault(address, _Queue(address))
        if most is not None and len(queue.waiting) >= most:
            return False
        queue.waiting.append(item)
        if queue.driver is None and self._open:
            queue.driver = asyncio.create_task(self._drive(queue, after), name=f"{address}")
        return True

    def addresses(self, chat: Address) -> list[Address]:
        """The chat and its threads, as far as they have a queue."""
        of_chat = (chat.platform, chat.chat_id)
        return [it for it in self._queues if (it.platform, it.chat_id) == of_chat]

    def find(self, address: Address, wanted: Callable[[T], bool]) -> T | None:
        """The first waiting item that matches, or None."""
        return next(filter(wanted, self._waiting(address)), None)

    def take(self, address: Address, wanted: Callable[[T], bool]) -> T | None:
        """Remove the first waiting item that matches, and return it, or None."""
        if (found := self.find(address, wanted)) is not None:
            self._waiting(address).remove(found)
        return found

    def replace(self, address: Address, item: T, other: T) -> bool:
        """Replace a waiting item. Return False if it is no longer waiting."""
        waiting = self._waiting(address)
        if item not in waiting:
            return False
        waiting[waiting.index(item)] = other
        return True

    def move(self, old: Address, new: Address, changed: Callable[[T], T]) -> None:
        """Move the queue from `old` to `new`, so that its items come before later ones at `new`.
        Waiting items are passed through `changed`."""
        if old not in self._queues:
            return
        waiting = self._queues[old].waiting
        moved = [changed(item) for item in waiting]
        waiting.clear()
        if new in self._queues:
            self._queues[new].waiting.extendleft(reversed(moved))
            return
        queue = self._queues[new] = self._queues.pop(old)
        queue.address = new
        queue.waiting.extend(moved)

    def cancel(self, address: Address) -> None:
        """Cancel the running work at that address."""
        queue = self._queues.get(address)
        if queue is not None and queue.driver is not None:
            queue.driver.cancel()

    async def drop(self, platform: Platform) -> None:
        """Discard waiting items on that platform, and cancel running work there."""
        queues = [queue for queue in self._queues.values() if queue.address.platform is platform]
        for queue in queues:
            queue.waiting.clear()
        await cancel(*(queue.driver for queue in queues if queue.driver is not None))

    async def finish(self, seconds: float) -> None:
        """Start nothing new, wait up to `seconds` for running work, then cancel it."""
        self._open = False
        await finish([q.driver for q in self._queues.values() if q.driver is not None], seconds)

    def _waiting(self, address: Address) -> deque[T]:
        return self._queues[address].waiting if address in self._queues else deque()

    async def _drive(self, queue: _Queue[T], after: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if after is not None:
                await after()
            while queue.waiting and self._open:
                await self._work(queue.waiting.popleft())
        finally:
            queue.driver = None
            if not queue.waiting:
                del self._queues[queue.address]
