"""Updates that a platform pushes: kept in order until the gateway has recorded them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def timestamp(self) -> float:
        """When its user sent it, as the platform says."""
        ...


U = TypeVar("U", bound=Timed)


@dataclass(slots=True)
class _Unanswered(Generic[U]):
    update: U
    number: int
    """The order of arrival."""
    since: float
    recorded: asyncio.Future[None]


class Deliveries(Generic[U]):
    """The updates of webhook requests, which overtake each other, in the order of their times.

    A request is answered when its updates are recorded, so the platform delivers again what is lost
    here. An update waits some seconds for an earlier one that is delivered after it.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._waiting: dict[str, _Unanswered[U]] = {}
        self._count = 0
        self._changed = asyncio.Event()

    async def record(self, updates: Iterable[U]) -> bool:
        """Add updates, and return True when all are recorded, or False if they were dropped. One
        that was delivered twice is one."""
        futures = [self._add(update) for update in updates]
        self._changed.set()
        if futures:
            await asyncio.wait(futures)
        return not any(future.cancelled() for future in futures)

    def _add(self, update: U) -> asyncio.Future[None]:
        if (known := self._waiting.get(update.id)) is None:
            self._count += 1
            done = asyncio.get_running_loop().create_future()
            known = _Unanswered(update, self._count, self._clock(), done)
            self._waiting[update.id] = known
        return known.recorded

    async def first(self, seconds: float | None = None) -> U | None:
        """The earliest update, once its time to wait is over. None if something changed, or after
        `seconds` without an update."""
        while True:
            self._changed.clear()
            # Times may be whole seconds. Within one, the order of arrival is the best guess.
            earliest = min(
                self._waiting.values(),
                key=lambda it: (it.update.timestamp, it.number),
                default=None,
            )
            left = seconds
            if earliest is not None:
                left = earliest.since + self.seconds - self._clock()
                if left <= 0:
                    return earliest.update
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
                    return None
            if earliest is None:
                return None

    async def each(
        self, check: Callable[[], Awaitable[object]], seconds: float
    ) -> AsyncGenerator[U | None]:
        """Yield the updates. One is recorded when the next is asked for. None if there is none yet.
        `check` is called every `seconds`: no connection says that the platform is out of reach."""
        checked = self._clock()
        while True:
            if (left := checked + seconds - self._clock()) <= 0:
                await check()
                checked = self._clock()
                continue
            update = await self.first(left)
            yield update
            if update is not None:
                self.recorded(update)

    def recorded(self, update: U) -> None:
        if (done := self._waiting.pop(update.id, None)) is not None:
            done.recorded.set_result(None)

    def drop(self) -> None:
        """Forget all updates. Their requests fail, so the platform delivers them again."""
        for waiting in self._waiting.values():
            waiting.recorded.cancel()
        self._waiting.clear()
        self._changed.set()
