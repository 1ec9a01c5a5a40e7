"""Opens the store for a single operation of a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import segue.store
from segue import config
from segue.core.errors import BadSettings
from segue.core.text import one_line
from segue.store import Store
from segue.terminal.output import notice

T = TypeVar("T")


def warn_of_bad_settings() -> None:
    """Warn if the settings have an error, in a command that does its work nevertheless."""
    try:
        config.load()
    except BadSettings as error:
        found = f"{error.fields['path']}: {error.fields['reason']}"
        notice(f"Warning: there is an error in {one_line(found)}. Type `segue config edit`.")


def with_store(work: Callable[[Store], Awaitable[T]], url: str | None = None) -> T:
    """Run `work` on the store at `url` or else the configured one, and return its result."""

    async def run() -> T:
        async with await segue.store.open(url or config.load().store) as store:
            return await work(store)

    return asyncio.run(run())
