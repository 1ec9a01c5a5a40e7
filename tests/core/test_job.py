"""Jobs: where they deliver to, and what happens about missed runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.core import provenance
from segue.core.address import Delivery, Platform
from segue.core.errors import BadDelivery, BadJob
from segue.core.provenance import Author
from segue.jobs.schedule import Cron, Every, Once, Schedule, upcoming
from segue.jobs.values import (
    DAILY_TOKENS,
    AllHomes,
    Condition,
    ConditionKind,
    Job,
    JobState,
    RunNow,
    Skip,
    When,
    as_asked,
    catch_up,
    day,
    latest,
    next_due,
    next_times,
    parse_targets,
    targets_text,
)

NOW = datetime(2026, 11, 17, 11, 27, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
DAILY = Cron("0 9 * * *", ZoneInfo("UTC"))


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def job(schedule: Schedule, *, runs: int | None = None, until: datetime | None = None) -> Job:
    return Job(
        id=1,
        owner="me",
        prompt="look",
        schedule=schedule,
        zone="UTC",
        deliver=(AllHomes(),),
        state=JobState.ENABLED,
        due=schedule.after(NOW),
        created=NOW,
        runs=runs,
        until=until,
    )


def test_a_run_that_was_missed_runs_once_for_its_due_time():
    assert catch_up(DAILY, at(17, 9), NOW) == RunNow(at(17, 9))


def test_of_several_missed_runs_only_the_last_one_runs():
    assert catch_up(DAILY, at(14, 9), NOW) == RunNow(at(17, 9), missed_since=at(14, 9))


def test_a_recurring_run_that_is_too_late_is_skipped():
    weekly = Cron("0 9 * * MON", ZoneInfo("UTC"))
    assert catch_up(weekly, at(9, 9), NOW) == Skip(at(16, 9), missed_since=at(9, 9))
    assert catch_up(DAILY, at(17, 9), NOW, limit=2 * HOUR) == Skip(at(17, 9), at(17, 9))


def test_a_reminder_runs_however_late_it_is():
    assert catch_up(Once(at(1, 9)), at(1, 9), NOW) == RunNow(at(1, 9))


def test_a_due_time_after_the_end_of_the_job_is_not_caught_up():
    decided = catch_up(DAILY, at(14, 9), NOW, until=at(16, 12), limit=30 * HOUR)
    assert decided == RunNow(at(16, 9), missed_since=at(14, 9))


def test_a_run_that_is_due_now_is_not_missed():
    assert catch_up(DAILY, at(17, 9), at(17, 9)) == RunNow(at(17, 9))


@given(
    schedule=st.sampled_from(
        [
            Every(7 * timedelta(minutes=1), at(1, 0, 3)),
            Cron("*/7 * * * *", ZoneInfo("Europe/Berlin")),
            Cron("30 2 * * *", ZoneInfo("Europe/Berlin")),
            Cron("0 9 1 * *", ZoneInfo("Asia/Kathmandu")),
        ]
    ),
    skipped=st.integers(0, 200),
    minutes=st.integers(0, 3000),
)
def test_the_latest_due_time_is_the_last_of_all(schedule: Schedule, skipped: int, minutes: int):
    due = schedule.after(at(1, 0) - skipped * HOUR)
    assert due is not None
    now = due + timedelta(minutes=minutes)
    every = [due]
    for later in upcoming(schedule, due):
        if later > now:
            break
        every.append(later)
    assert latest(schedule, due, now) == every[-1]


def test_catching_up_after_a_year_looks_at_few_due_times(monkeypatch: pytest.MonkeyPatch):
    asked = 0
    after = Cron.after

    def counted(self: Cron, moment: datetime) -> datetime | None:
        nonlocal asked
        asked += 1
        return after(self, moment)

    monkeypatch.setattr(Cron, "after", counted)
    often = Cron("* * * * *", ZoneInfo("Europe/Berlin"))
    assert catch_up(often, NOW - 365 * DAY, NOW) == RunNow(NOW, NOW - 365 * DAY)
    assert asked < 10


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("origin", (Delivery(),)),
        ("local", (Delivery(platform=Platform.LOCAL),)),
        ("telegram", (Delivery(platform=Platform.TELEGRAM),)),
        ("telegram:42", (Delivery(platform=Platform.TELEGRAM, chat_id="42"),)),
        ("all", (AllHomes(),)),
        ("origin, slack, origin", (Delivery(), Delivery(platform=Platform.SLACK))),
    ],
)
def test_targets_are_read_as_they_are_written(text: str, targets: tuple[object, ...]):
    assert parse_targets(text) == targets
    assert parse_targets(targets_text(parse_targets(text))) == targets


@pytest.mark.parametrize("text", ["", " , ", "everyone", "local:1", "telegram:", "origin:3"])
def test_other_targets_are_refused(text: str):
    with pytest.raises(BadDelivery):
        parse_targets(text)


def test_a_job_ends_after_its_last_run_and_at_its_end():
    assert next_due(job(DAILY, runs=1), NOW) == at(18, 9)
    assert next_due(job(DAILY, runs=0), NOW) is None
    assert next_due(job(DAILY, until=at(18, 9)), NOW) == at(18, 9)
    assert next_due(job(DAILY, until=at(18, 8)), NOW) is None


def due_times(job: Job) -> list[datetime]:
    return next_times(job, job.due)


def test_the_next_times_end_with_the_job():
    assert due_times(job(DAILY)) == [at(18, 9), at(19, 9), at(20, 9)]
    assert due_times(job(DAILY, runs=2)) == [at(18, 9), at(19, 9)]
    assert due_times(job(DAILY, runs=1)) == [at(18, 9)]
    assert due_times(job(DAILY, until=at(19, 9))) == [at(18, 9), at(19, 9)]
    assert due_times(job(Once(at(20, 9)))) == [at(20, 9)]


@pytest.mark.parametrize(
    ("when", "schedule"),
    [
        (When(in_minutes=20), Once(NOW + timedelta(minutes=20))),
        (When(at="2026-11-18 09:00"), Once(at(18, 8))),
        (When(at="2026-11-18T09:00+00:00"), Once(at(18, 9))),
        (When(at="12:00"), Once(at(18, 11))),
        (When(at="13:00"), Once(at(17, 12))),
        (When(every_minutes=90), Every(timedelta(minutes=90), NOW)),
        (When(cron="0 9 * * 1-5"), Cron("0 9 * * 1-5", ZoneInfo("Europe/Berlin"))),
    ],
)
def test_times_are_those_of_the_zone(when: When, schedule: Schedule):
    assert when.schedule("Europe/Berlin", NOW) == schedule


@pytest.mark.parametrize(
    ("when", "zone"),
    [
        (When(), "UTC"),
        (When(in_minutes=1, cron="* * * * *"), "UTC"),
        (When(at="tomorrow"), "UTC"),
        (When(at="27:00"), "UTC"),
        (When(every_minutes=0.5), "UTC"),
        (When(every_minutes=float("inf")), "UTC"),
        (When(in_minutes=1e12), "UTC"),
        (When(cron="daily"), "UTC"),
        (When(in_minutes=1), "Mars/Base"),
        (When(in_minutes=1), "../etc/passwd"),
        (When(in_minutes=1), ""),
    ],
)
def test_a_time_that_makes_no_sense_is_refused(when: When, zone: str):
    with pytest.raises(BadJob):
        when.schedule(zone, NOW)


# Local times that the clock skips or repeats


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-03-29 02:30", datetime(2026, 3, 29, 1, tzinfo=UTC)),  # the clock goes to 03:00
        ("2026-10-25 02:30", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # the first of the two
    ],
)
def test_a_local_time_that_does_not_exist_or_exists_twice_is_due_once(text: str, due: datetime):
    before = datetime(2026, 1, 1, tzinfo=UTC)
    assert When(at=text).schedule("Europe/Oslo", before) == Once(due)
    evening = due - timedelta(hours=6)
    assert When(at="02:30").schedule("Europe/Oslo", evening) == Once(due)


@pytest.mark.parametrize(
    ("noon", "zone", "start", "hours"),
    [
        ("2026-11-17", "UTC", "2026-11-17 00:00", 24),
        ("2026-11-17", "Asia/Kathmandu", "2026-11-16 18:15", 24),
        ("2026-03-29", "Europe/Oslo", "2026-03-28 23:00", 23),
        ("2026-10-25", "Europe/Oslo", "2026-10-24 22:00", 25),
        # Midnight does not exist: the clock goes from 23:59 to 01:00.
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04 03:00", 23),
        ("2026-11-17", "Nowhere/Land", "2026-11-17 00:00", 24),
    ],
)
def test_a_day_lasts_from_midnight_to_midnight_in_its_zone(
    noon: str, zone: str, start: str, hours: int
):
    begins = datetime.fromisoformat(f"{start}Z")
    assert day(datetime.fromisoformat(f"{noon} 12:00Z"), zone) == (begins, begins + hours * HOUR)


# Conditions and limits


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": " \n"},
        {"prompt": "x" * 8001},
        {"daily_tokens": 0},
        {"only_if": Condition(ConditionKind.COMMAND, " ")},
        {"only_if": Condition(ConditionKind.FILE, "a\0b")},
        {"only_if": Condition(ConditionKind.FILE, "x" * 2001)},
        {"only_if": Condition(ConditionKind.PAGE, "ftp://example.org")},
        {"allows": ("git status; rm -r .",)},
        {"allows": ("",)},
        {"allows": ("git status",) * 51},
    ],
)
def test_a_job_whose_values_make_no_sense_is_refused(wrong: dict[str, Any]):
    with pytest.raises(BadJob):
        replace(job(DAILY), **wrong).check()


def test_a_job_with_conditions_and_limits_is_accepted():
    page = Condition(ConditionKind.PAGE, "https://example.org/news")
    some = replace(job(DAILY), only_if=page, allows=("git pull", "send_file"), daily_tokens=1)
    some.check()
    assert (some.token_limit, job(DAILY).token_limit) == (1, DAILY_TOKENS)
    assert str(page) == "the page https://example.org/news has changed"


def test_a_condition_knows_who_wrote_what_it_sees():
    authors = {kind: Condition(kind, "x").author for kind in ConditionKind}
    assert authors == {
        ConditionKind.COMMAND: Author.COMMAND,
        ConditionKind.PAGE: Author.PAGE,
        ConditionKind.FILE: Author.FILE,
    }


def test_what_was_asked_for_does_not_depend_on_who_asked():
    daily = job(DAILY)
    asked = as_asked(replace(daily, provenance=provenance.OWNER))
    assert repr(asked) == repr(as_asked(replace(daily, provenance=provenance.STRANGER)))
