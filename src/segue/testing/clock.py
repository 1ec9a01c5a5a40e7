"""Clocks that do not wait.

`FakeClock` moves only when a test advances it. `JumpingLoop` is an event loop whose clock jumps to
the next timer: hours of pauses, timeouts and keepalives pass in a second, in code that knows only
asyncio. It needs all parties in this process: what another process or a thread does takes no time
on this clock.
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta
from typing import Any

from segue.core.session import SECOND, Ticks

_GRACE = 0.002
"""Seconds for bytes that are on their way through a loopback connection."""


class FakeClock:
    """A manual clock: `advance` moves wall time and ticks, `set_wall` only wall time."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = now
        self._ticks = 1_000 * SECOND
        self._era = "first start"

    def now(self) -> datetime:
        return self._now

    def ticks(self) -> Ticks:
        return Ticks(self._ticks)

    def era(self) -> str:
        return self._era

    def advance(self, seconds: float) -> None:
        """Move wall time and ticks forward."""
        self._now += timedelta(seconds=seconds)
        self._ticks += int(seconds * SECOND)

    def set_wall(self, now: datetime) -> None:
        """Set the wall clock, as an administrator or NTP would. Ticks do not change."""
        self._now = now

    def restart(self) -> None:
        """Simulate a reboot: ticks start over, in a new era."""
        self._ticks = SECOND
        self._era = f"after {self._era}"


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0
        """Seconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            return super().select(None)
        found = super().select(_GRACE)
        if not found:
            self.skipped += timeout
        return found


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.skipped
