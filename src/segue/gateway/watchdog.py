"""Watches the event loop: while one task computes, no chat is served. A thread asks the loop for a
sign of life, and logs how long it took, and which task held the loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Generator
from types import FrameType

MAX_HOLD = 0.05
"""Seconds for which one item may hold the loop."""
ASK_SECONDS = 0.1
"""Seconds between two questions. A shorter hold between them is not noticed."""
LOG_SECONDS = 10.0
"""Seconds between two log lines, unless a hold is longer than those before."""
_PACKAGE = "segue."

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Watch the loop that runs in this thread."""
    watchdog = Watchdog(loop, threading.get_ident())
    thread = threading.Thread(target=watchdog.run, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watchdog.stop()
        thread.join()


class Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        """`thread` is the one that runs the loop."""
        self._loop = loop
        self._thread = thread
        self._stopped = threading.Event()
        self._holds = 0
        """Since the last log line."""
        self._longest = 0.0
        self._next_line = 0.0

    def run(self) -> None:
        """Watch until `stop` is called or the loop is closed."""
        while not self._stopped.wait(ASK_SECONDS):
            asked = time.monotonic()
            worked = _processor_seconds(self._thread)
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if answered.wait(MAX_HOLD):
                continue
            task = self._task()
            place = self._place()
            while not answered.wait(ASK_SECONDS):
                if self._stopped.is_set():
                    return
            seconds = time.monotonic() - asked
            self._report(seconds, _processor_seconds(self._thread) - worked, task, place)

    def stop(self) -> None:
        self._stopped.set()

    def _report(self, seconds: float, worked: float, task: str, place: str) -> None:
        self._holds += 1
        now = time.monotonic()
        if now < self._next_line and seconds <= self._longest:
            return
        # A hold without work of ours is one of the machine: it was busy, or asleep.
        logger.warning(
            "event loop held seconds=%.3f processor=%.3f task=%r at=%s holds=%d",
            seconds,
            worked,
            task,
            place,
            self._holds,
        )
        self._holds = 0
        self._longest = seconds
        self._next_line = now + LOG_SECONDS

    def _task(self) -> str:
        """The name of the task that runs, or "" if it is a callback."""
        task = asyncio.current_task(self._loop)
        return "" if task is None else task.get_name()

    def _place(self) -> str:
        """The innermost line of ours that runs."""
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - documented
        frame: FrameType | None = frames.get(self._thread)
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if module.startswith(_PACKAGE):
                return f"{module}:{frame.f_lineno}"
            frame = frame.f_back
        return "unknown"


def _processor_seconds(thread: int) -> float:
    """CPU seconds of the thread so far. 0 where the system does not say."""
    clock = getattr(time, "pthread_getcpuclockid", None)
    return 0.0 if clock is None else time.clock_gettime(clock(thread))
