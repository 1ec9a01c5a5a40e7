"""How soon another gateway takes over from a killed one on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

import segue.store
from segue.core.session import ME
from segue.store import Store, gateways, owners
from segue.store.gateways import ALIVE_SECONDS, LinkState
from segue.store.processes import whose
from segue.testing.platform import Peer
from tests.crash.conftest import Fakes
from tests.fakes import postgres
from tests.harness.gateway_processes import environment
from tests.rigs import GenericRig

TELEGRAM = GenericRig.platform

SOON = ALIVE_SECONDS / 2
"""Sooner than its heartbeat expires: at the next poll after the server has freed its lock."""
WITHIN = 40.0


@asynccontextmanager
async def gateway(folder: Path, peer: Peer, url: str) -> AsyncGenerator[None]:
    await asyncio.to_thread(folder.mkdir)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "segue", "gateway", "run", "--log", f"{folder}/gateway.log"),
        env={**environment(folder, peer, TELEGRAM), "SEGUE_STORE": url},
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def serving(store: Store, *, exclude: int = 0) -> int:
    """The process that has connected to Telegram."""
    async with asyncio.timeout(WITHIN):
        while True:
            found = await gateways.serving(store, TELEGRAM)
            if found and found.links[TELEGRAM].state is LinkState.CONNECTED:
                pid = whose(found.process)[1]
                if pid != exclude:
                    return pid
            await asyncio.sleep(0.01)


async def gathered(store: Store, count: int) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            if len(await gateways.alive(store)) == count:
                return
            await asyncio.sleep(0.01)


@pytest.mark.real
async def test_a_killed_gateway_is_replaced_before_its_heartbeat_expires(
    fakes: Fakes, postgres_server: postgres.Server, tmp_path: Path
):
    peer = fakes.of(GenericRig)
    async with AsyncExitStack() as stack:
        url = stack.enter_context(postgres_server.database())
        store = await stack.enter_async_context(await segue.store.open(url))
        await owners.ensure(store, ME)
        for number in range(3):
            await stack.enter_async_context(gateway(tmp_path / str(number), peer, url))
        await gathered(store, 3)
        first = await serving(store)
        began = time.monotonic()
        os.kill(first, signal.SIGKILL)
        await serving(store, exclude=first)
        took = time.monotonic() - began
        assert took < SOON, f"it took {took:.1f} s"
