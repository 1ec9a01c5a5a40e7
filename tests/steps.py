"""Work, counted: what grows too much is seen without a clock, and the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(run: Callable[[], object]) -> int:
    """The lines of Python that `run` executes in this thread. What C code does is not seen."""
    count = 0

    def line(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], object], size: int, times: int = 4) -> float:
    """How much more work `times` the size is, in units of linear work: 1 is linear, and quadratic
    work comes to `times`. The first run, which also fills caches, is not counted."""
    work(size)
    small = steps(lambda: work(size))
    return steps(lambda: work(size * times)) / small / times
