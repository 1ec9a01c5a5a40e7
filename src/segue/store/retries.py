"""Retries for writes that record what has already happened, until the store works again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from segue.core.errors import StoreError, StoreUncertain
from segue.system.backoff import Backoff

PAUSE = 0.1
MAX_PAUSE = 1.0
"""Seconds between attempts. Short, so that a store that is back catches up at once."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


def is_being_cancelled() -> bool:
    """Whether the current task was cancelled and is still cleaning up. An error that is raised
    meanwhile replaces the cancellation, so code that retries after errors must ask."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def keep(what: str, work: Callable[[], Awaitable[T]], *, repeatable: bool = True) -> T:
    """Call `work` until the store accepts it, and return its result.

    Retries on StoreError without limit. `what` names the work in the log. If the work is not
    `repeatable`, StoreUncertain is raised instead, because the write may have taken effect. In a
    task that is being cancelled, any StoreError is raised: the task must end.
    """
    backoff = Backoff(least=PAUSE, most=MAX_PAUSE)
    while True:
        try:
            result = await work()
        except StoreError as error:
            if isinstance(error, StoreUncertain) and not repeatable:
                raise
            if is_being_cancelled():
                raise
            if not backoff.attempt:
                logger.warning("not stored yet, trying again what=%s: %s", what, error)
        else:
            if failed := backoff.attempt:
                logger.info("stored after failed attempts attempts=%d what=%s", failed, what)
            return result
        await asyncio.sleep(backoff.next())
