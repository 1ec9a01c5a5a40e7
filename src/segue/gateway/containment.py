"""Keep one bad item from stopping the rest: a message to send, an update, a handoff. A store
failure affects every item: it sets none aside, and tasks wait for the store without limit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import Any

from segue.core.errors import PlatformLost, StoreClosed, StoreError
from segue.core.text import one_line
from segue.store import retries
from segue.system.backoff import Backoff

MAX_CRASHES = 5
"""A task that crashed this many times within CRASH_WINDOW seconds is not restarted."""
CRASH_WINDOW = 300.0
FIRST_PAUSE = 0.5
MAX_PAUSE = 2.0
CANCEL_AGAIN_SECONDS = 5.0
"""Seconds that a cancelled task gets to clean up before it is cancelled again."""
CANCEL_ATTEMPTS = 3
_REASON_LENGTH = 200

SHARED_FAILURES = (StoreError, StoreClosed, PlatformLost)

logger = logging.getLogger(__name__)


def error_text(error: Exception) -> str:
    """The reason recorded for a failed item: `ValueError: …`."""
    return one_line(f"{type(error).__name__}: {error}", _REASON_LENGTH)


@contextlib.asynccontextmanager
async def contained(
    item: str, set_aside: Callable[[str], Awaitable[object]] | None = None
) -> AsyncGenerator[None]:
    """Work on `item` in this block. An unexpected exception ends the block, is logged, and its
    reason is passed to `set_aside`. Only SHARED_FAILURES and cancellation are raised."""
    try:
        yield
    except SHARED_FAILURES:
        raise
    except Exception as error:
        logger.exception("set aside item=%r", item)
        if set_aside is None:  # the item is not stored
            return
        try:
            await set_aside(error_text(error))
        except SHARED_FAILURES:
            raise
        except Exception:
            logger.exception("setting aside was not stored item=%r", item)


async def keep_running(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run an endless task, and restart it with backoff if it crashes. Raise its error after
    MAX_CRASHES crashes within CRASH_WINDOW seconds."""
    backoff = Backoff(least=FIRST_PAUSE, most=MAX_PAUSE)
    crashes: deque[float] = deque(maxlen=MAX_CRASHES)
    while True:
        started = time.monotonic()
        try:
            await work()
            raise RuntimeError(f"{name} has ended")
        except StoreError as error:
            if retries.is_being_cancelled():
                raise
            logger.error("task waits for the store task=%s: %s", name, error)  # noqa: TRY400
        except StoreClosed:
            raise
        except Exception:
            crashes.append(time.monotonic())
            if len(crashes) == MAX_CRASHES and crashes[-1] - crashes[0] < CRASH_WINDOW:
                raise
            logger.exception("restarting task=%s crashes=%d", name, len(crashes))
        if time.monotonic() - started > CRASH_WINDOW:
            backoff.reset()
        await asyncio.sleep(backoff.next())


async def finish(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    """Wait up to `seconds` for the tasks, then cancel them."""
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
    await cancel(*tasks)


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait until they have ended. A task whose clean-up hangs, or that goes on
    in spite of it, is cancelled again, and in the end left behind: no task can keep the gateway
    from stopping."""
    waiting = set(tasks)
    for _ in range(CANCEL_ATTEMPTS):
        if not waiting:
            return
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=CANCEL_AGAIN_SECONDS)
    for task in waiting:
        logger.error("task left behind, it does not end task=%s", task.get_name())
