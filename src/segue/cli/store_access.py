"""Opens the store for a single operation of a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from segue.store import Store

T = TypeVar("T")


def with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """Run `work` on the configured store, and return its result."""
    import asyncio  # noqa: PLC0415 - `segue --help` does without

    import segue.store  # noqa: PLC0415
    from segue import config  # noqa: PLC0415

    async def run() -> T:
        async with await segue.store.open(config.load().store) as store:
            return await work(store)

    return asyncio.run(run())
