"""Keep one adapter connected. After a failure it reconnects with backoff."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable

from segue import commands
from segue.commands.base import Where
from segue.core.address import Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, PlatformLost, StoreError
from segue.gateway.containment import contain
from segue.gateway.inbound import Receiver
from segue.gateway.pace import Backoff
from segue.platforms.base import Adapter, MenuEntry
from segue.platforms.webhook import Webhook, WebhookServer
from segue.store import Store
from segue.store.gateways import LinkState

CODE = "{code}"

logger = logging.getLogger(__name__)


class PlatformConnection:
    def __init__(
        self,
        store: Store,
        adapter: Adapter,
        receiver: Receiver,
        lost: Callable[[], None],
        backoff: Backoff | None = None,
        *,
        webhooks: WebhookServer | None = None,
    ) -> None:
        """`lost` is called when another gateway turns out to serve the platform."""
        self.adapter = adapter
        self.connected = False
        self.tried = False
        """Whether the first connection attempt has finished, successfully or not."""
        self._store = store
        self._receiver = receiver
        self._lost = lost
        self._backoff = backoff or Backoff()
        self._webhooks = webhooks

    @property
    def platform(self) -> Platform:
        return self.adapter.platform

    async def run(self) -> None:
        """Receive updates until cancelled. The caller closes the adapter, which can still send."""
        while True:
            try:
                await contain(self.platform, self._try, self._down)
            except PlatformLost as error:
                await self._down(str(error))
                self._lost()
            except StoreError as error:  # unrecorded updates are delivered again
                await self._down(f"the store is out of order: {error}")
            await asyncio.sleep(self._backoff.next())

    async def _try(self) -> None:
        try:
            await self.adapter.connect()
            async with self._mounted():
                await self._receive()
        except ConnectFailed as error:
            await self._down(str(error.fields.get("reason", error)))

    @contextlib.asynccontextmanager
    async def _mounted(self) -> AsyncGenerator[None]:
        """Pass the platform's requests to the adapter, if it receives webhooks."""
        if self._webhooks is None or not isinstance(self.adapter, Webhook):
            yield
            return
        try:
            await self._webhooks.mount(self.platform, self.adapter)
            yield
        finally:
            await self._webhooks.unmount(self.platform)

    async def _receive(self) -> None:
        adapter = self.adapter
        logger.info("connected platform=%s account=%s", adapter.platform, adapter.account)
        self.connected = self.tried = True
        account, link = adapter.account, adapter.pairing_link(CODE)
        await self._store.gateways.report(
            self.platform, LinkState.CONNECTED, account=account, link=link
        )
        await self._offer()
        adapter.remember(await self._store.inbox.newest(self.platform, account))
        async with contextlib.aclosing(adapter.receive()) as coming:
            async for inbound in coming:
                self._backoff.reset()
                if inbound is not None:
                    await self._receiver.receive(adapter, inbound)
        raise ConnectFailed(platform=adapter.platform, reason="the connection ended")

    async def _offer(self) -> None:
        menu = [MenuEntry(c.name, c.summary) for c in commands.available(Where.CHAT)]
        try:
            await self.adapter.offer(menu)
        except DeliveryFailed as error:  # users can still type the commands
            logger.warning("command menu not set platform=%s: %s", self.platform, error)

    async def _down(self, reason: str) -> None:
        self.connected, self.tried = False, True
        logger.warning("disconnected platform=%s: %s", self.platform, reason)
        try:
            await self._store.gateways.report(self.platform, LinkState.DOWN, detail=reason)
        except StoreError as error:
            logger.error("connection state not stored platform=%s: %s", self.platform, error)  # noqa: TRY400
