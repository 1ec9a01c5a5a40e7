"""A HandoffRequest is what a user asks for. A Handoff moves a Session's Binding and Lease to
another Address.

    pending ──claim──▶ running ──complete──▶ completed
       │                │  ▲ │
       │                └──┘ └──fail, cancel, expire──▶ failed
       │            claim again, by the next gateway
       └──cancel, expire──▶ failed

TRANSITIONS is the rule. The store performs each transition as one guarded UPDATE, so only one of
two concurrent attempts succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum, StrEnum, auto

from msgspec import Struct

from segue.core.address import Address, Platform
from segue.core.session import MovingTurn, Ticks
from segue.core.text import one_line

MAX_ATTEMPTS = 3

_REASON_LIMIT = 200


class IfHeld(Enum):
    """What to do if another process holds the session."""

    REFUSE = auto()
    WAIT = auto()
    """Ask the holder to let it go, and wait until its turn reaches a safe point or is over."""
    STOP = auto()
    """Ask the holder to stop the turn and let it go. Take it from a holder that does not."""


class HandoffRequest(Struct, frozen=True):
    """What a user asks for. It is made where their words are parsed."""

    platform: Platform
    chat_id: str | None = None
    """The chat of the owner to move to. None for their home channel there."""
    message: str | None = None
    """Text to post there first."""
    new_thread: bool = False
    """Whether to open a new thread although the session has one there."""
    if_held: IfHeld = IfHeld.REFUSE


class State(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class HandoffEvent(StrEnum):
    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"


class Step(StrEnum):
    """The progress of a running handoff."""

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


STEPS: Mapping[Step, str] = {
    Step.CLAIMED: "taken up",
    Step.OPENING: "opening a thread",
    Step.REPLYING: "agent replying",
    Step.DELIVERING: "delivering",
}
"""The steps as users read them."""

REASONS: Mapping[Failure, str] = {
    Failure.CANCELLED: "Cancelled. The session stayed where it was.",
    Failure.EXPIRED: (
        "No gateway accepted it in time. The session stayed where it was. Type `segue gateway"
        " status` to see whether one is running, `segue gateway start` if none is, then hand"
        " it off again."
    ),
    Failure.ABANDONED: (
        "The gateway stopped during the handoff, and no other gateway continued it. The session"
        " stayed where it was. Type `segue gateway status`, then hand it off again."
    ),
}
"""The messages for failures that need no details."""


TRANSITIONS: dict[tuple[State, HandoffEvent], State] = {
    (State.PENDING, HandoffEvent.CLAIM): State.RUNNING,
    (State.PENDING, HandoffEvent.CANCEL): State.FAILED,
    (State.PENDING, HandoffEvent.EXPIRE): State.FAILED,
    (State.RUNNING, HandoffEvent.CLAIM): State.RUNNING,
    (State.RUNNING, HandoffEvent.COMPLETE): State.COMPLETED,
    (State.RUNNING, HandoffEvent.FAIL): State.FAILED,
    (State.RUNNING, HandoffEvent.CANCEL): State.FAILED,
    (State.RUNNING, HandoffEvent.EXPIRE): State.FAILED,
}

IN_FLIGHT = frozenset({State.PENDING, State.RUNNING})


class Handoff(Struct, frozen=True, kw_only=True):
    """A request to move a session, and its progress."""

    id: int
    session_id: str
    platform: Platform
    state: State
    requested: datetime
    claim_by: Ticks
    """The deadline for the first claim, or for the next one after a gateway dies.

    Past it, the handoff is void.
    """
    key: str
    """Idempotency key: a second request with the same key has no effect."""
    home: Address | None = None
    """Where to open the thread. With None, the gateway uses the platform's home channel."""
    message: str | None = None
    """Text from the user to post there first."""
    new_thread: bool = False
    """Whether to open a new thread although the session has one there."""
    turn: MovingTurn = MovingTurn.NONE
    """The turn that moves with the session, if it was in the middle of one."""
    attempt: int = 0
    fence: int = 0
    """Counts the claims. Only the newest claim may finish the handoff."""
    claimed_by: str | None = None
    lease_until: Ticks | None = None
    claimed: datetime | None = None
    finished: datetime | None = None
    step: Step | None = None
    detail: str | None = None
    """The reason the step is waiting, if it is."""
    thread: Address | None = None
    """The thread opened for this handoff. The next attempt reuses it."""
    reply: bytes | None = None
    """The agent's reply there, in the gateway's encoding. The next attempt reuses it."""
    failure: Failure | None = None
    error: str | None = None
    """The message for the user, if it failed."""
    confirmed: bool = True
    """False if the platform was asked to confirm the first message there and did not."""
    replaced: bool = False
    """Whether the platform refused the session's own thread, so that a new one was opened."""

    @property
    def recap_key(self) -> str:
        """The key of the first message in a new thread."""
        return f"handoff:{self.id}:recap"

    @property
    def return_key(self) -> str:
        """The key of the first message in a thread that the session was in before."""
        return f"handoff:{self.id}:return"

    @property
    def reply_key(self) -> str:
        """The key of the agent's reply there."""
        return f"handoff:{self.id}:reply"

    @property
    def warning(self) -> str:
        """A hint on what to look for if the platform did not confirm delivery; otherwise empty."""
        if self.state is not State.COMPLETED or self.confirmed:
            return ""
        return (
            f"{self.platform} did not confirm that the first message arrived. Look there for a"
            " message whose first line says that the session continues or is back there. If there"
            " is none, send any message there, and it is sent again."
        )

    @property
    def mid_turn(self) -> bool:
        """Whether a turn moves with the session."""
        return self.turn is not MovingTurn.NONE

    @property
    def in_flight(self) -> bool:
        return self.state in IN_FLIGHT

    def expired(self, now: Ticks) -> bool:
        return self.in_flight and now >= self.claim_by


def next_state(state: State, event: HandoffEvent) -> State | None:
    """Return the state after `event`, or None if the transition is not allowed."""
    return TRANSITIONS.get((state, event))


def stayed(where: Address | None, reason: str) -> str:
    """Return the message for a thread that was opened for a handoff that failed.

    `where` is the session's address. Without one, the session can only be in a terminal.
    """
    place = f"on {where}" if where and where.platform is not Platform.LOCAL else "in the terminal"
    line = f"The session stayed where it was, {place}: the handoff failed."
    # The rest of a reason says what to type in the terminal.
    first = one_line(one_line(reason).partition(". ")[0].rstrip("."), _REASON_LIMIT)
    return f"{line} {first}." if first else line
