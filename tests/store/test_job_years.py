"""Ten years of a job, on a clock that obeys."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from segue.jobs.queries import jobs, runs
from segue.jobs.schedule import Cron
from segue.jobs.values import NewJob, RunState, parse_targets
from segue.store import Store
from segue.testing.clock import FakeClock

FIRST, LAST = date(2016, 1, 1), date(2026, 1, 1)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def shown(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def first_time(day: date, hour: int, minute: int, zone: ZoneInfo) -> datetime:
    """The first moment of that day at which its clock shows this time, or a later one because it
    skips it."""
    wanted = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - a wall clock
    moment = wanted.replace(tzinfo=UTC) - timedelta(hours=15)
    while shown(moment, zone) < wanted:
        moment += MINUTE
    return moment


def sundays(months: Collection[int]) -> Iterator[date]:
    day = FIRST
    while day < LAST:
        if day.month in months and day.isoweekday() == 7:
            yield day
        day += DAY


# Around these times, the clock is changed on a Sunday of these months.
@pytest.mark.parametrize(
    ("hour", "minute", "months", "name"),
    [
        (2, 30, (3, 10), "Europe/Berlin"),
        (2, 10, (3, 11), "America/New_York"),
        (2, 15, (4, 10), "Australia/Lord_Howe"),
        (0, 20, (3, 10), "Asia/Beirut"),
    ],
)
async def test_in_ten_years_each_due_time_has_one_run(
    store: Store, clock: FakeClock, hour: int, minute: int, months: tuple[int, ...], name: str
):
    zone, chance = ZoneInfo(name), random.Random(name)
    start = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=zone).astimezone(UTC)
    clock.set_wall(start)
    new = NewJob(
        prompt="Look outside.",
        schedule=Cron(f"{minute} {hour} * {months[0]},{months[1]} 0", zone),
        zone=name,
        deliver=parse_targets("local"),
        until=datetime(LAST.year, LAST.month, LAST.day, tzinfo=zone),
    )
    job = await jobs.create(store, "me", new)
    ran: list[datetime] = []
    while (left := await jobs.next_wake(store)) is not None:
        clock.advance(left.total_seconds() - 0.001)
        assert await runs.claim(store) is None, "too early"
        clock.advance(0.001 + chance.choice((0, 0, chance.randrange(11 * 3600))))
        claim = await runs.claim(store)
        assert claim is not None
        assert claim.run.missed_since is None
        await runs.finish(store, claim, None)
        ran.append(claim.run.due)
    assert ran == [first_time(day, hour, minute, zone) for day in sundays(months)]
    newest = await runs.history(store, job.id, limit=1000)
    assert [run.due for run, _ in newest][::-1] == ran[-len(newest) :]
    assert {run.state for run, _ in newest} == {RunState.SILENT}
