"""The progress of a handoff, as the side that requested it sees it.

It is Waiting, then Working from step to step, or Stranded if its gateway died and another may
resume it. It ends as Completed or Failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from segue.core.address import Platform
from segue.core.handoff import MAX_ATTEMPTS, Failure, Handoff, State, Step
from segue.core.text import one_line

STEPS: Mapping[Step, str] = {
    Step.CLAIMED: "taken up",
    Step.OPENING: "opening a thread",
    Step.REPLYING: "agent replying",
    Step.DELIVERING: "delivering",
}
"""The steps as users read them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """No gateway has claimed it yet."""

    platform: Platform

    def text(self) -> str:
        return f"waiting for a gateway to take it to {self.platform}…"


@dataclass(frozen=True, slots=True)
class Working:
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


@dataclass(frozen=True, slots=True)
class Stranded:
    """Its gateway is gone. Nothing has moved, and another gateway may resume it."""

    platform: Platform

    def text(self) -> str:
        return "the gateway stopped; waiting for another one to continue…"


@dataclass(frozen=True, slots=True)
class Completed:
    """The session has moved. The terminal only has to exit."""

    handoff: Handoff

    def text(self) -> str:
        warning = f" {self.handoff.warning}" if self.handoff.warning else ""
        return f"The session is on {self.handoff.thread} now.{warning}"


@dataclass(frozen=True, slots=True)
class Failed:
    """The session has not moved, and will not."""

    handoff: Handoff

    def text(self) -> str:
        reason = one_line(self.handoff.error or "")
        if self.handoff.failure is Failure.CANCELLED:
            return reason
        return f"The handoff failed. {reason}"


Progress = Waiting | Working | Stranded | Completed | Failed


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
