"""Log file descriptor exhaustion sparingly. asyncio waits a second and accepts again, but logs a
traceback for each attempt; this handler logs one line per LOG_SECONDS."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import time
from collections.abc import Callable
from typing import Any

LOG_SECONDS = 60.0
"""Seconds between two log lines."""

logger = logging.getLogger(__name__)


class Exhaustion:
    """Exception handler for an event loop that accepts connections."""

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
        self._attempts, self._next = 0, self._clock() + LOG_SECONDS
