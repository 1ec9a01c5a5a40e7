"""Keep one adapter connected. After a failure it reconnects with backoff, unless only the user can
fix the cause."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable

from segue import commands
from segue.commands.base import Where
from segue.core.address import Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, PlatformLost, StoreError
from segue.gateway import absences
from segue.gateway.containment import contain
from segue.gateway.inbound import Receiver
from segue.platforms.base import Adapter, MenuEntry
from segue.platforms.connection import Reconnects
from segue.platforms.webhook import Webhook, WebhookServer
from segue.store import Store, gateways, inbox, retries
from segue.store.gateways import LinkState

CODE = "{code}"
CONTACT_SECONDS = 60.0
"""How often to record that the platform is received from."""

logger = logging.getLogger(__name__)


class PlatformConnection:
    def __init__(
        self,
        store: Store,
        adapter: Adapter,
        receiver: Receiver,
        lost: Callable[[], None],
        reconnects: Reconnects | None = None,
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
        self._reconnects = reconnects or Reconnects()
        self._failure: ConnectFailed | None = None
        self._reason = ""
        """Why there is no connection. Empty if there is one."""
        self._webhooks = webhooks
        self._clock = time.monotonic
        self._contact = -CONTACT_SECONDS

    @property
    def platform(self) -> Platform:
        return self.adapter.platform

    async def run(self) -> None:
        """Receive updates until cancelled. The caller closes the adapter, which can still send."""
        while True:
            self._failure = None
            self._reconnects.begin()
            try:
                await contain(self.platform, self._try, self._down)
            except PlatformLost as error:
                await self._down(str(error))
                self._lost()
            except StoreError as error:  # unrecorded updates are delivered again
                if retries.is_being_cancelled():
                    raise
                await self._down(f"the store is out of order: {error}")
            await self._reconnects.wait(self._failure)

    async def _try(self) -> None:
        try:
            await self.adapter.connect()
            async with self._mounted():
                await self._receive()
        except ConnectFailed as error:
            self._failure = error
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
        self.connected = True
        self.tried = True
        self._reason = ""
        account, link = adapter.account, adapter.pairing_link(CODE)
        await gateways.report(
            self._store,
            self.platform,
            LinkState.CONNECTED,
            detail=adapter.remark,
            account=account,
            link=link,
        )
        await self._offer()
        contact = await gateways.last_contact(self._store, self.platform, account)
        if contact is not None:
            await absences.report(self._store, adapter, contact)
        recorded = await inbox.newest(self._store, self.platform, account)
        adapter.remember(recorded, contact=contact, wanted=self._receiver.wants)
        async with contextlib.aclosing(adapter.receive()) as coming:
            async for inbound in coming:
                if inbound is not None:
                    await self._receiver.receive(adapter, inbound)
                await self._keep_contact()
        raise ConnectFailed(platform=adapter.platform, reason="the connection ended")

    async def _keep_contact(self) -> None:
        """Record from time to time that nothing is missed. While the adapter still reads what was
        written in its absence, something is."""
        now = self._clock()
        if self.adapter.is_caught_up and now >= self._contact + CONTACT_SECONDS:
            self._contact = now
            await gateways.keep_contact(self._store, self.platform, self.adapter.account)

    async def _offer(self) -> None:
        menu = [MenuEntry(c.name, c.summary) for c in commands.available(Where.CHAT)]
        try:
            await self.adapter.offer(menu)
        except DeliveryFailed as error:  # users can still type the commands
            logger.warning("command menu not set platform=%s: %s", self.platform, error)

    async def _down(self, reason: str) -> None:
        self.connected = False
        self.tried = True
        # Said once: a platform that stays away fails in the same way for hours.
        level = logging.DEBUG if reason == self._reason else logging.WARNING
        logger.log(level, "disconnected platform=%s: %s", self.platform, reason)
        self._reason = reason
        try:
            await gateways.report(self._store, self.platform, LinkState.DOWN, detail=reason)
        except StoreError as error:
            logger.error("connection state not stored platform=%s: %s", self.platform, error)  # noqa: TRY400
