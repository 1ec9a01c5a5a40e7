"""Keeping a claim alive while a gateway works on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

from segue.store import retries
from segue.store.base import Topic
from segue.store.store import Store


class ClaimLost(Exception):
    """The work was cancelled, or another gateway has claimed it."""


@contextlib.asynccontextmanager
async def keep(
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
        await retries.keep(f"heartbeat of {topic}", beats)
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
