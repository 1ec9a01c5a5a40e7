"""Count the work of each callback on the event loop, in calls of functions, so that a test of how
long the loop is held gives the same result on any machine."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

MOST_CALLS = 750_000
"""Calls and returns of functions in one callback. They take about 50 ms."""


@dataclass
class LoopHolds:
    calls: int = 0
    """In the callback that runs."""
    longest: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The callbacks with the most calls so far, most first."""

    def note(self, handle: asyncio.Handle) -> None:
        if not self.longest or self.calls > self.longest[0][0]:
            self.longest.insert(0, (self.calls, repr(handle)))


@contextlib.contextmanager
def loop_holds(monkeypatch: pytest.MonkeyPatch) -> Generator[LoopHolds]:
    """Count while this context is open. Work in other threads is not counted."""
    holds = LoopHolds()
    run = asyncio.Handle._run

    def count(_frame: Any, _event: str, _arg: Any) -> None:
        holds.calls += 1

    def counted(handle: asyncio.Handle) -> None:
        holds.calls = 0
        sys.setprofile(count)
        try:
            run(handle)
        finally:
            sys.setprofile(None)
        holds.note(handle)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", counted)
        yield holds
