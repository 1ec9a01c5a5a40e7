"""The adapter of the built-in page. What is sent there is kept in the store and shown by whatever
browser is open, now or later; what people do there is recorded before it is heard."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Sequence

from segue.config import WebSettings
from segue.core.address import Address, HomeChannel, Platform, Sender
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.core.session import ME
from segue.platforms.base import (
    Attachment,
    Button,
    Capabilities,
    Dialect,
    Inbound,
    InboundKind,
    Part,
    Receipt,
)
from segue.store import Store, Topic
from segue.store.pages import Act, PageUpdate
from segue.web import addresses
from segue.web.server import Server

_LOOK = 5.0
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

    async def connect(self) -> None:
        if self._server is None:
            server = Server(self._store, lan=self._settings.lan)
            try:
                await server.start(self._settings.port)
            except OSError as error:
                reason = error.strerror or str(error)
                raise ConnectFailed(platform=self.platform, reason=reason) from error
            self._server = server
        await self._make_home()

    async def _make_home(self) -> None:
        """Handoffs can arrive without anybody having typed /sethome: there is only one place."""
        homes = await self._store.owners.homes(ME)
        if all(home.platform is not self.platform for home in homes):
            home = HomeChannel(address=addresses.of(ME), name=socket.gethostname())
            await self._store.owners.set_home(ME, home)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def receive(self) -> AsyncGenerator[Inbound]:
        async with self._store.listen(Topic.PAGES) as wake:
            while True:
                for update in await self._store.pages.unheard():
                    if inbound := await self._inbound(update):
                        yield inbound
                    await self._store.pages.heard(update.no)
                await wake.wait(_LOOK)

    async def _inbound(self, update: PageUpdate) -> Inbound | None:
        page = await self._store.pages.get(update.page)
        if page is None:
            return None
        kind = InboundKind.BUTTON if update.act is Act.PRESS else InboundKind.MESSAGE
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
        page = await self._page(to)
        shown = await self._store.pages.show(page, key, part.text, _pairs(buttons))
        self._tell(page, shown.no)
        return Receipt(str(shown.no))

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        edited = await self._store.pages.edit(int(receipt), part.text, _pairs(buttons))
        if edited is None:
            raise DeliveryFailed(platform=self.platform, reason="that message is gone")
        self._tell(edited.page, edited.no)

    async def typing(self, at: Address) -> None:
        if self._server is not None and at.thread_id is not None:
            self._server.working(at.thread_id, self.capabilities.typing_seconds)

    async def fetch(self, attachment: Attachment) -> bytes:
        raise DeliveryFailed(platform=self.platform, reason="the page takes no files yet")

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        page = await self._store.pages.begin(home.chat_id, title, key=f"handoff:{key}")
        if self._server is not None:
            self._server.listed(home.chat_id)
        return addresses.of(home.chat_id, page.id)

    def pairing_link(self, code: str) -> str | None:
        return None if self._server is None else f"{self._server.url}/#t={code}"

    async def _page(self, to: Address) -> str:
        """The conversation at that address; what is sent to the page itself gets one of its own."""
        if to.thread_id is not None and await self._store.pages.get(to.thread_id):
            return to.thread_id
        if to.thread_id is None:
            page = await self._store.pages.begin(to.chat_id, "Home", key=f"home:{to.chat_id}")
            return page.id
        raise DeliveryFailed(platform=self.platform, reason="that conversation is gone")

    def _tell(self, page: str, no: int) -> None:
        if self._server is not None:
            self._server.changed(page, no)


def _pairs(buttons: Sequence[Button]) -> tuple[tuple[str, str], ...]:
    return tuple((button.label, button.data) for button in buttons)
