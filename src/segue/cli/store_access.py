"""Opens the store for a single operation of a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import segue.store
from segue import config
from segue.store import Store

T = TypeVar("T")


def with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """Run `work` on the configured store, and return its result."""

    async def run() -> T:
        async with await segue.store.open(config.load().store) as store:
            return await work(store)

    return asyncio.run(run())
