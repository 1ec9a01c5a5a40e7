"""Length and rate limits of a platform."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from segue.platforms.base import Unit

_LEEWAY = 0.1
"""The fraction of an interval by which a call may be early: clocks and networks are inexact."""


def size(text: str, unit: Unit) -> int:
    """The length of `text` in the platform's unit."""
    match unit:
        case Unit.CHARACTERS:
            return len(text)
        case Unit.UTF16:
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        case Unit.BYTES:
            return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Pace:
    """One call every `seconds`, after a burst of `burst` calls."""

    what: str
    """The key of the limit: the account, a chat or a message."""
    seconds: float
    burst: int


class Meter:
    """Enforces several rate limits at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free: dict[str, float] = {}

    def wait(self, *paces: Pace) -> float:
        """Count the call and return 0 if it meets every limit, else return the seconds to wait."""
        now = self._clock()
        waits = [self._early(pace, now) for pace in paces]
        if (longest := max(waits, default=0.0)) > 0:
            return longest
        for pace in paces:
            self._free[pace.what] = max(self._free.get(pace.what, now), now) + pace.seconds
        return 0.0

    def _early(self, pace: Pace, now: float) -> float:
        ahead = max(self._free.get(pace.what, now) - now, 0.0)
        return max(ahead - pace.seconds * (pace.burst - 1 + _LEEWAY), 0.0)


class Windows:
    """Allows `limit` calls of a bucket in each window of time, which begins with the first call.

    A bucket counts separately for each chat.
    """

    def __init__(self, limit: int = 5, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._used: dict[tuple[str, str], tuple[float, int]] = {}

    def _left(self, bucket: str, chat: str) -> tuple[int, float]:
        """The calls that are left in the window, and the seconds until it ends."""
        end, used = self._used.get((bucket, chat), (0.0, 0))
        seconds = end - self._clock()
        return (self.limit - used, seconds) if seconds > 0 else (self.limit, 0.0)

    def headers(self, bucket: str, chat: str) -> dict[str, str]:
        """What is left, as headers."""
        left, seconds = self._left(bucket, chat)
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset": f"{time.time() + seconds:.3f}",
            "X-RateLimit-Reset-After": f"{seconds:.3f}",
            "X-RateLimit-Bucket": bucket,
        }

    def wait(self, bucket: str, chat: str, window: float) -> float:
        """Count the call and return 0 if the window allows it, else the seconds to wait."""
        left, seconds = self._left(bucket, chat)
        if not left:
            return seconds
        self._used[bucket, chat] = (self._clock() + (seconds or window), self.limit - left + 1)
        return 0.0
