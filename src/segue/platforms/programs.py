"""Programs on this machine that a platform needs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial

from segue.platforms.errors import Lost

SECONDS = 30.0
"""How long a program may take until it answers."""
_LOOK = 0.2
_DETACHED = '"$@" </dev/null >/dev/null 2>&1 & echo $!'


async def start(*command: str, ask: Callable[[], Awaitable[object]]) -> bool:
    """Start a program that outlives this process. Return True when it answers, or False if it ends
    or takes too long. Until it answers, `ask` raises Lost."""
    run = partial(subprocess.run, start_new_session=True, stdout=subprocess.PIPE, check=True)
    shell = await asyncio.to_thread(run, ["sh", "-c", _DETACHED, "sh", *command])
    process = int(shell.stdout)
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                with contextlib.suppress(Lost):
                    await ask()
                    return True
                await asyncio.sleep(_LOOK)
                os.kill(process, 0)  # it is still there
    except (TimeoutError, ProcessLookupError):
        return False
