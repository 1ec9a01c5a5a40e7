"""What adapters do with the updates that they receive.

`Containment` keeps one update from stopping the next. A failure may be the fault of one update,
such as one that names what the platform cannot look up, or of the platform, which is down. An
update is set aside only in the first case. In the second, the adapter reconnects and handles the
update again.

`Recent` keeps what updates say about users and messages, within a limit.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from segue.core.errors import SegueError
from segue.core.text import one_line
from segue.platforms.errors import Failures, Lost, Refused

logger = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

TRIES = 5
"""How often an update is handled whose calls fail while the platform answers others."""
_OTHERS_FAULT = (401, 429)
"""Statuses that say nothing about an update: the account is refused, or calls come too fast."""
_LENGTH = 200
_MOST = 10_000


class Recent(dict[K, V]):
    """A dict that drops its oldest entry when it is full."""

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]


async def _nothing(_: str) -> None:
    """For an update that leaves nothing behind when it is set aside."""


class Containment:
    """Handles the updates of one platform, and sets aside those that fail."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._failed = Recent[str, int]()
        """How often each item failed in a row."""
        self._broken: set[str] = set()
        """The places whose items fail."""

    async def attempt(
        self,
        item: str,
        work: Callable[[], Awaitable[T]],
        set_aside: Callable[[str], Awaitable[T | None]] = _nothing,
        *,
        place: str = "",
    ) -> T | None:
        """Return what `work` returns. Return what `set_aside` makes of the reason if the item is at
        fault. Raise what `work` raised if the platform is.

        The platform is asked for updates before each attempt, so an item that fails for the
        TRIES-th time fails while the platform answers. After that, items of the same `place` that
        fail are at fault at once, until one succeeds there. By default, an item is its own place.
        """
        place = place or item
        try:
            done = await work()
        except self._failures.all as error:
            failure = self._failures.read(error)
            if not self._is_at_fault(item, place, failure):
                raise
            reason = one_line(failure.reason, _LENGTH)
            self._log(item, reason)
            return await set_aside(reason)
        except SegueError:
            raise
        except Exception as error:
            logger.exception("update failed platform=%s", self._failures.platform)
            reason = one_line(f"{type(error).__name__}: {error}", _LENGTH)
            self._log(item, reason)
            return await set_aside(reason)
        self._failed.pop(item, None)
        self._broken.discard(place)
        return done

    def parse(self, item: str, work: Callable[[], T]) -> T | None:
        """Return what `work` returns, or None if it fails. It makes no calls, so the item is at
        fault."""
        try:
            return work()
        except SegueError:
            raise
        except Exception as error:
            logger.exception("update failed platform=%s", self._failures.platform)
            self._log(item, one_line(f"{type(error).__name__}: {error}", _LENGTH))
            return None

    def _is_at_fault(self, item: str, place: str, failure: Refused | Lost) -> bool:
        if isinstance(failure, Refused) and failure.status in _OTHERS_FAULT:
            return False
        if isinstance(failure, Refused) and failure.status < 500:
            return True
        if isinstance(failure, Lost) and not failure.arrived:  # no connection
            return False
        self._failed[item] = self._failed.get(item, 0) + 1
        if self._failed[item] < TRIES and place not in self._broken:
            return False
        del self._failed[item]
        self._broken.add(place)
        return True

    def _log(self, item: str, reason: str) -> None:
        item = one_line(item, _LENGTH)
        platform = self._failures.platform
        logger.warning("update set aside platform=%s item=%s reason=%s", platform, item, reason)
