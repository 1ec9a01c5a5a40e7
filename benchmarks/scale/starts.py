"""The start of a gateway on a given store."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from benchmarks.alternation import of_process
from segue.core.address import Platform
from segue.testing import gateways
from segue.testing.platform import Rules, running


@contextlib.asynccontextmanager
async def starting(url: str) -> AsyncGenerator[Callable[[], Awaitable[float]]]:
    """Yield how to start a gateway on the store, which returns the processor seconds until it is
    connected."""
    with tempfile.TemporaryDirectory() as folder, running(Rules(echo=False)) as peer:
        environment = gateways.environment(Path(folder), peer, Platform.TELEGRAM)
        environment["SEGUE_STORE"] = url
        async with peer.driver() as driver:

            async def start() -> float:
                async with gateways.gateway(environment, driver) as gateway:
                    return of_process(gateway.pid)

            yield start
