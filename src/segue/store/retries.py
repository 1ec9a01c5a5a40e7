"""Retries while the store is unavailable: for writes that record what has already happened, and for
the heartbeat of a claim while a gateway works on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from segue.core.errors import StoreError, StoreUncertain
from segue.store.base import Topic
from segue.system.backoff import Backoff

if TYPE_CHECKING:
    from segue.store import Store

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


async def until_stored(
    what: str, work: Callable[[], Awaitable[T]], *, repeatable: bool = True
) -> T:
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


class ClaimLost(Exception):
    """The work was cancelled, or another gateway has claimed it."""


@contextlib.asynccontextmanager
async def claim_heartbeat(
    store: Store, topic: Topic, beat: Callable[[], Awaitable[bool]], seconds: float
) -> AsyncGenerator[None]:
    """Call `beat` every `seconds`, and when `topic` changes, while this context is open. If it
    returns False, stop the block at once and raise ClaimLost."""
    block = asyncio.current_task()
    lost = False

    async def beats() -> None:
        async with store.listen(topic) as wake:
            while await beat():
                await wake.wait(seconds)

    async def watch() -> None:
        nonlocal lost
        await until_stored(f"heartbeat of {topic}", beats)
        lost = True
        if block is not None:
            block.cancel()

    beating = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if lost and block is not None and not block.uncancel():
            raise ClaimLost from None
        raise
    finally:
        beating.cancel()
        await asyncio.wait({beating})
