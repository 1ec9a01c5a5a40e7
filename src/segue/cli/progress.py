"""The steps of a long command on the terminal, each in one line."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from segue.store.progress import Progress

_WIDTH = 7
"""Of the longest state."""


@contextmanager
def show_step(title: str) -> Generator[Progress]:
    """Show a step while it runs, with what is done of it. In a pipe, show nothing."""
    if not sys.stderr.isatty():
        yield lambda done, whole: None
        return
    line = _StepLine(title)
    line.show("…")
    try:
        yield line.show_part
        line.show(": done")
    finally:
        sys.stderr.write("\n")


class _StepLine:
    def __init__(self, title: str) -> None:
        self._title = title
        self._state = ""

    def show_part(self, done: int, whole: int) -> None:
        if whole:
            self.show(f": {100 * done // whole} %")

    def show(self, state: str) -> None:
        if state == self._state:
            return
        self._state = state
        sys.stderr.write(f"\r{self._title}{state:<{_WIDTH}}")
        sys.stderr.flush()
