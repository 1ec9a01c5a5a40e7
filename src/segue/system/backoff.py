"""Pauses between attempts: they grow with each failure up to a limit, and they vary, so that many
programs do not retry at the same moment."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FIRST_PAUSE = 0.5
MAX_PAUSE = 60.0


@dataclass(slots=True)
class Backoff:
    """The pauses of one row of attempts, in seconds."""

    least: float = field(default_factory=lambda: FIRST_PAUSE)
    most: float = MAX_PAUSE
    attempt: int = 0

    def next(self) -> float:
        """The pause after one more failure."""
        self.attempt += 1
        return pause(self.attempt, self.least, self.most)

    def reset(self) -> None:
        """Start over, after a success."""
        self.attempt = 0


def pause(attempt: int, least: float, most: float) -> float:
    """Seconds to wait after the failure of this attempt, the first of which is 1."""
    return min(least * 2 ** min(attempt - 1, 16), most) * random.uniform(0.75, 1.0)
