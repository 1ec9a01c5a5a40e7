"""No due time is skipped and none happens twice, however irregularly a gateway looks: each is run,
or named as missed by the run or the notice that follows."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import takewhile

from hypothesis import example, given
from hypothesis import strategies as st

from segue.jobs.schedule import Cron, Every, Schedule, upcoming
from segue.jobs.values import MISSED_LIMIT, RunNow, Skip, catch_up
from tests.core.test_schedule import BERLIN, HOUR, MINUTE, Fields, changes, local, walk

_KINDS = st.deferred(
    lambda: st.sampled_from(list({change.kind: change for change in changes()}.values()))
)
_MINUTES = st.sets(st.integers(0, 59), min_size=1, max_size=3)
_STEPS = st.sampled_from(["*", "*/2", "*/5", "*/7", "*/20"])
_PAUSES = st.lists(st.integers(1, 400).map(lambda minutes: minutes * MINUTE), max_size=12)
"""The pauses between the looks of a gateway. It was off in the long ones."""


@st.composite
def _fields(draw: st.DrawFn, hour: int) -> Fields:
    """An expression with due times around that hour."""
    minutes = ",".join(map(str, sorted(draw(_MINUTES))))
    hours = ",".join(
        str((hour + n) % 24) for n in sorted(draw(st.sets(st.integers(-3, 3), min_size=1)))
    )
    return Fields(draw(st.just(minutes) | _STEPS), draw(st.just(hours) | _STEPS))


Decided = list[tuple[datetime, RunNow | Skip]]
"""What a gateway decides at each of its looks."""


def looks(schedule: Schedule, start: datetime, pauses: list[timedelta]) -> tuple[Decided, datetime]:
    """Look after each pause, as the store does. Return what is decided, and the time at the end."""
    decided: Decided = []
    due, now = schedule.after(start), start
    for pause in pauses:
        now += pause
        if due is not None and due <= now:
            decided.append((now, catch_up(schedule, due, now)))
            due = schedule.after(decided[-1][1].due)
            assert due is None or due > now, "once for all that was missed"
    return decided, now


def check(decided: Decided, expected: list[datetime]) -> None:
    covered: list[datetime] = []
    for now, one in decided:
        covered += [due for due in expected if (one.missed_since or one.due) <= due <= one.due]
        assert isinstance(one, Skip) == (now - one.due > MISSED_LIMIT)
    assert covered == expected
    assert {one.due for _, one in decided} <= {*expected}


@given(data=st.data(), pauses=_PAUSES)
def test_of_an_expression_around_a_change_of_the_clock(
    data: st.DataObject, pauses: list[timedelta]
):
    change = data.draw(_KINDS)
    fields = data.draw(_fields(change.at.astimezone(change.zone).hour))
    start = change.at - data.draw(st.integers(0, 6)) * HOUR
    decided, end = looks(Cron(fields.text, change.zone), start, pauses)
    check(decided, walk(fields, change.zone, start, end))


@given(minutes=st.integers(1, 3000), pauses=_PAUSES)
def test_of_an_interval(minutes: int, pauses: list[timedelta]):
    since = local(2026, 3, 28, 12, 0)
    every = Every(minutes * MINUTE, since)
    decided, end = looks(every, since, pauses)
    passed = (end - since) // every.interval
    check(decided, [since + n * every.interval for n in range(1, passed + 1)])


@example(pauses=[13 * HOUR, 30 * HOUR])
@given(pauses=_PAUSES)
def test_of_a_daily_job_that_is_often_too_late(pauses: list[timedelta]):
    daily, start = Cron("30 2 * * *", BERLIN), local(2026, 10, 24, 1, 0)
    decided, end = looks(daily, start, pauses)
    check(decided, list(takewhile(end.__ge__, upcoming(daily, start))))
