"""When a chat starts a new session: after an idle time, at an hour of the day, both, or never."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from msgspec import Struct, field

from segue.core.address import Address, ChatType, Platform
from segue.core.session import EndReason

# Keeps dates within the calendar's range. For a longer time, use no reset.
_LONGEST_IDLE = timedelta(days=36_500)


class ResetMode(StrEnum):
    """The event that ends a session."""

    NONE = "none"
    IDLE = "idle"
    DAILY = "daily"
    BOTH = "both"
    """Idle or daily, whichever comes first."""


class ResetPolicy(Struct, frozen=True, kw_only=True):
    """When a session in one kind of chat ends, so that the next message starts a new one."""

    mode: ResetMode = ResetMode.NONE
    idle: timedelta = timedelta(days=1)
    hour: int = 4
    """Hour of the day in the user's time zone."""

    def __post_init__(self) -> None:
        if not timedelta(0) < self.idle <= _LONGEST_IDLE:
            raise ValueError("the idle time of a reset must be more than 0 and at most 100 years")
        if not 0 <= self.hour <= 23:
            raise ValueError("the hour of a reset must be from 0 to 23")

    def expired(self, *, active: datetime, now: datetime, zone: tzinfo) -> EndReason | None:
        """Return why a session last active at `active` has ended by `now`, or None if it has not.

        Of two reasons the earlier one counts, so the result does not depend on when the check runs.
        At the same instant it is the daily reset, which the user can predict.
        """
        end = self.end(active=active, zone=zone)
        return end[1] if end and end[0] <= now else None

    def latest_over(self, *, now: datetime, zone: tzinfo) -> datetime | None:
        """Return the cutoff, or None if sessions never end.

        Sessions active after the cutoff have not ended by `now`.
        """
        last: list[datetime] = []
        if self.mode in (ResetMode.DAILY, ResetMode.BOTH):
            last.append(_last_daily(now, self.hour, zone))
        if self.mode in (ResetMode.IDLE, ResetMode.BOTH):
            last.append(now.astimezone(UTC) - self.idle)
        return max(last, default=None)

    def end(self, *, active: datetime, zone: tzinfo) -> tuple[datetime, EndReason] | None:
        """Return when a session last active at `active` ends, in UTC, and why; None for never.

        It is always later than `active`, so a clock that jumps back ends nothing.
        """
        # Use UTC from here on: within one zone, Python adds and compares wall-clock times.
        active = active.astimezone(UTC)
        ends: list[tuple[datetime, EndReason]] = []
        if self.mode in (ResetMode.DAILY, ResetMode.BOTH):
            ends.append((_next_daily(active, self.hour, zone), EndReason.DAILY))
        if self.mode in (ResetMode.IDLE, ResetMode.BOTH):
            ends.append((active + self.idle, EndReason.IDLE))
        return min(ends, key=lambda end: end[0], default=None)


class ResetPolicies(Struct, frozen=True, kw_only=True):
    """The policies for all chats: a default, with overrides by platform, chat type or both."""

    default: ResetPolicy = ResetPolicy()
    overrides: Mapping[tuple[Platform | None, ChatType | None], ResetPolicy] = field(
        default_factory=dict[tuple[Platform | None, ChatType | None], ResetPolicy]
    )
    """None matches any platform or chat type. (None, None) is not allowed: use `default`."""

    def __post_init__(self) -> None:
        if (None, None) in self.overrides:
            raise ValueError(
                "an override needs a platform or a chat type; use the default for all chats"
            )

    def for_address(self, address: Address) -> ResetPolicy:
        return self.of(address.platform, address.chat_type)

    def of(self, platform: Platform, chat_type: ChatType) -> ResetPolicy:
        """Return the most specific policy: platform and chat type, platform, chat type, default."""
        for key in ((platform, chat_type), (platform, None), (None, chat_type)):
            if key in self.overrides:
                return self.overrides[key]
        return self.default


def _next_daily(after: datetime, hour: int, zone: tzinfo) -> datetime:
    """Return the first daily reset after `after`."""
    today = after.astimezone(zone).date()
    # Today's reset may be over, and tomorrow's too: a clock set back across midnight repeats a day.
    days = (today + timedelta(days=n) for n in range(3))
    return next(reset for day in days if (reset := _daily(day, hour, zone)) > after)


def _last_daily(before: datetime, hour: int, zone: tzinfo) -> datetime:
    """Return the last daily reset at or before `before`."""
    today = before.astimezone(zone).date()
    # As above: tomorrow's reset may be over if the clock was set back across midnight.
    days = (today + timedelta(days=n) for n in range(1, -3, -1))
    return next(reset for day in days if (reset := _daily(day, hour, zone)) <= before)


def _daily(day: date, hour: int, zone: tzinfo) -> datetime:
    """Return the instant of the reset on a local day.

    If the clock shows the hour twice, the first one counts. If the clock skips the hour, the reset
    comes when the hour would have come without the clock change: never early, and never left out.
    """
    return datetime.combine(day, time(hour), tzinfo=zone).astimezone(UTC)
