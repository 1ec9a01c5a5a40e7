"""A gateway in the process of the test: the fastest one, with a scripted model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from segue.agent.models.base import Model
from segue.config import Settings
from segue.gateway.service import Gateway
from segue.platforms.base import Adapter
from segue.platforms.webhook import WebhookServer
from segue.store import Store
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.turns.conftest import Offered

WITHIN = 40.0


@contextlib.asynccontextmanager
async def serve(
    store: Store,
    settings: Settings,
    model: Model,
    adapters: Sequence[Adapter],
    is_connected: Callable[[], Awaitable[bool]],
    webhooks: WebhookServer | None = None,
) -> AsyncGenerator[Gateway]:
    """Run a gateway and yield once it is connected. It is stopped at the end."""
    stop = asyncio.Event()
    async with Turns(store, Agents(store, settings, Offered(model)), titles=False) as turns:
        gateway = Gateway(store, turns, settings, adapters, webhooks)
        running = asyncio.create_task(gateway.run(stop))
        try:
            async with asyncio.timeout(WITHIN):
                while not await is_connected():
                    if running.done():
                        running.result()
                    await asyncio.sleep(0.005)
            yield gateway
        finally:
            stop.set()
            await running
