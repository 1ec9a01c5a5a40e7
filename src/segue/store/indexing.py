"""Full-text indexing in the background, a little at a time, so that others can write."""

from __future__ import annotations

import asyncio
from functools import partial

from segue.store import retries, search
from segue.store.store import Store

POLL_SECONDS = 15.0
"""Seconds between two looks for new messages. A search finds them without the index."""
PAUSE_SECONDS = 0.02
"""Seconds after each batch."""


async def run(store: Store) -> None:
    """Index new messages until cancelled."""
    while True:
        await catch_up(store)
        await asyncio.sleep(POLL_SECONDS)


async def catch_up(store: Store) -> None:
    """Index all messages that are not indexed yet."""
    if await retries.keep("look at the search index", partial(search.is_complete, store)):
        return
    more = True
    while more:
        more = await retries.keep("search index", partial(search.index_some, store))
        await asyncio.sleep(PAUSE_SECONDS)
