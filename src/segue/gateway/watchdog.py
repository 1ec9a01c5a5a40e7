"""Watches the gateway's process.

While one task computes, no chat is served: a thread asks the event loop for a sign of life, and
logs how long it took, and which task held the loop. A process that runs out of file descriptors
logs that once in a while. A process that does not stop is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

MAX_HOLD = 0.05
"""Seconds for which one item may hold the loop."""
ASK_SECONDS = 0.1
"""Seconds between two questions. A shorter hold between them is not noticed."""
LOG_SECONDS = 10.0
"""Seconds between two log lines, unless a hold is longer than those before."""
_PACKAGE = "segue."
EXHAUSTION_SECONDS = 60.0
"""Seconds between two log lines about missing file descriptors."""
EXIT_TIMEOUT = 60.0
"""Seconds after a stop signal until the process exits in any case."""

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
            line = self._running_line()
            while not answered.wait(ASK_SECONDS):
                if self._stopped.is_set():
                    return
            seconds = time.monotonic() - asked
            self._report(seconds, _processor_seconds(self._thread) - worked, task, line)

    def stop(self) -> None:
        self._stopped.set()

    def _report(self, seconds: float, worked: float, task: str, line: str) -> None:
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
            line,
            self._holds,
        )
        self._holds = 0
        self._longest = seconds
        self._next_line = now + LOG_SECONDS

    def _task(self) -> str:
        """The name of the task that runs, or "" if it is a callback."""
        task = asyncio.current_task(self._loop)
        return "" if task is None else task.get_name()

    def _running_line(self) -> str:
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


class Exhaustion:
    """Exception handler of the event loop. When it runs out of file descriptors, asyncio accepts
    again every second, with a traceback in the log. This logs one line per EXHAUSTION_SECONDS."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._attempts = 0
        self._next = clock()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
            return
        self._attempts += 1
        if self._clock() < self._next:
            return
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        logger.error(
            "Too many open files: new connections wait until others are closed. To allow more, run"
            " `ulimit -n 4096` and restart the gateway. attempts=%d limit=%d",
            self._attempts,
            limit,
        )
        self._attempts = 0
        self._next = self._clock() + EXHAUSTION_SECONDS


class ExitDeadline:
    """Ends the process if it has not exited EXIT_TIMEOUT seconds after a stop signal. In a thread,
    because the event loop itself may be stuck."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(EXIT_TIMEOUT, self._exit)
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _exit(self) -> None:
        logger.critical(
            "The gateway did not stop within %.0f seconds, and exits now. The next gateway"
            " continues its work.",
            EXIT_TIMEOUT,
        )
        logging.shutdown()
        os._exit(1)
