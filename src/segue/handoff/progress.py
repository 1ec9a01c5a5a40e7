"""How far a handoff has come, as the side that asked for it sees it.

First it is Waiting, then Working from step to step, or Stranded when its gateway died and another
may go on; in the end it is Completed or Failed, and nothing comes after those.
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
    """No gateway has taken it up yet."""

    platform: Platform

    def text(self) -> str:
        return f"waiting for a gateway to take it to {self.platform}…"


@dataclass(frozen=True, slots=True)
class Working:
    """A gateway is at work on it."""

    platform: Platform
    step: Step
    attempt: int = 1
    """Counts the gateways that took it up."""
    detail: str | None = None
    """What the step waits for, if it does."""

    def text(self) -> str:
        where = "by a gateway" if self.step is Step.CLAIMED else f"on {self.platform}"
        again = f" (attempt {self.attempt} of {MAX_ATTEMPTS})" if self.attempt > 1 else ""
        waits = f": {self.detail}" if self.detail else ""
        return f"{STEPS[self.step]} {where}{again}{waits}…"


@dataclass(frozen=True, slots=True)
class Stranded:
    """The gateway that was at work on it is gone. Nothing has moved; another may go on."""

    platform: Platform

    def text(self) -> str:
        return "the gateway is gone; waiting for one to go on with it…"


@dataclass(frozen=True, slots=True)
class Completed:
    """It has moved. All that is left to the terminal is to leave."""

    handoff: Handoff

    def text(self) -> str:
        warning = f" {self.handoff.warning}" if self.handoff.warning else ""
        return f"The session is on {self.handoff.thread} now.{warning}"


@dataclass(frozen=True, slots=True)
class Failed:
    """It has not moved, and will not."""

    handoff: Handoff

    def text(self) -> str:
        reason = one_line(self.handoff.error or "")
        if self.handoff.failure is Failure.CANCELLED:
            return reason
        return f"The handoff failed. {reason}"


Progress = Waiting | Working | Stranded | Completed | Failed


def progress(now: Handoff, *, at_work: bool) -> Progress:
    """What to tell of `now`. `at_work`: whether the gateway that took it up is alive."""
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
