"""A clock that moves only when a test advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from segue.core.lease import SECOND, Ticks


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
