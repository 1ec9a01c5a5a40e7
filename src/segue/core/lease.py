"""The sole right to append to a Session, for a time, with a fencing epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Ticks = NewType("Ticks", int)
"""Microseconds of a clock that does not jump: for leases and deadlines, never for people."""

SECOND = 1_000_000
"""One second in Ticks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who may append to a session. Each acquisition has an epoch of its own, never used again."""

    session_id: str
    holder: str
    """Who holds it, for people: `a terminal on desk (1234)`."""
    process: str
    """The opening of the store that took it."""
    epoch: int
    until: Ticks

    def alive(self, now: Ticks) -> bool:
        return now < self.until
