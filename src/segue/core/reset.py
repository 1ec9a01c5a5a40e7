"""When a chat starts anew: after a time of silence, at an hour of the day, both, or never."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from segue.core.address import Address, ChatType, Platform
from segue.core.session import EndReason

# So that no date leaves the calendar. Who wants longer wants no reset.
_LONGEST_IDLE = timedelta(days=36_500)


class ResetMode(StrEnum):
    """What ends a session."""

    NONE = "none"
    IDLE = "idle"
    DAILY = "daily"
    BOTH = "both"
    """Idle or daily, whichever comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicy:
    """When a session of one kind of chat ends, so that the next message begins another."""

    mode: ResetMode = ResetMode.NONE
    idle: timedelta = timedelta(days=1)
    hour: int = 4
    """Of the wall clock where the person lives."""

    def __post_init__(self) -> None:
        if not timedelta(0) < self.idle <= _LONGEST_IDLE:
            raise ValueError("the idle time of a reset is more than nothing, up to 100 years")
        if not 0 <= self.hour <= 23:
            raise ValueError("the hour of a reset is from 0 to 23")

    def expires(self, *, active: datetime, zone: tzinfo) -> datetime | None:
        """When a session that was last active at `active` ends, in UTC; None for never.

        It is later than `active`, so a clock that jumped back ends nothing.
        """
        end = self._end(active, zone)
        return end and end[0]

    def expired(self, *, active: datetime, now: datetime, zone: tzinfo) -> EndReason | None:
        """Why a session that was last active at `active` has ended by `now`; None if it has not.

        Of two reasons it is the one that came first, so that it does not matter when somebody
        looks; at the same instant it is the hour, which the person can see coming.
        """
        end = self._end(active, zone)
        return end[1] if end and end[0] <= now else None

    def latest_over(self, *, now: datetime, zone: tzinfo) -> datetime | None:
        """Whoever was active later than this has not ended by `now`; None when nobody has."""
        last: list[datetime] = []
        if self.mode in (ResetMode.DAILY, ResetMode.BOTH):
            last.append(_last_daily(now, self.hour, zone))
        if self.mode in (ResetMode.IDLE, ResetMode.BOTH):
            last.append(now.astimezone(UTC) - self.idle)
        return max(last, default=None)

    def _end(self, active: datetime, zone: tzinfo) -> tuple[datetime, EndReason] | None:
        # In UTC from here on: within one zone, Python adds and compares what the wall clock shows.
        active = active.astimezone(UTC)
        ends: list[tuple[datetime, EndReason]] = []
        if self.mode in (ResetMode.DAILY, ResetMode.BOTH):
            ends.append((_next_daily(active, self.hour, zone), EndReason.DAILY))
        if self.mode in (ResetMode.IDLE, ResetMode.BOTH):
            ends.append((active + self.idle, EndReason.IDLE))
        return min(ends, key=lambda end: end[0], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicies:
    """The policy of every chat: a default, and what differs by platform, chat type or both."""

    default: ResetPolicy = ResetPolicy()
    overrides: Mapping[tuple[Platform | None, ChatType | None], ResetPolicy] = field(
        default_factory=dict[tuple[Platform | None, ChatType | None], ResetPolicy]
    )
    """None stands for any. For any platform and any chat type there is the default."""

    def __post_init__(self) -> None:
        if (None, None) in self.overrides:
            raise ValueError("what holds for every chat is the default, not an override")

    def for_address(self, address: Address) -> ResetPolicy:
        return self.of(address.platform, address.chat_type)

    def of(self, platform: Platform, chat_type: ChatType) -> ResetPolicy:
        """The most specific policy: platform and chat type, platform, chat type, default."""
        for key in ((platform, chat_type), (platform, None), (None, chat_type)):
            if key in self.overrides:
                return self.overrides[key]
        return self.default


def _next_daily(after: datetime, hour: int, zone: tzinfo) -> datetime:
    """The first daily reset later than `after`."""
    today = after.astimezone(zone).date()
    # Today's may be over, and tomorrow's too: a clock put back over midnight shows a day again.
    days = (today + timedelta(days=n) for n in range(3))
    return next(reset for day in days if (reset := _daily(day, hour, zone)) > after)


def _last_daily(before: datetime, hour: int, zone: tzinfo) -> datetime:
    """The last daily reset that is not later than `before`."""
    today = before.astimezone(zone).date()
    # As above: tomorrow's may have been, where the clock was put back over midnight.
    days = (today + timedelta(days=n) for n in range(1, -3, -1))
    return next(reset for day in days if (reset := _daily(day, hour, zone)) <= before)


def _daily(day: date, hour: int, zone: tzinfo) -> datetime:
    """The one instant of a local day's reset.

    An hour that the clock shows twice counts the first time. One that it skips counts when it
    would have come had the clock not been changed yet: never early, and never not at all.
    """
    return datetime.combine(day, time(hour), tzinfo=zone).astimezone(UTC)
