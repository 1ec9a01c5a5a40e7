"""When a job is due: once, at an interval, or by a cron expression.

Due times are instants in UTC. An interval adds in UTC, so it ignores daylight saving. A cron
expression lives on the wall clock of its zone, as in Debian's cron:

- If its minute or its hour starts with `*`, it follows the clock. Times that the clock skips are
  not due, and times that it repeats are due twice.
- Otherwise it names times of the day. A time that the clock skips is due right after the gap, and a
  time that it repeats is due the first time only.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Struct

SHORTEST = timedelta(minutes=1)
"""The shortest interval."""
LONGEST = timedelta(days=366)

_NONE = timedelta()
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_A_LEAP_YEAR = datetime(2000, 1, 1)  # noqa: DTZ001 - on the wall clock of no zone


class Once(Struct, frozen=True):
    """Due at one moment."""

    at: datetime

    def after(self, moment: datetime) -> datetime | None:
        """The next due time later than `moment`, or None if there is none."""
        return self.at if self.at > moment else None


class Every(Struct, frozen=True):
    """Due at an interval, counted from a moment that is not due itself."""

    interval: timedelta
    since: datetime

    def __post_init__(self) -> None:
        if not SHORTEST <= self.interval <= LONGEST:
            raise ValueError("an interval must be from 1 minute to 366 days")

    def after(self, moment: datetime) -> datetime:
        passed = max(0, (moment - self.since) // self.interval)
        return self.since + (passed + 1) * self.interval


class Cron(Struct, frozen=True):
    """Due by a cron expression with five fields, on the wall clock of a zone."""

    expression: str
    zone: ZoneInfo

    def __post_init__(self) -> None:
        if len(self.expression.split()) != 5:
            raise ValueError("a cron expression has five fields: minute hour day month weekday")
        from cronsim import CronSimError  # noqa: PLC0415

        try:
            never = next(_matches(self.expression, _A_LEAP_YEAR), None) is None
        except CronSimError as error:
            raise ValueError(f"that is not a cron expression: {error}") from error
        if never:
            raise ValueError("that cron expression is never due")

    def after(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone)
        start = local.replace(tzinfo=None, fold=0)
        if self._follows_the_clock:
            # The clock is about to be set back: it will show these times again.
            start -= max(_offset(local) - _offset((moment + _DAY).astimezone(self.zone)), _NONE)
        found: list[datetime] = []
        # The library knows no zone here: it goes wrong where a clock changes by half an hour.
        for wall in _matches(self.expression, start):
            instants = self._instants(wall)
            found += (instant for instant in instants if instant > moment)
            if instants and instants[0] > moment:  # the first passes of later ones are later still
                return min(found)
        return min(found, default=None)

    @property
    def _follows_the_clock(self) -> bool:
        minute, hour, *_ = self.expression.split()
        return minute.startswith("*") or hour.startswith("*")

    def _instants(self, wall: datetime) -> list[datetime]:
        """When the expression is due for a time on the wall clock."""
        if not self._follows_the_clock:
            return [on_clock(wall, self.zone)]
        passes = (wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        return [instant for instant in dict.fromkeys(passes) if _shows(instant, self.zone) == wall]


def _matches(expression: str, start: datetime) -> Iterator[datetime]:
    """The times on the wall clock after `start` that match the expression."""
    # Only who has a cron expression needs the library.
    from cronsim import CronSim  # noqa: PLC0415

    return CronSim(expression, start)


def on_clock(wall: datetime, zone: tzinfo) -> datetime:
    """The instant at which the clock of `zone` shows `wall` for the first time, or the end of the
    gap if it skips that time."""
    while True:
        instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if _shows(instant, zone) == wall:
            return instant
        wall = wall.replace(second=0, microsecond=0) + _MINUTE


def _shows(instant: datetime, zone: tzinfo) -> datetime:
    """The time that the clock of `zone` shows."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(local: datetime) -> timedelta:
    return local.utcoffset() or _NONE


Schedule: TypeAlias = Once | Every | Cron


def upcoming(schedule: Schedule, moment: datetime) -> Iterator[datetime]:
    """The due times later than `moment`, in order."""
    due = schedule.after(moment)
    while due is not None:
        yield due
        due = schedule.after(due)
