"""The exclusive right to append to a Session for a limited time, with a fencing epoch."""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

Ticks = NewType("Ticks", int)
"""Microseconds of a monotonic clock, for leases and deadlines. Never shown to users."""

SECOND = 1_000_000
"""One second in Ticks."""


class Lease(Struct, frozen=True, kw_only=True):
    """The right to append to a session. Each acquisition gets a new epoch, never reused."""

    session_id: str
    holder: str
    """The holder, for display: `a terminal on desk (1234)`."""
    process: str
    """The Process (one opening of the store) that acquired it."""
    epoch: int
    until: Ticks

    def alive(self, now: Ticks) -> bool:
        return now < self.until
