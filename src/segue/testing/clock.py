"""A clock that stands still until it is told to move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from segue.core.lease import SECOND, Ticks


class FakeClock:
    """Time of day and ticks move together, unless the time of day is set like a wrong clock."""

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
        """Time passes."""
        self._now += timedelta(seconds=seconds)
        self._ticks += int(seconds * SECOND)

    def set_wall(self, now: datetime) -> None:
        """Somebody set the clock; no time has passed."""
        self._now = now

    def restart(self) -> None:
        """The machine starts anew: ticks count from the beginning."""
        self._ticks = SECOND
        self._era = f"after {self._era}"
