"""The server that the page and the webhooks share. It runs as long as one of them is mounted, on a
port that stays the same across restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from segue.config import WebSettings
from segue.core.address import Platform
from segue.core.errors import ConnectFailed
from segue.platforms.webhook import Webhook
from segue.store import Store
from segue.store.processes import machine
from segue.web import hooks, networks
from segue.web.page import WebPage
from segue.web.ports import PortHeld
from segue.web.server import Server

_NO_NETWORK = (
    "this machine has no address in a private network, so no phone could open the page. Type"
    " `segue gateway start` without --lan, and `segue config set web.lan false`"
)

logger = logging.getLogger(__name__)


class SharedServer:
    def __init__(self, settings: WebSettings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._lock = asyncio.Lock()
        self.server: Server | None = None
        """None while nothing is mounted."""

    async def mount_page(self, page: WebPage) -> str:
        """Serve the page and return its URL, or raise ConnectFailed."""
        server = await self._mount(Platform.WEB, lambda server: server.open_page(page))
        return server.url

    async def unmount_page(self) -> None:
        async with self._lock:
            if self.server is not None:
                await self.server.close_page()
                await self._stop_if_unused(self.server)

    async def mount(self, platform: Platform, webhook: Webhook) -> None:
        server = await self._mount(platform, lambda server: server.hooks.mount(platform, webhook))
        logger.info("webhook mounted url=%s%s%s", server.url, hooks.PATH, platform)

    async def unmount(self, platform: Platform) -> None:
        async with self._lock:
            if self.server is not None:
                await self.server.hooks.unmount(platform)
                await self._stop_if_unused(self.server)

    async def _stop_if_unused(self, server: Server) -> None:
        if server.page is None and not server.hooks:
            self.server = None
            await server.stop()

    async def _mount(self, platform: Platform, mount: Callable[[Server], None]) -> Server:
        async with self._lock:
            if self.server is not None:
                mount(self.server)
                return self.server
            try:
                self.server = await self._started(mount)
            except PortHeld as error:
                if error.is_foreign:
                    await self._forget(error.port)
                raise ConnectFailed(platform=platform, reason=str(error)) from error
            except OSError as error:
                reason = error.strerror or str(error)
                raise ConnectFailed(platform=platform, reason=reason) from error
            return self.server

    async def _started(self, mount: Callable[[Server], None]) -> Server:
        server = Server(self._addresses())
        mount(server)  # first, so that no open page that reconnects finds nothing here
        last = await self._store.pages.place(machine())
        async with contextlib.AsyncExitStack() as stack:
            place = await server.start(self._settings.port, last and last.port)
            stack.push_async_callback(server.stop)
            if last is not None and last.port != place.port:
                logger.warning("page moved port=%d before=%d", place.port, last.port)
            await self._store.pages.settle(machine(), place)
            stack.pop_all()
        return server

    def _addresses(self) -> tuple[str, ...]:
        if not self._settings.lan:
            return (networks.LOOPBACK,)
        if not (private := networks.private_addresses()):
            raise OSError(_NO_NETWORK)
        return (networks.LOOPBACK, *private)

    async def _forget(self, port: int) -> None:
        """Unpair the browsers of this port. A process of another account holds it, and may have
        served pages there that can use the browsers' keys."""
        if forgotten := await self._store.pages.forget(port):
            logger.warning("browsers unpaired port=%d number=%d", port, forgotten)
