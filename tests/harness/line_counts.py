"""Count work in executed lines, so that tests of complexity give the same result on any machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(run: Callable[[], object]) -> int:
    """The number of Python lines that `run` executes in this thread. C code is not counted."""
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
    """The growth of the work when the size grows by `times`, relative to linear growth.

    1 is linear; quadratic work gives `times`. A first run, which fills caches, is not counted.
    """
    work(size)
    small = steps(lambda: work(size))
    return steps(lambda: work(size * times)) / small / times
