"""When the session of a chat is reset, on every kind of day that a clock can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from segue.core.address import Address, ChatType, Platform
from segue.core.reset import ResetMode, ResetPolicies, ResetPolicy
from segue.core.session import EndReason

HOUR = timedelta(hours=1)
QUARTER = timedelta(minutes=15)
# Changes of an hour, half an hour and two hours, at midnight, before it and after it, and none.
ZONES = (
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Chatham",
    "UTC",
)


def daily(hour: int) -> ResetPolicy:
    return ResetPolicy(mode=ResetMode.DAILY, hour=hour)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def expires(policy: ResetPolicy, *, active: datetime, zone: tzinfo) -> datetime | None:
    end = policy.end(active=active, zone=zone)
    return end and end[0]


def ends(policy: ResetPolicy, active: str, there: tzinfo) -> str:
    """When a session that was last active at `active` ends; both in UTC, to the minute."""
    end = expires(policy, active=utc(active), zone=there)
    assert end is not None
    return f"{end:%Y-%m-%d %H:%M}"


def wall(moment: datetime, there: tzinfo) -> datetime:
    """The local wall time."""
    return moment.astimezone(there).replace(tzinfo=None)


def reset_day(moment: datetime, hour: int, there: tzinfo) -> date:
    """The local day to whose reset `moment` belongs: a day that starts at the reset hour."""
    return (wall(moment, there) - hour * HOUR).date()


def moments(first: int = 1990, last: int = 2037) -> st.SearchStrategy[datetime]:
    seconds = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first, last))
    return st.integers(*seconds).map(lambda second: datetime.fromtimestamp(second, UTC))


# Idle


def test_a_session_ends_exactly_at_the_end_of_its_idle_time():
    policy = ResetPolicy(mode=ResetMode.IDLE, idle=timedelta(minutes=90))
    active = utc("2026-03-01 23:00")
    for now, reason in (("00:29:59", None), ("00:30", EndReason.IDLE), ("23:00", EndReason.IDLE)):
        there = utc(f"2026-03-02 {now}")
        assert policy.expired(active=active, now=there, zone=UTC) is reason


def test_idle_time_is_real_time_even_when_the_wall_clock_jumps():
    policy = ResetPolicy(mode=ResetMode.IDLE, idle=2 * HOUR)
    berlin = ZoneInfo("Europe/Berlin")
    local = datetime(2026, 3, 29, 1, 30, tzinfo=berlin)  # half an hour before it shows 3:00
    assert expires(policy, active=local, zone=berlin) == utc("2026-03-29 02:30")
    assert f"{expires(policy, active=local, zone=berlin):%Z}" == "UTC"


# Daily


def test_a_daily_reset_happens_exactly_at_its_hour():
    active = utc("2026-03-01 23:59")
    for now, reason in (
        ("2026-03-02 03:59:59.999999", None),
        ("2026-03-02 04:00", EndReason.DAILY),
        ("2026-03-05 00:00", EndReason.DAILY),
    ):
        assert daily(4).expired(active=active, now=utc(now), zone=UTC) is reason


def test_a_session_active_exactly_at_the_hour_lasts_until_the_next_day():
    assert ends(daily(4), "2026-03-02 04:00", UTC) == "2026-03-03 04:00"


def test_midnight_does_not_end_a_session():
    now = utc("2026-03-02 00:01")
    assert daily(4).expired(active=utc("2026-03-01 23:59"), now=now, zone=UTC) is None


def test_a_reset_at_hour_0_happens_at_midnight():
    assert ends(daily(0), "2026-12-31 23:59", UTC) == "2027-01-01 00:00"


def test_the_hour_is_in_the_configured_time_zone():
    kathmandu = ZoneInfo("Asia/Kathmandu")  # 5:45 ahead
    assert ends(daily(4), "2026-03-01 22:14", kathmandu) == "2026-03-01 22:15"
    assert ends(daily(4), "2026-03-01 22:15", kathmandu) == "2026-03-02 22:15"


@pytest.mark.parametrize(
    ("name", "hour", "active", "end"),
    [
        # 2:00 is skipped: the clock goes from 1:59 to 3:00.
        ("Europe/Berlin", 2, "2026-03-28 12:00", "2026-03-29 01:00"),
        ("Europe/Berlin", 3, "2026-03-28 12:00", "2026-03-29 01:00"),
        ("America/New_York", 2, "2026-03-07 12:00", "2026-03-08 07:00"),
        # 2:00 happens twice: the first time counts.
        ("Europe/Berlin", 2, "2026-10-24 12:00", "2026-10-25 00:00"),
        ("Europe/Berlin", 2, "2026-10-25 00:00", "2026-10-26 01:00"),
        ("Europe/Berlin", 2, "2026-10-25 00:59", "2026-10-26 01:00"),
        ("America/New_York", 1, "2026-11-01 05:30", "2026-11-02 06:00"),
        # Half an hour: from 1:59 to 2:30 in October, from 1:59 back to 1:30 in April.
        ("Australia/Lord_Howe", 2, "2026-10-03 12:00", "2026-10-03 15:30"),
        ("Australia/Lord_Howe", 2, "2026-10-03 15:30", "2026-10-04 15:00"),
        ("Australia/Lord_Howe", 2, "2026-04-04 14:50", "2026-04-04 15:30"),
        ("Australia/Lord_Howe", 1, "2026-04-04 14:50", "2026-04-05 14:30"),
        # Within the skipped time: from 2:44 to 3:45, so 3:00 would have been at 4:00.
        ("Pacific/Chatham", 3, "2026-09-26 12:00", "2026-09-26 14:15"),
        # Two hours: from 0:59 to 3:00, so 2:00 would have been at 4:00.
        ("Antarctica/Troll", 2, "2026-03-28 12:00", "2026-03-29 02:00"),
        ("Antarctica/Troll", 2, "2026-10-24 12:00", "2026-10-25 00:00"),
        ("Antarctica/Troll", 2, "2026-10-25 01:30", "2026-10-26 02:00"),
        # There is no midnight: the day starts at 1:00.
        ("America/Sao_Paulo", 0, "2018-11-03 12:00", "2018-11-04 03:00"),
        # There is no 23:00: the reset happens at the very end of the day.
        ("Asia/Dhaka", 23, "2009-06-19 12:00", "2009-06-19 17:00"),
        ("Asia/Dhaka", 23, "2009-06-19 17:00", "2009-06-20 16:00"),
        # The clock goes back over midnight, from 0:00:59 to 23:01 of the day before.
        ("America/St_Johns", 0, "2010-11-07 02:00", "2010-11-07 02:30"),
        ("America/St_Johns", 0, "2010-11-07 02:45", "2010-11-08 03:30"),
        # The 30th of December did not exist.
        ("Pacific/Apia", 4, "2011-12-30 00:00", "2011-12-30 14:00"),
        ("Pacific/Apia", 4, "2011-12-30 14:00", "2011-12-31 14:00"),
    ],
)
def test_a_daily_reset_happens_on_days_with_a_clock_change(
    name: str, hour: int, active: str, end: str
):
    assert ends(daily(hour), active, ZoneInfo(name)) == end


def changes(there: tzinfo, year: int) -> list[datetime]:
    """The days (UTC) of `year` on which the local clock is changed."""
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(366)]
    offsets = [day.astimezone(there).utcoffset() for day in days]
    return [days[n] for n in range(365) if offsets[n] != offsets[n + 1]]


def seen_resets(start: datetime, end: datetime, hour: int, there: tzinfo) -> Iterator[datetime]:
    """The resets in between, found by checking the wall clock every quarter of an hour."""
    last = reset_day(start, hour, there)
    for step in range(1, (end - start) // QUARTER + 1):
        now = start + step * QUARTER
        if (today := reset_day(now, hour, there)) > last:
            last = today
            due = datetime.combine(today, time(hour))
            unchanged = wall(now - QUARTER, there) + QUARTER
            # If the clock skips the hour, the remaining time until it still passes.
            yield now if wall(now, there) == due else now + (due - unchanged)


@pytest.mark.parametrize("name", ZONES)
def test_every_day_around_a_clock_change_has_one_reset(name: str):
    there = ZoneInfo(name)
    for change in changes(there, 2026):
        start, end = change - timedelta(days=2), change + timedelta(days=3)
        for hour in range(24):
            expected = list(seen_resets(start, end, hour, there))
            found = [start]
            while (at := expires(daily(hour), active=found[-1], zone=there)) and at <= end:
                found.append(at)
            assert found[1:] == expected


def resets_of_a_year(hour: int, start: datetime, there: tzinfo) -> Iterator[datetime]:
    """The resets of a chat that is used every hour, all year."""
    policy = daily(hour)
    for hours in range(365 * 24):
        active = start + hours * HOUR
        if policy.expired(active=active, now=active + HOUR, zone=there):
            yield expires(policy, active=active, zone=there) or active


@settings(max_examples=6)
@given(
    st.sampled_from(ZONES),
    st.integers(min_value=0, max_value=23),
    moments(2024, 2030),
)
@example("Australia/Lord_Howe", 2, utc("2026-01-01 00:17"))
@example("Asia/Dhaka", 23, utc("2009-01-01 00:30"))
@example("Antarctica/Troll", 2, utc("2026-01-01 00:00"))
@example("Pacific/Apia", 4, utc("2011-06-01 00:30"))
@example("America/St_Johns", 0, utc("2010-01-01 00:15"))
def test_a_year_has_one_reset_on_every_local_day(name: str, hour: int, start: datetime):
    there = ZoneInfo(name)
    resets = resets_of_a_year(hour, start, there)
    per_day = Counter(reset_day(moment, hour, there) for moment in resets)
    assert set(per_day.values()) == {1}
    first, last = reset_day(start, hour, there), max(per_day)
    days = {first + timedelta(days=n + 1) for n in range((last - first).days)}
    missing = days - set(per_day)
    assert missing == ({date(2011, 12, 30)} if name == "Pacific/Apia" else set())
    assert last >= first + timedelta(days=363)


# Every policy

spans = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=4))
policies = st.builds(
    ResetPolicy,
    mode=st.sampled_from(ResetMode),
    idle=st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=3)),
    hour=st.integers(min_value=0, max_value=23),
)
zones: st.SearchStrategy[tzinfo] = st.sampled_from(ZONES).map(ZoneInfo) | st.integers(
    min_value=-1439, max_value=1439
).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(policies, moments(), spans, zones)
def test_a_session_has_expired_exactly_from_its_end_on(
    policy: ResetPolicy, active: datetime, span: timedelta, there: tzinfo
):
    end = expires(policy, active=active, zone=there)
    reason = policy.expired(active=active, now=active + span, zone=there)
    assert (reason is not None) == (end is not None and end <= active + span)


@given(policies, moments(), spans, zones)
def test_a_clock_that_jumps_back_does_not_end_a_session(
    policy: ResetPolicy, active: datetime, span: timedelta, there: tzinfo
):
    assert policy.expired(active=active, now=active - span, zone=there) is None


@given(policies, moments(), spans, zones)
def test_the_end_reason_does_not_depend_on_when_it_is_read(
    policy: ResetPolicy, active: datetime, span: timedelta, there: tzinfo
):
    if (end := expires(policy, active=active, zone=there)) is None:
        return
    at_once = policy.expired(active=active, now=end, zone=there)
    assert at_once is not None
    assert policy.expired(active=active, now=end + span, zone=there) is at_once


@given(moments(), zones, st.integers(min_value=0, max_value=23))
def test_the_next_reset_is_at_most_two_days_away(active: datetime, there: tzinfo, hour: int):
    end = expires(daily(hour), active=active, zone=there)
    assert end is not None
    assert active < end <= active + timedelta(days=2)


@given(moments(), zones, spans)
def test_without_a_policy_no_session_ends(active: datetime, there: tzinfo, span: timedelta):
    assert expires(ResetPolicy(), active=active, zone=there) is None
    assert ResetPolicy().expired(active=active, now=active + span, zone=there) is None


@pytest.mark.parametrize(
    ("active", "end", "reason"),
    [
        ("2026-03-01 00:00", "2026-03-01 03:00", EndReason.IDLE),
        ("2026-03-01 02:00", "2026-03-01 04:00", EndReason.DAILY),
        ("2026-03-01 01:00", "2026-03-01 04:00", EndReason.DAILY),  # both at the same instant
    ],
)
def test_with_both_policies_the_earlier_reset_ends_the_session(
    active: str, end: str, reason: EndReason
):
    policy = ResetPolicy(mode=ResetMode.BOTH, idle=3 * HOUR, hour=4)
    assert ends(policy, active, UTC) == end
    assert policy.expired(active=utc(active), now=utc("2026-04-01"), zone=UTC) is reason


@pytest.mark.parametrize("mode", ResetMode)
@pytest.mark.parametrize(
    "idle", [timedelta(0), timedelta(seconds=-1), timedelta.max, timedelta(days=36_501)]
)
def test_an_invalid_idle_time_is_refused(mode: ResetMode, idle: timedelta):
    with pytest.raises(ValueError, match="idle time"):
        ResetPolicy(mode=mode, idle=idle)


@pytest.mark.parametrize("hour", [-1, 24])
def test_an_invalid_hour_is_refused(hour: int):
    with pytest.raises(ValueError, match="hour"):
        daily(hour)


# Precedence of policies


def test_the_most_specific_policy_applies():
    exact, platform, chat_type, default = (daily(hour) for hour in range(4))
    policies = ResetPolicies(
        default=default,
        overrides={
            (None, ChatType.GROUP): chat_type,
            (None, ChatType.DM): chat_type,
            (Platform.TELEGRAM, None): platform,
            (Platform.TELEGRAM, ChatType.GROUP): exact,
        },
    )

    def holds(there: Platform, kind: ChatType) -> ResetPolicy:
        return policies.for_address(Address(platform=there, chat_type=kind, chat_id="1"))

    assert holds(Platform.TELEGRAM, ChatType.GROUP) is exact
    assert holds(Platform.TELEGRAM, ChatType.DM) is platform
    assert holds(Platform.SLACK, ChatType.GROUP) is chat_type
    assert holds(Platform.SLACK, ChatType.CHANNEL) is default


def test_by_default_no_chat_is_ever_reset():
    there = Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id="1")
    assert ResetPolicies().for_address(there).mode is ResetMode.NONE


def test_an_override_for_every_chat_is_refused():
    with pytest.raises(ValueError, match="default"):
        ResetPolicies(overrides={(None, None): daily(4)})


# Searching for expired sessions


@given(
    moments(),
    st.integers(0, 3 * 24 * 3600),
    st.sampled_from(list(ResetMode)),
    st.integers(0, 23),
    st.integers(1, 72),
    st.sampled_from(ZONES),
)
@settings(max_examples=150)
def test_a_session_active_after_the_last_reset_has_not_ended(
    now: datetime, ago: int, mode: ResetMode, hour: int, idle: int, name: str
):
    policy = ResetPolicy(mode=mode, hour=hour, idle=idle * HOUR)
    there = ZoneInfo(name)
    active = now - timedelta(seconds=ago)
    latest = policy.latest_over(now=now, zone=there)
    over = policy.expired(active=active, now=now, zone=there) is not None
    assert not over or (latest is not None and active <= latest)
    if latest is not None:
        second = timedelta(seconds=1)
        assert policy.expired(active=latest - second, now=now, zone=there) is not None
        assert policy.expired(active=latest + second, now=now, zone=there) is None


def test_without_a_reset_no_session_ends():
    assert ResetPolicy().latest_over(now=utc("2026-03-01 12:00"), zone=UTC) is None
