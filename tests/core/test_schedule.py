"""When a job is due, on every kind of day that a clock can have.

`walk` computes the due times around a change of the clock by looking at each minute of the wall
clock. It shares nothing with the library.
"""

from __future__ import annotations

import functools
import random
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.jobs.schedule import Cron, Every, Once, upcoming

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = 7 * DAY
YEARS = (datetime(2016, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
BERLIN = ZoneInfo("Europe/Berlin")


@dataclass(frozen=True)
class Fields:
    """A cron expression, as a test reads it."""

    minute: str
    hour: str
    day: str = "*"
    month: str = "*"
    weekday: str = "*"

    @property
    def text(self) -> str:
        return f"{self.minute} {self.hour} {self.day} {self.month} {self.weekday}"

    @property
    def follows_the_clock(self) -> bool:
        return self.minute[0] == "*" or self.hour[0] == "*"

    def fits(self, wall: datetime) -> bool:
        return (
            _fits(self.minute, wall.minute)
            and _fits(self.hour, wall.hour)
            and _fits(self.day, wall.day)
            and _fits(self.month, wall.month)
            and _fits(self.weekday, wall.isoweekday() % 7)
        )


def _fits(field: str, value: int) -> bool:
    if field.startswith("*/"):
        return value % int(field[2:]) == 0
    return field == "*" or value in map(int, field.split(","))


@dataclass(frozen=True)
class Change:
    """A change of a clock, and one of the zones that had it."""

    at: datetime
    """The first minute after it."""
    before: datetime
    """What the clock showed in the last minute before it."""
    after: datetime
    zone: ZoneInfo = field(compare=False)

    @property
    def kind(self) -> tuple[object, ...]:
        """How far the clock was set, and at what time of the day."""
        return self.before.time(), self.after - self.before


@functools.cache
def changes() -> tuple[Change, ...]:
    """The changes of every clock in the world in the last ten years."""
    found: dict[Change, None] = {}
    for name in sorted(zoneinfo.available_timezones()):
        zone = ZoneInfo(name)
        week, last = YEARS
        while week < last:  # none was changed twice within a week
            if _offset(week, zone) != _offset(week + WEEK, zone):
                at = _bisect(week, week + WEEK, zone)
                shown = ((at + n * MINUTE).astimezone(zone) for n in (-1, 0))
                before, after = (local.replace(tzinfo=None) for local in shown)
                found[Change(at, before, after, zone)] = None
            week += WEEK
    return tuple(found)


def _bisect(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The first minute with the new offset."""
    old = _offset(before, zone)
    while after - before > MINUTE:
        middle = before + (after - before) // MINUTE // 2 * MINUTE
        if _offset(middle, zone) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def walk(fields: Fields, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The due times after `start` and up to `end`."""
    due: list[datetime] = []
    moment, last = start, start.astimezone(zone).replace(tzinfo=None)
    while moment < end:
        moment += MINUTE
        local = moment.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        shown = [wall]
        if not fields.follows_the_clock:
            # The minutes that the clock has skipped count as now; a repeated minute does not.
            skipped = (wall - last) // MINUTE - 1
            shown = [] if local.fold else [wall - n * MINUTE for n in range(max(0, skipped) + 1)]
        if any(map(fields.fits, shown)):
            due.append(moment)
        last = wall
    return due


def expressions(change: datetime, zone: ZoneInfo, choose: random.Random) -> Iterator[Fields]:
    """Expressions with due times close to the change."""
    hour = change.astimezone(zone).hour

    def minutes() -> str:
        return ",".join(str(choose.randrange(60)) for _ in range(choose.randint(1, 3)))

    def hours() -> str:
        return ",".join(str((hour + choose.randint(-3, 2)) % 24) for _ in range(4))

    yield Fields(minutes(), hours())
    yield Fields(f"*/{choose.randint(5, 30)}", hours())
    yield Fields(minutes(), choose.choice(("*", "*/2", "*/3")))
    yield Fields(f"*/{choose.choice((7, 11))}", "*")
    yield Fields(minutes(), hours(), weekday=",".join(str(choose.randrange(7)) for _ in range(4)))


def check(change: Change, choose: random.Random) -> None:
    zone, start, end = change.zone, change.at - 4 * HOUR, change.at + 4 * HOUR
    for fields in expressions(change.at, zone, choose):
        cron, expected = Cron(fields.text, zone), walk(fields, zone, start, end)
        got = list(takewhile(end.__ge__, upcoming(cron, start)))
        assert got == expected, (zone.key, fields.text, change.at)
        # From any moment, the next one is the same: nothing is skipped, nothing comes twice.
        for _ in range(5):
            moment = start + timedelta(seconds=choose.randrange(8 * 3600))
            later = [due for due in expected if due > moment]
            if later:
                assert cron.after(moment) == later[0], (zone.key, fields.text, moment)


def test_due_times_around_every_kind_of_change_are_those_of_the_wall_clock(seed: int):
    kinds = {change.kind: change for change in changes()}
    assert len(kinds) > 20
    for change in kinds.values():
        check(change, random.Random(f"{change.zone.key} {seed}"))


@pytest.mark.fuzz
def test_due_times_around_every_change_of_every_clock_are_those_of_the_wall_clock(seed: int):
    assert len(changes()) > 500
    for change in changes():
        check(change, random.Random(f"{change.at} {seed}"))


def local(*parts: int, fold: int = 0, zone: ZoneInfo = BERLIN) -> datetime:
    year, month, day, hour, minute = parts
    return datetime(year, month, day, hour, minute, tzinfo=zone, fold=fold).astimezone(UTC)


def following(expression: str, *start: int, number: int = 2) -> list[str]:
    due = islice(upcoming(Cron(expression, BERLIN), local(*start)), number)
    return [f"{moment.astimezone(BERLIN):%m-%d %H:%M %z}" for moment in due]


def test_a_time_that_the_clock_skips_is_due_right_after_the_gap():
    due = following("30 2 * * *", 2026, 3, 28, 12, 0)
    assert due == ["03-29 03:00 +0200", "03-30 02:30 +0200"]


def test_several_times_in_the_gap_are_due_once():
    due = following("0,20,40 2 * * *", 2026, 3, 29, 0, 0)
    assert due == ["03-29 03:00 +0200", "03-30 02:00 +0200"]


def test_a_time_that_the_clock_repeats_is_due_once():
    due = following("30 2 * * *", 2026, 10, 24, 12, 0)
    assert due == ["10-25 02:30 +0200", "10-26 02:30 +0100"]


def test_in_the_repeated_hour_a_time_of_its_first_pass_is_over():
    again = local(2026, 10, 25, 2, 10, fold=1)
    due = Cron("30 2 * * *", BERLIN).after(again)
    assert due == local(2026, 10, 26, 2, 30)


def test_an_expression_for_every_hour_is_due_in_both_passes_of_the_repeated_one():
    due = following("30 * * * *", 2026, 10, 25, 1, 45, number=3)
    assert due == ["10-25 02:30 +0200", "10-25 02:30 +0100", "10-25 03:30 +0100"]


def test_a_clock_that_skips_half_an_hour_hides_no_due_time():
    pyongyang = ZoneInfo("Asia/Pyongyang")  # 2018-05-04 23:30 became 2018-05-05 00:00
    before = local(2018, 5, 4, 23, 10, zone=pyongyang)
    due = Cron("*/23 22,0 * * *", pyongyang).after(before)
    assert due == local(2018, 5, 5, 0, 0, zone=pyongyang)


def test_a_leap_day_is_due_in_leap_years_only():
    due = islice(upcoming(Cron("0 9 29 2 *", BERLIN), local(2025, 1, 1, 0, 0)), 2)
    assert list(due) == [local(2028, 2, 29, 9, 0), local(2032, 2, 29, 9, 0)]


def test_the_last_day_of_february_is_due_every_year():
    due = islice(upcoming(Cron("0 9 L 2 *", BERLIN), local(2027, 1, 1, 0, 0)), 2)
    assert list(due) == [local(2027, 2, 28, 9, 0), local(2028, 2, 29, 9, 0)]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "0 0 30 2 *",
        "0 0 * * noon",
        "@daily",
        "0 0 LW * */7",
    ],
)
def test_an_expression_that_is_never_due_is_refused(expression: str):
    with pytest.raises(ValueError, match="cron expression"):
        Cron(expression, BERLIN)


def test_once_is_due_once():
    at = local(2026, 1, 1, 9, 0)
    assert list(upcoming(Once(at), at - HOUR)) == [at]
    assert list(upcoming(Once(at), at)) == []


def test_an_interval_ignores_daylight_saving():
    since = local(2026, 3, 28, 9, 0)
    due = list(islice(upcoming(Every(DAY, since), since), 2))
    assert [moment.astimezone(BERLIN).hour for moment in due] == [10, 10]


@given(
    minutes=st.integers(1, 366 * 24 * 60),
    seconds=st.integers(-1_000_000, 400_000_000),
)
def test_the_next_time_of_an_interval_is_a_multiple_of_it_and_at_most_one_interval_away(
    minutes: int, seconds: int
):
    since = local(2026, 1, 1, 9, 0)
    every, moment = Every(minutes * MINUTE, since), since + timedelta(seconds=seconds)
    due = every.after(moment)
    assert due > moment
    assert (due - since) % every.interval == timedelta(0)
    assert due - max(moment, since) <= every.interval


@pytest.mark.parametrize("interval", [timedelta(seconds=59), timedelta(days=367), -DAY])
def test_an_interval_is_from_a_minute_to_a_year(interval: timedelta):
    with pytest.raises(ValueError, match="interval"):
        Every(interval, YEARS[0])
