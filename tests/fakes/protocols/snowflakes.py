"""Ids that contain the time at which they were made."""

from __future__ import annotations

import time


class Snowflakes:
    """Counts the milliseconds since its epoch, itself in milliseconds since 1970."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._last = 0

    def new(self) -> int:
        self._last = max(self._last + 1, (int(time.time() * 1000) - self._epoch) << 22)
        return self._last

    def time(self, name: int) -> float:
        """The time in an id, in seconds since 1970."""
        return ((name >> 22) + self._epoch) / 1000
