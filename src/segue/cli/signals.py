"""Handles the signals that ask a command to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Generator

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def on_stop_signals(handler: Callable[[], object]) -> Generator[None]:
    """Call `handler` on Ctrl-C or another signal to stop, instead of ending the program."""
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
