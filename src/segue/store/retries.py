"""Keeping what has happened already: the store is asked again until it is in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from segue.core.errors import StoreError, StoreUncertain

PAUSE = 0.1
LONGEST_PAUSE = 1.0
"""Seconds between two attempts: a store that is back learns at once what happened meanwhile."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


async def keep(what: str, work: Callable[[], Awaitable[T]], *, repeatable: bool = True) -> T:
    """Return what `work` returns, however long the store is out of order. `what` is for the log.
    Unless it is `repeatable`, StoreUncertain is raised: it may have been kept."""
    failed = 0
    while True:
        try:
            result = await work()
        except StoreError as error:
            if isinstance(error, StoreUncertain) and not repeatable:
                raise
            failed += 1
            if failed == 1:
                logger.warning("not kept yet, trying again what=%s: %s", what, error)
        else:
            if failed:
                logger.info("kept after %d failed attempts what=%s", failed, what)
            return result
        await asyncio.sleep(min(PAUSE * 2 ** min(failed - 1, 8), LONGEST_PAUSE))
