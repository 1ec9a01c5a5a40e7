"""Keys with which a bot can repeat a call that may have arrived."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

T = TypeVar("T")


class Keys(Generic[T]):
    """Remembers the effect of a call under its key, for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._used: dict[object, tuple[float, T]] = {}

    def get(self, key: object) -> T | None:
        at, effect = self._used.get(key, (0.0, None))
        return effect if time.monotonic() - at < self._seconds else None

    def put(self, key: object, effect: T) -> None:
        self._used[key] = (time.monotonic(), effect)
