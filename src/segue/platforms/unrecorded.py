"""Updates that a platform pushes: kept in order until the gateway has recorded them."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Unrecorded(Generic[T]):
    """A queue whose first update stays until it is recorded. A receiver that starts again gets it
    again."""

    def __init__(self) -> None:
        self._updates: dict[str, T] = {}
        self._changed = asyncio.Event()

    def add(self, update_id: str, update: T) -> None:
        """Add an update. An id that is there already keeps its place."""
        self._updates[update_id] = update
        self._changed.set()

    def wake(self) -> None:
        """Let `first` return although nothing was added."""
        self._changed.set()

    async def first(self) -> T | None:
        """Wait for an update, or a `wake`. Return the first update, or None if there is none."""
        if not self._updates:
            self._changed.clear()
            await self._changed.wait()
        return next(iter(self._updates.values()), None)

    def remove(self, update_id: str) -> None:
        """Remove an update that is recorded."""
        self._updates.pop(update_id, None)
