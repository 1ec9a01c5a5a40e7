"""The updates waiting for the bot, however it gets them, and the pulse that wakes who waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace


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


Make = Callable[[int], str]
"""Returns an update's text on the wire, given its number."""


@dataclass(frozen=True, slots=True)
class Update:
    number: int
    frame: str
    """Its text on the wire."""
    once: bool = False
    """Deliver it once, regardless of confirmation."""


class Updates:
    """A queue of numbered updates. Each is delivered until the bot confirms it."""

    def __init__(self, pulse: Pulse, first: int = 0) -> None:
        self._pulse = pulse
        self._all: list[Update] = []
        self._held: list[Make] | None = None
        self._poll = 0
        """The number of the newest poll. Only one runs at a time."""
        self.next = first
        """The number of the next update."""
        self.waiting: list[Update] = []

    # The test

    def add(self, make: Make) -> None:
        """Queue an update, or hold it back."""
        if self._held is not None:
            self._held.append(make)
            return
        self._all.append(Update(self.next, make(self.next)))
        self.waiting.append(self._all[-1])
        self.next += 1
        self._pulse.beat()

    def inject(self, frame: str) -> None:
        """Queue this frame without checking it."""
        self.add(lambda _: frame)

    def last(self, count: int) -> Sequence[Update]:
        return self._all[len(self._all) - count :]

    def repeat_numbers(self, last: int) -> None:
        """Deliver the last updates once more, under the same numbers."""
        self.waiting += (replace(update, once=True) for update in self.last(last))

    def repeat(self, last: int) -> None:
        """Deliver the last updates again, confirmed or not."""
        for update in self.last(last):
            self.inject(update.frame)

    def hold(self) -> None:
        self._held = self._held or []

    def release(self, *, backwards: bool) -> None:
        held = self._held or []
        self._held = None
        for make in reversed(held) if backwards else held:
            self.add(make)

    # The bot

    def confirm(self, before: int) -> None:
        """Remove the updates with smaller numbers. They are not delivered again."""
        self.waiting = [it for it in self.waiting if it.once or it.number >= before]

    async def poll(self, limit: int, seconds: float) -> list[Update] | None:
        """Return the waiting updates, or wait for one. None if a newer poll ended this one."""
        self._poll += 1
        mine = self._poll
        self._pulse.beat()
        await self._pulse.until(lambda: bool(self.waiting) or self._poll != mine, seconds)
        if self._poll != mine:
            return None
        batch = self.waiting[:limit]
        self.waiting = [*(it for it in batch if not it.once), *self.waiting[limit:]]
        return batch
