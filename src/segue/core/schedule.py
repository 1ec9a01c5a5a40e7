"""When a job is due: once, at an interval, or by a cron expression.

Due times are instants in UTC. An interval adds in UTC, so it ignores daylight saving. A cron
expression lives on the wall clock of its zone: a time that the clock skips is due right after the
gap, and a time that the clock repeats is due the first time only, unless the expression fits every
hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

SHORTEST = timedelta(minutes=1)
"""The shortest interval."""
LONGEST = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Once:
    """Due at one moment."""

    at: datetime

    def after(self, moment: datetime) -> datetime | None:
        """The next due time later than `moment`, or None if there is none."""
        return self.at if self.at > moment else None


@dataclass(frozen=True, slots=True)
class Every:
    """Due at an interval, counted from a moment that is not due itself."""

    interval: timedelta
    since: datetime

    def __post_init__(self) -> None:
        if not SHORTEST <= self.interval <= LONGEST:
            raise ValueError("an interval must be from 1 minute to 366 days")

    def after(self, moment: datetime) -> datetime:
        passed = max(0, (moment - self.since) // self.interval)
        return self.since + (passed + 1) * self.interval


@dataclass(frozen=True, slots=True)
class Cron:
    """Due by a cron expression with five fields, on the wall clock of a zone."""

    expression: str
    zone: ZoneInfo

    def __post_init__(self) -> None:
        if len(self.expression.split()) != 5:
            raise ValueError("a cron expression has five fields: minute hour day month weekday")
        try:
            CronSim(self.expression, datetime(2000, 1, 1))  # noqa: DTZ001
        except CronSimError as error:
            raise ValueError(f"that is not a cron expression: {error}") from error

    def after(self, moment: datetime) -> datetime | None:
        for found in CronSim(self.expression, moment.astimezone(self.zone)):
            due = found.astimezone(UTC)
            # In an hour that the clock repeats, the library may start again from its beginning.
            if due > moment:
                return due
        return None


Schedule: TypeAlias = Once | Every | Cron


def upcoming(schedule: Schedule, moment: datetime) -> Iterator[datetime]:
    """The due times later than `moment`, in order."""
    due = schedule.after(moment)
    while due is not None:
        yield due
        due = schedule.after(due)
