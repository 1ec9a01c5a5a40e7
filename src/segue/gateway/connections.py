"""The platforms of a gateway: their adapters are made, and each is kept connected.

After a failure a platform is connected again with backoff, unless only the user can fix the cause.
If the gateway was away for longer than the platform keeps messages, it notifies the owners that
some may be missing.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from importlib import import_module

from segue import commands
from segue.commands.base import Where
from segue.config import Settings
from segue.core.address import Address, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, PlatformLost, StoreError, UserError
from segue.gateway import texts
from segue.gateway.containment import contained
from segue.gateway.context import Link
from segue.gateway.inbound import Receiver
from segue.platforms import registry
from segue.platforms.adapter import UnavailableAdapter
from segue.platforms.base import Adapter, Gap, MenuEntry
from segue.platforms.connection import Reconnects
from segue.platforms.spec import PlatformSettings
from segue.platforms.webhook import Webhook, WebhookServer
from segue.store import Store, Tx, bindings, gateways, inbox, outbox, owners, retries
from segue.store.gateways import LinkState
from segue.store.outbox import Draft

_PAGE = "segue.web.adapter"
_SERVER = "segue.web.server"
CODE = "{code}"
CONTACT_SECONDS = 60.0
"""How often to record that the platform is received from."""
logger = logging.getLogger(__name__)


def load_adapters(settings: Settings, store: Store) -> tuple[list[Adapter], WebhookServer | None]:
    """Create the adapters, and the HTTP server if it is needed. Each module is imported only now.
    An UnavailableAdapter replaces one that fails to load."""
    enabled = {name: given for name, given in settings.platforms.items() if given.enabled}
    found = [make_adapter(platform, given) for platform, given in enabled.items()]
    has_page = settings.web.enabled and Platform.WEB not in enabled
    if not has_page and not any(isinstance(adapter, Webhook) for adapter in found):
        return found, None
    server = http_server(settings, store)
    if has_page:
        # The web page runs in this process and keeps its content in our store.
        found.append(import_module(_PAGE).WebAdapter(store, server))
    return found, server


def http_server(settings: Settings, store: Store) -> WebhookServer:
    """The server of the page and of webhooks, which listens once something is mounted."""
    return import_module(_SERVER).SharedServer(settings.web, store)


def make_adapter(platform: Platform, given: PlatformSettings) -> Adapter:
    """The adapter of a platform, or an UnavailableAdapter if it fails to load."""
    importlib.invalidate_caches()  # `segue setup` may have installed its packages
    try:
        return registry.make(platform, given)
    except UserError as error:
        return UnavailableAdapter(platform, str(error).removesuffix("."))


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
        self.link = Link()
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
                async with contained(self.platform, self._down):
                    await self._connect()
            except PlatformLost as error:
                await self._down(str(error))
                self._lost()
            except StoreError as error:  # unrecorded updates are delivered again
                if retries.is_being_cancelled():
                    raise
                await self._down(f"the store is unavailable: {error}")
            await self._reconnects.wait(self._failure)

    async def _connect(self) -> None:
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
        self.link.connected = True
        self.link.tried = True
        self._reason = ""
        account = adapter.account
        link = adapter.pairing_link(CODE)
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
            await report_absence(self._store, adapter, contact)
        recorded = await inbox.newest(self._store, self.platform, account)
        adapter.remember(recorded, contact=contact, wanted=self._receiver.gate.wants)
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
            await gateways.record_contact(self._store, self.platform, self.adapter.account)

    async def _offer(self) -> None:
        menu = [MenuEntry(c.name, c.summary) for c in commands.available(Where.CHAT)]
        try:
            await self.adapter.offer(menu)
        except DeliveryFailed as error:  # users can still type the commands
            logger.warning("command menu not set platform=%s: %s", self.platform, error)

    async def _down(self, reason: str) -> None:
        self.link.connected = False
        self.link.tried = True
        # Said once: a platform that stays away fails in the same way for hours.
        level = logging.DEBUG if reason == self._reason else logging.WARNING
        logger.log(level, "disconnected platform=%s: %s", self.platform, reason)
        self._reason = reason
        try:
            await gateways.report(self._store, self.platform, LinkState.DOWN, detail=reason)
        except StoreError as error:
            logger.error("connection state not stored platform=%s: %s", self.platform, error)  # noqa: TRY400


async def report_absence(store: Store, adapter: Adapter, contact: datetime) -> None:
    """Notify the owners, once, if the gateway was away for longer than the platform keeps messages.
    `contact` is when a gateway last received from it."""
    keeps = adapter.capabilities.keeps
    now = datetime.now(UTC)
    if keeps is None or now - contact <= keeps:
        return
    missing = Gap(contact, now - keeps)
    title = registry.SPECS[adapter.platform].title
    body = texts.forgotten(title, keeps, missing.since, missing.until)
    logger.warning(
        "messages not kept platform=%s since=%s until=%s", title, missing.since, missing.until
    )
    await store.write(_notify_owners, adapter.platform, adapter.account, contact, body)


def _notify_owners(tx: Tx, platform: Platform, account: str, contact: datetime, body: str) -> None:
    for owner in owners.all_owners(tx):
        at = _chat_with(tx, platform, owner.id)
        if at is not None:
            key = f"away:{platform}:{account}:{owner.id}:{contact.isoformat()}"
            outbox.enqueue(tx, Draft(key=key, address=at, body=body))


def _chat_with(tx: Tx, platform: Platform, owner: str) -> Address | None:
    """The owner's home channel, or else the chat of their last session there."""
    homes = [home.address for home in owners.homes(tx, owner)]
    chats = [binding.address for binding in bindings.list_bindings(tx, owner)]
    return next((it for it in (*homes, *chats) if it.platform is platform), None)
