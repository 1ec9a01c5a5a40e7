"""The adapter of the built-in page. The store keeps every sent message, so any browser can show it,
now or later. User actions are recorded before they are delivered to the gateway."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Sequence

from segue.core.address import Address, HomeChannel, Platform, Sender
from segue.core.errors import ConnectFailed, OwnerNotFound
from segue.core.session import ME
from segue.core.text import one_line
from segue.platforms import sending
from segue.platforms.adapter import BaseAdapter
from segue.platforms.base import Button, Capabilities, Dialect, Inbound, InboundKind, Part, Receipt
from segue.platforms.errors import Failures
from segue.store import Store, Topic, owners, pages
from segue.store.pages import Page, PageAction, PageUpdate, home_key
from segue.store.wake import Waiter
from segue.web import endpoints
from segue.web.open_page import address_of
from segue.web.page import WebPage
from segue.web.server import SharedServer

_LOOK = 5.0
_TITLE = 200
_UNTITLED = "Conversation"


class WebAdapter(BaseAdapter):
    platform = Platform.WEB
    capabilities = Capabilities(
        threads=True,
        edits=True,
        buttons=True,
        keys=True,
        length=1_000_000,
        dialect=Dialect.SOURCE,
        history=True,
        per_second=1000.0,
        chat_seconds=0.0,
        edit_seconds=0.15,
    )
    account = "page"

    def __init__(self, store: Store, server: SharedServer) -> None:
        self._failures = Failures(self.platform)
        self._store = store
        self._server = server
        self._served: WebPage | None = None
        """None while the page is not served."""
        self._url = ""
        self._wake: Waiter | None = None

    @property
    def remark(self) -> str:
        server = self._server.server
        return server.moved if server is not None else ""

    async def connect(self) -> None:
        if self._served is None:
            page = WebPage(self._store)
            self._url = await self._server.mount_page(page)
            self._served = page
        await self._make_home()

    async def _make_home(self) -> None:
        """Set the home channel: the page is the only place, so /sethome is not needed."""
        homes = await owners.homes(self._store, ME)
        if all(home.platform is not self.platform for home in homes):
            home = HomeChannel(address=address_of(ME), name=socket.gethostname())
            await owners.set_home(self._store, ME, home)

    async def close(self) -> None:
        self._served = None
        if self._wake is not None:
            self._wake.wake(self._closed())
        await self._server.unmount_page()

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        async with self._store.listen(Topic.PAGES) as self._wake:
            while self._connected():
                for update in await pages.unconfirmed_updates(self._store):
                    if inbound := await self._inbound(update):
                        yield inbound
                    await pages.confirm_update(self._store, update.no)
                await self._wake.wait(_LOOK)

    def _connected(self) -> WebPage:
        if self._served is None:
            raise self._closed()
        return self._served

    def _closed(self) -> ConnectFailed:
        return self._failures.unreachable("the page is not being served")

    async def _inbound(self, update: PageUpdate) -> Inbound | None:
        page = await pages.get(self._store, update.page)
        if page is None:
            return None
        is_button = update.act is PageAction.PRESS
        return Inbound(
            kind=InboundKind.BUTTON if is_button else InboundKind.MESSAGE,
            update_id=str(update.no),
            address=address_of(page.owner, page.id),
            sender=Sender(platform=self.platform, user_id=update.browser),
            text=update.text,
            message_id=str(update.message),
            chat_name=page.title,
        )

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        served = self._connected()
        self._check(part, buttons)
        page = await self._page(to)
        shown = await pages.show(self._store, page, key, part.text, _pairs(buttons))
        served.preview(page, "")
        served.changed(page, shown.no)
        return Receipt(str(shown.no))

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        served = self._connected()
        self._check(part, buttons)
        edited = await pages.edit(self._store, int(receipt), part.text, _pairs(buttons))
        if edited is None:
            raise self._failures.undelivered("the message no longer exists")
        served.changed(edited.page, edited.no)

    def previews(self, at: Address) -> bool:
        return at.thread_id is not None

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        after = int(key.rpartition("/")[2])
        self._connected().preview(at.thread_id or "", part.text, after)

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        self._connected()
        page = await self._begin(home.chat_id, one_line(title, _TITLE), f"handoff:{key}")
        return address_of(home.chat_id, page.id)

    def pairing_link(self, code: str) -> str | None:
        return None if self._served is None else endpoints.pairing_link(self._url, code)

    async def _page(self, to: Address) -> str:
        """The conversation at that address. Messages to the page itself get a separate one."""
        if to.thread_id is None:
            page = await self._begin(to.chat_id, "Home", home_key(to.chat_id))
        else:
            page = await pages.get(self._store, to.thread_id)
        if page is None or page.owner != to.chat_id:
            raise self._failures.undelivered("the conversation no longer exists")
        return page.id

    async def _begin(self, owner: str, title: str, key: str) -> Page:
        try:
            return await pages.begin(self._store, owner, title or _UNTITLED, key=key)
        except OwnerNotFound as error:
            raise self._failures.undelivered("the page has no owner") from error

    def _check(self, part: Part, buttons: Sequence[Button]) -> None:
        with self._failures.delivering():
            sending.check(part, self.capabilities, buttons)


def _pairs(buttons: Sequence[Button]) -> tuple[tuple[str, str], ...]:
    return tuple((button.label, button.data) for button in buttons)
