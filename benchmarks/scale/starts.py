"""The start of a gateway on a given store."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from benchmarks.alternation import of_process
from segue.core.address import Platform
from segue.testing.platform import Driver, Rules, running
from tests.harness import gateway_processes

PATIENCE = 300.0
"""Seconds of the clock: the machine may be busy, and the store large."""
_NOWHERE = "nowhere"
"""The id of a chat that does not exist, so the snapshot contains no messages."""


@contextlib.asynccontextmanager
async def starting(url: str) -> AsyncGenerator[Callable[[], Awaitable[float]]]:
    """Yield how to start a gateway on the store, which returns the processor seconds until it is
    connected."""
    with tempfile.TemporaryDirectory() as folder, running(Rules(echo=False)) as peer:
        environment = gateway_processes.environment(Path(folder), peer, Platform.TELEGRAM)
        environment["SEGUE_STORE"] = url
        async with peer.driver() as driver:
            yield lambda: _start(environment, driver)


async def _start(environment: dict[str, str], driver: Driver) -> float:
    polls = await _polls(driver)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "segue", "gateway", "run"),
        *("--log", environment["SEGUE_GATEWAY_LOG"]),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        # A gateway polls as soon as it is connected.
        await driver.until(
            lambda shown: shown.calls.get("updates", 0) > polls, chat=_NOWHERE, within=PATIENCE
        )
        return of_process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _polls(driver: Driver) -> int:
    return (await driver.look(_NOWHERE)).calls.get("updates", 0)
