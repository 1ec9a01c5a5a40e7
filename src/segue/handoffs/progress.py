"""The progress of a handoff, as the side that requested it sees it.

It is Waiting, then Working from step to step, or Stranded if its gateway died and another may
resume it. It ends as Completed or Failed. If another process holds the session, it is Held first,
and Kept if the request to release it is withdrawn before the handoff has begun.
"""

from __future__ import annotations

from msgspec import Struct

from segue.core.address import Platform
from segue.core.text import one_line
from segue.handoffs.values import MAX_ATTEMPTS, REASONS, STEPS, Failure, Handoff, State, Step


class Held(Struct, frozen=True):
    """Another process holds the session, and lets it go when its turn reaches a safe point."""

    platform: Platform
    holder: str | None
    """None if a gateway has yet to resume the turn that it was running."""
    stops: bool = False
    """Whether its turn is stopped."""

    def text(self) -> str:
        if self.stops:
            return f"stopping the agent{f' in {self.holder}' if self.holder else ''}…"
        if self.holder is None:
            return "waiting for a gateway to resume the agent's work… Ctrl-C to stop waiting."
        return f"waiting for the agent to finish its step in {self.holder}… Ctrl-C to stop waiting."


class Kept(Struct, frozen=True):
    """The release request was withdrawn, and the session stays where it is."""

    platform: Platform
    elsewhere: bool
    """Whether it was withdrawn where the session is, not by the process that waits."""

    def text(self) -> str:
        if self.elsewhere:
            return (
                "The session was not handed off: it was kept where it is, or taken somewhere else"
                " meanwhile. Type `segue status` to see where it is."
            )
        return REASONS[Failure.CANCELLED]


class Waiting(Struct, frozen=True):
    """No gateway has claimed it yet."""

    platform: Platform

    def text(self) -> str:
        return f"waiting for a gateway to take it to {self.platform}…"


class Working(Struct, frozen=True):
    """A gateway is working on it."""

    platform: Platform
    step: Step
    attempt: int = 1
    """How many gateways have claimed it so far."""
    detail: str | None = None
    """What the step is waiting for, or None."""

    def text(self) -> str:
        where = "by a gateway" if self.step is Step.CLAIMED else f"on {self.platform}"
        again = f" (attempt {self.attempt} of {MAX_ATTEMPTS})" if self.attempt > 1 else ""
        waits = f": {self.detail}" if self.detail else ""
        return f"{STEPS[self.step]} {where}{again}{waits}…"


class Stranded(Struct, frozen=True):
    """Its gateway is gone. Nothing has moved, and another gateway may resume it."""

    platform: Platform

    def text(self) -> str:
        return "the gateway stopped; waiting for another one to continue…"


class Completed(Struct, frozen=True):
    """The session has moved. The terminal only has to exit."""

    handoff: Handoff

    def text(self) -> str:
        warning = f" {self.handoff.warning}" if self.handoff.warning else ""
        return f"The session is on {self.handoff.thread} now.{warning}"


class Failed(Struct, frozen=True):
    """The session has not moved, and will not."""

    handoff: Handoff

    def text(self) -> str:
        reason = one_line(self.handoff.error or "")
        if self.handoff.failure is Failure.CANCELLED:
            return reason
        return f"The handoff failed. {reason}"


Progress = Held | Waiting | Working | Stranded | Completed | Failed | Kept


def progress(now: Handoff, *, at_work: bool) -> Progress:
    """Return the progress of `now`. `at_work`: whether the gateway that claimed it is alive."""
    match now.state:
        case State.PENDING:
            return Waiting(now.platform)
        case State.RUNNING if at_work:
            return Working(now.platform, now.step or Step.CLAIMED, now.attempt, now.detail)
        case State.RUNNING:
            return Stranded(now.platform)
        case State.COMPLETED:
            return Completed(now)
        case State.FAILED:
            return Failed(now)
