"""The adapter of the built-in page. The store keeps every sent message, so any browser can show it,
now or later. User actions are recorded before they are delivered to the gateway."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator, Sequence

from segue.config import WebSettings
from segue.core.address import Address, HomeChannel, Platform, Sender
from segue.core.errors import ConnectFailed, DeliveryFailed, OwnerNotFound
from segue.core.session import ME
from segue.core.text import is_empty, one_line
from segue.platforms.base import (
    BUTTON_LIMIT,
    Attachment,
    Button,
    Capabilities,
    Dialect,
    Finding,
    Inbound,
    InboundKind,
    MenuEntry,
    Part,
    Receipt,
    Upload,
)
from segue.store import Store, Topic
from segue.store.pages import Page, PageAction, PageUpdate
from segue.store.processes import machine
from segue.store.wake import Waiter
from segue.web import addresses, networks
from segue.web.ports import PortHeld
from segue.web.server import Server

_LOOK = 5.0
_TITLE = 200
_UNTITLED = "Conversation"
_NO_NETWORK = (
    "this machine has no address in a private network, so that no phone could open the page. Type"
    " `segue gateway start` without --lan, and `segue config set web.lan false`"
)
_CAPABILITIES = Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    keys=True,
    length=1_000_000,
    dialect=Dialect.SOURCE,
    history=True,
    per_second=1000.0,
    chat_seconds=0.0,
    edit_seconds=0.15,
)

logger = logging.getLogger(__name__)


def make(settings: WebSettings, store: Store) -> WebAdapter:
    return WebAdapter(settings, store)


class WebAdapter:
    platform = Platform.WEB
    capabilities = _CAPABILITIES
    account = "page"

    def __init__(self, settings: WebSettings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._server: Server | None = None
        self._wake: Waiter | None = None

    async def connect(self) -> None:
        if self._server is None:
            self._server = await self._started()
        await self._make_home()

    async def _started(self) -> Server:
        server = Server(self._store, self._addresses())
        last = await self._store.pages.place(machine())
        try:
            place = await server.start(self._settings.port, last and last.port)
        except PortHeld as error:
            if error.is_foreign:
                await self._forget(error.port)
            raise self._failed(str(error)) from error
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        if last is not None and last.port != place.port:
            logger.warning("page moved port=%d before=%d", place.port, last.port)
        await self._store.pages.settle(machine(), place)
        return server

    def _addresses(self) -> tuple[str, ...]:
        if not self._settings.lan:
            return (networks.LOOPBACK,)
        if not (private := networks.private_addresses()):
            raise self._failed(_NO_NETWORK)
        return (networks.LOOPBACK, *private)

    async def _forget(self, port: int) -> None:
        """Unpair the browsers of this port. A process of another account holds it, and may have
        served pages there that can use the browsers' keys."""
        if forgotten := await self._store.pages.forget(port):
            logger.warning("browsers unpaired port=%d number=%d", port, forgotten)

    async def _make_home(self) -> None:
        """Set the home channel, so that handoffs can arrive without /sethome: the page is the only
        place."""
        homes = await self._store.owners.homes(ME)
        if all(home.platform is not self.platform for home in homes):
            home = HomeChannel(address=addresses.of(ME), name=socket.gethostname())
            await self._store.owners.set_home(ME, home)

    async def close(self) -> None:
        server, self._server = self._server, None
        if self._wake is not None:
            self._wake.wake(self._closed())
        if server is not None:
            await server.stop()

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        async with self._store.listen(Topic.PAGES) as self._wake:
            while self._connected():
                for update in await self._store.pages.unheard():
                    if inbound := await self._inbound(update):
                        yield inbound
                    await self._store.pages.heard(update.no)
                await self._wake.wait(_LOOK)

    def _connected(self) -> Server:
        if self._server is None:
            raise self._closed()
        return self._server

    def _closed(self) -> ConnectFailed:
        return self._failed("the page is not being served")

    def _failed(self, reason: str) -> ConnectFailed:
        return ConnectFailed(platform=self.platform, reason=reason)

    async def _inbound(self, update: PageUpdate) -> Inbound | None:
        page = await self._store.pages.get(update.page)
        if page is None:
            return None
        kind = InboundKind.BUTTON if update.act is PageAction.PRESS else InboundKind.MESSAGE
        return Inbound(
            kind=kind,
            update_id=str(update.no),
            address=addresses.of(page.owner, page.id),
            sender=Sender(platform=self.platform, user_id=update.browser),
            text=update.text,
            message_id=str(update.message),
            chat_name=page.title,
        )

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        server = self._connected()
        self._check(part, buttons)
        page = await self._page(to)
        shown = await self._store.pages.show(page, key, part.text, _pairs(buttons))
        server.changed(page, shown.no)
        return Receipt(str(shown.no))

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        server = self._connected()
        self._check(part, buttons)
        edited = await self._store.pages.edit(int(receipt), part.text, _pairs(buttons))
        if edited is None:
            raise self._refused("that message is gone")
        server.changed(edited.page, edited.no)

    def acknowledge(self, press: Inbound) -> None:
        """Do nothing: buttons on the page show no loading indicator."""

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        raise self._refused("the page takes no files yet")

    def how_to_address(self, at: Address) -> str:
        return ""

    def previews(self, at: Address) -> bool:
        return False  # a bubble appears as fast, and stays

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        raise self._refused("the page shows no previews")

    async def typing(self, at: Address) -> None:
        server = self._connected()
        if at.thread_id is not None:
            server.working(at.thread_id, self.capabilities.typing_seconds)

    async def fetch(self, attachment: Attachment) -> bytes:
        raise self._refused("the page takes no files yet")

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        server = self._connected()
        page = await self._begin(home.chat_id, one_line(title, _TITLE), f"handoff:{key}")
        server.listed(home.chat_id)
        return addresses.of(home.chat_id, page.id)

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        pass  # /help lists the commands

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        return None

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        return ()

    def pairing_link(self, code: str) -> str | None:
        return None if self._server is None else f"{self._server.url}/#t={code}"

    async def _page(self, to: Address) -> str:
        """The conversation at that address. Messages to the page itself get a separate one."""
        if to.thread_id is None:
            page = await self._begin(to.chat_id, "Home", f"home:{to.chat_id}")
        else:
            page = await self._store.pages.get(to.thread_id)
        if page is None or page.owner != to.chat_id:
            raise self._refused("that conversation is gone")
        return page.id

    async def _begin(self, owner: str, title: str, key: str) -> Page:
        try:
            return await self._store.pages.begin(owner, title or _UNTITLED, key=key)
        except OwnerNotFound as error:
            raise self._refused("nobody has that page") from error

    def _check(self, part: Part, buttons: Sequence[Button]) -> None:
        length, limit = len(part.text), self.capabilities.length
        if length > limit:
            raise self._refused(f"a message has {limit:,} characters at most, this one {length:,}")
        if is_empty(part.text):
            raise self._refused("there is nothing in it to see")
        if any(len(button.data.encode()) > BUTTON_LIMIT for button in buttons):
            raise self._refused(f"a button holds {BUTTON_LIMIT} bytes at most")

    def _refused(self, reason: str) -> DeliveryFailed:
        return DeliveryFailed(platform=self.platform, reason=reason)


def _pairs(buttons: Sequence[Button]) -> tuple[tuple[str, str], ...]:
    return tuple((button.label, button.data) for button in buttons)
