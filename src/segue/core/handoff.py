"""Moving one Session's Binding and Lease to another Address.

    pending ──claim──▶ running ──complete──▶ completed
       │                │  ▲ │
       │                └──┘ └──fail, cancel, expire──▶ failed
       │            claim again, by the next gateway
       └──cancel, expire──▶ failed

The table below is the rule. The store carries each row out as one guarded UPDATE, so that of two
who try, one wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from segue.core.address import Address, Platform
from segue.core.lease import Ticks
from segue.core.text import one_line

TARGETS = tuple(platform for platform in Platform if platform is not Platform.LOCAL)
"""Where a session can be handed off to."""
MAX_ATTEMPTS = 3
ERROR_LIMIT = 500

_REASON_LIMIT = 200


class State(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class Event(StrEnum):
    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"


class Step(StrEnum):
    """How far a running handoff has come."""

    CLAIMED = "claimed"
    OPENING = "opening"
    REPLYING = "replying"
    DELIVERING = "delivering"


class Failure(StrEnum):
    """Why a handoff failed."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """No gateway claimed it in time."""
    ABANDONED = "abandoned"
    """The gateway died, and no other one continued."""
    ERROR = "error"
    """Anything else; `Handoff.error` says what."""


REASONS: Mapping[Failure, str] = {
    Failure.CANCELLED: "Cancelled. The session stayed where it was.",
    Failure.EXPIRED: (
        "No gateway took it up in time. The session stayed where it was. Type `segue gateway"
        " status` to see whether one is running, `segue gateway start` if none is, then /handoff"
        " again."
    ),
    Failure.ABANDONED: (
        "The gateway stopped in the middle of it, and none went on with it. The session stayed"
        " where it was. Type `segue gateway status`, then /handoff again."
    ),
}
"""The messages for failures that need no details."""


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.PENDING, Event.CLAIM): State.RUNNING,
    (State.PENDING, Event.CANCEL): State.FAILED,
    (State.PENDING, Event.EXPIRE): State.FAILED,
    (State.RUNNING, Event.CLAIM): State.RUNNING,
    (State.RUNNING, Event.COMPLETE): State.COMPLETED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.CANCEL): State.FAILED,
    (State.RUNNING, Event.EXPIRE): State.FAILED,
}

IN_FLIGHT = frozenset({State.PENDING, State.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """One request to move a session, and how far it has come."""

    id: int
    session_id: str
    platform: Platform
    state: State
    requested: datetime
    claim_by: Ticks
    """If nobody has claimed it by then, or claimed it again from a dead gateway, it is void."""
    key: str
    """Names the request, so that asking twice with one key asks once."""
    home: Address | None = None
    """Where to open the thread; None lets the gateway choose the platform's home channel."""
    message: str | None = None
    """What the person wants said there first."""
    attempt: int = 0
    fence: int = 0
    """Counts the claims. Only the newest claim may finish the handoff."""
    claimed_by: str | None = None
    lease_until: Ticks | None = None
    claimed: datetime | None = None
    finished: datetime | None = None
    step: Step | None = None
    detail: str | None = None
    """What the step waits for, if it does."""
    thread: Address | None = None
    """The thread that was opened for it; the next attempt uses it again."""
    reply: bytes | None = None
    """What the agent answered there, as the gateway keeps it; the next attempt uses it again."""
    failure: Failure | None = None
    error: str | None = None
    """The message for the user, if it failed."""
    confirmed: bool = True
    """Whether the platform confirmed what was sent there first, as far as it was asked."""

    @property
    def recap_key(self) -> str:
        """Names the first message that is sent there."""
        return f"handoff:{self.id}:recap"

    @property
    def reply_key(self) -> str:
        """Names the agent's own words there."""
        return f"handoff:{self.id}:reply"

    @property
    def warning(self) -> str:
        """What to look for if the platform did not confirm the arrival; else empty."""
        if self.state is not State.COMPLETED or self.confirmed:
            return ""
        return (
            f"{self.platform} did not confirm that the first message arrived. Look there for a"
            " message that ends its first line with “goes on here”. If there is none, write"
            " anything there, and it is sent again."
        )

    @property
    def in_flight(self) -> bool:
        return self.state in IN_FLIGHT

    def expired(self, now: Ticks) -> bool:
        return self.in_flight and now >= self.claim_by


def next_state(state: State, event: Event) -> State | None:
    """The state after `event`, or None where it may not happen."""
    return TRANSITIONS.get((state, event))


def stayed(where: Address | None, reason: str) -> str:
    """What a thread that was opened is told when nothing came of it. `where` is the session's
    address; without one it can only be in a terminal."""
    place = f"on {where}" if where and where.platform is not Platform.LOCAL else "in the terminal"
    line = f"The session stayed where it was, {place}: the handoff did not happen."
    # The rest of a reason tells what to type in the terminal.
    first = one_line(one_line(reason).partition(". ")[0].rstrip("."), _REASON_LIMIT)
    return f"{line} {first}." if first else line


def short_reason(reason: str) -> str:
    """A reason as it is kept: cut at 500 characters, never refused."""
    return reason if len(reason) <= ERROR_LIMIT else reason[: ERROR_LIMIT - 1] + "…"
