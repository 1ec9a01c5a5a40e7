"""Pauses between attempts: they grow with each failure, and they have a limit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from segue.core.errors import ConnectFailed, SetupNeeded
from segue.platforms.errors import Refused

FIRST_PAUSE = 0.5
"""Seconds of the first pause before a retry."""
MAX_PAUSE = 60.0
_MAX_POLL_PAUSE = 10.0
STEADY_SECONDS = 30.0
"""A connection that lasted this long was a success. What ends earlier counts as a failure, even if
something arrived: a platform that greets and hangs up must not be called without pause."""


@dataclass(slots=True)
class Backoff:
    """Exponential backoff with jitter, so that many clients do not retry at the same moment."""

    least: float = field(default_factory=lambda: FIRST_PAUSE)
    most: float = MAX_PAUSE
    attempt: int = 0

    def next(self) -> float:
        self.attempt += 1
        return pause(self.attempt, self.least, self.most)

    def reset(self) -> None:
        self.attempt = 0


def pause(attempt: int, least: float, most: float) -> float:
    """Seconds to wait after this attempt."""
    return min(least * 2 ** min(attempt - 1, 16), most) * random.uniform(0.75, 1.25)


class Reconnects:
    """The pauses between the connections of one adapter. Whatever way they fail, there are only a
    few a minute."""

    def __init__(
        self, backoff: Backoff | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        """`clock` returns seconds: the event loop's unless it is given."""
        self._backoff = backoff or Backoff()
        self._clock = clock or _loop_time
        self._since: float | None = None

    def begin(self) -> None:
        """A connection is attempted now."""
        self._since = self._clock()

    async def wait(self, failure: Exception | None) -> None:
        """Wait before the next attempt. After SetupNeeded that is for ever: the caller is cancelled
        when the settings change."""
        if isinstance(failure, SetupNeeded):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.pause(failure))

    def pause(self, failure: Exception | None, *, at_once: bool = False) -> float:
        """Seconds until the next attempt. With `at_once`, the first one is not delayed."""
        if self._since is not None and self._clock() - self._since >= STEADY_SECONDS:
            self._backoff.reset()
        seconds = self._backoff.next()
        if at_once and self._backoff.attempt == 1:
            seconds = 0.0
        after = failure.after if isinstance(failure, ConnectFailed | Refused) else None
        return max(seconds, after or 0.0)


class PollPace:
    """Pauses between polls that return at once with nothing, although the server was asked to wait
    for something: without them, a broken server would be asked hundreds of times a second."""

    def __init__(self) -> None:
        self._backoff = Backoff(most=_MAX_POLL_PAUSE)
        self._since = 0.0

    def begin(self) -> None:
        """A poll begins now."""
        self._since = _loop_time()

    async def end(self, seconds: float, *, is_empty: bool) -> None:
        """The poll has returned. The server was asked to wait for `seconds`."""
        if is_empty and _loop_time() - self._since < seconds / 2:
            await asyncio.sleep(self._backoff.next())
        else:
            self._backoff.reset()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
