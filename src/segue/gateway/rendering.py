"""Rendering for chats. A long text is rendered in a thread, so that the other chats are not held
up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from segue.platforms import markup
from segue.platforms.base import Capabilities, Part

AT_ONCE = 2_000
"""Characters that are rendered on the event loop. The slowest text of this length takes half of the
50 ms for which the loop may be held."""

# Each busy thread can delay the event loop by Python's switch interval at every step.
_threads = ThreadPoolExecutor(2, thread_name_prefix="render")
T = TypeVar("T")


async def warm() -> None:
    """Import in a thread what rendering needs, so that the first message does not hold the loop."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(_threads, markup.parts, "*words*", Capabilities())


async def parts(body: str, able: Capabilities, *, buttons: bool = False) -> list[Part]:
    """Return `body` as messages for the platform, as `markup.parts` does."""
    return await rendered(partial(markup.parts, buttons=buttons), body, able)


async def rendered(render: Callable[[str, Capabilities], T], body: str, able: Capabilities) -> T:
    """Return what `render` makes of `body`."""
    if len(body) <= AT_ONCE:
        return render(body, able)
    return await asyncio.get_running_loop().run_in_executor(_threads, render, body, able)
