"""The page passes the contract suite, over its real protocol."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path as FilePath
from typing import Any

import pytest

import segue.store
from segue.core.address import Platform
from segue.core.session import ME
from segue.platforms.base import Adapter
from segue.store import Store, Tx, owners, pages
from segue.testing.clock import FakeClock
from segue.testing.contract.malformed import Path, Specimen
from segue.testing.contract.rig import Feature, File, Place, Rig, Seen, part
from segue.testing.contract.suite import AdapterContract
from segue.web import render
from segue.web.adapter import WebAdapter
from segue.web.server import Server
from tests.web.bare_server import Door, web_adapter
from tests.web.browser import Browser
from tests.web.handshake import Key


class WebRig(Rig):
    """Anna with an open page that shows all her conversations."""

    name = ""
    lacks = frozenset(
        {
            Feature.EDITS,
            Feature.DELETIONS,
            Feature.FILES,
            Feature.JOINS,
            Feature.FORWARDS,
            Feature.REPLIES,
            Feature.CONNECTION,
            Feature.REPEATS,
        }
    )

    def __init__(self, store: Store, port: int) -> None:
        self._store = store
        self._port = port
        self._open = contextlib.AsyncExitStack()
        self._pages: dict[tuple[str, Server], Browser] = {}
        self._followed = (0, "")
        self._places: set[str] = set()
        self._adapters: list[WebAdapter] = []
        self._keys: dict[str, Key] = {}
        self._last: dict[str, Any] = {}
        self.anna = ""
        self.adapter = self.another()

    async def begin(self) -> None:
        await self.adapter.connect()
        await owners.ensure(self._store, "eve")
        [server] = self._serving()
        for name, owner in (("anna", ME), ("eve", "eve")):
            self._keys[name] = await self._door(server).key(owner)
        [identity] = await owners.identities(self._store, ME)
        self.anna = identity.sender.user_id

    async def end(self) -> None:
        await self._open.aclose()
        await self.adapter.close()

    def _serving(self) -> list[Server]:
        servers = (adapter._server.server for adapter in self._adapters)
        return [server for server in servers if server is not None]

    def _door(self, server: Server) -> Door:
        return Door(server, self._store, FakeClock())

    def another(self) -> Adapter:
        self._adapters.append(web_adapter(self._store, port=self._port))
        return self._adapters[-1]

    def has_threads(self, shape: str) -> bool:
        return True

    # The wire

    @contextlib.asynccontextmanager
    async def _browser(self, who: str = "anna") -> AsyncGenerator[Browser]:
        """Open a page, at the connected adapter, or at a temporary one if none is connected."""
        if serving := self._serving():
            [server] = serving
            async with self._door(server).browser(self._keys[who]) as browser:
                yield browser
            return
        adapter = web_adapter(self._store, port=0)
        await adapter.connect()
        try:
            assert adapter._server.server is not None
            door = self._door(adapter._server.server)
            async with door.browser(await door.key(ME)) as browser:
                yield browser
        finally:
            await adapter.close()

    async def _page(self, who: str = "anna") -> Browser:
        """Return the open page. Open it again after a restart of its server."""
        [server] = self._serving()
        if (who, server) not in self._pages:
            opened = await self._open.enter_async_context(self._browser(who))
            self._pages[who, server] = opened
        return self._pages[who, server]

    async def _follow(self, chat: str) -> Browser:
        """Return the open page once it shows all of that conversation."""
        page = await self._page()
        if self._followed != (id(page), chat):
            self._followed = (id(page), chat)
            await page.ask("open", chat=chat)
        await page.ask("open", chat="nowhere")
        await page.until("refused")
        return page

    async def _do(self, do: str, **fields: Any) -> str:
        """Let Anna do something, and return the conversation in which she did."""
        self._last = {"do": do, "key": str(uuid.uuid4()), **fields}
        return await self._do_again()

    async def _do_again(self) -> str:
        page = await self._page()
        await page.ask(**self._last)
        return (await page.until("taken", key=self._last["key"]))["chat"]

    async def _messages(self) -> list[tuple[str, dict[str, Any]]]:
        """All messages that a new page shows, each with its conversation."""
        async with self._browser() as browser:
            found: list[tuple[str, dict[str, Any]]] = []
            for chat in await self._chats():
                await browser.ask("open", chat=chat)
                shown = await browser.until("shown", chat=chat)
                found.extend((chat, message) for message in shown["messages"])
            return found

    # Anna

    async def place(self, shape: str) -> Place:
        page = await self._do("new")
        self._places.add(page)
        return Place(ME, page)

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        assert not files
        page = await self._follow(at.thread or "")
        self._last = {"do": "say", "key": str(uuid.uuid4()), "chat": at.thread, "text": text}
        await page.ask(**self._last)
        said = await page.until("message", lambda t: t["message"]["key"] == self._last["key"])
        return str(said["message"]["no"])

    async def press(self, message: str, label: str) -> None:
        for chat, shown in await self._messages():
            if shown["no"] == int(message):
                [data] = [b["data"] for b in shown["buttons"] if b["label"] == label]
                await self._do("press", chat=chat, message=shown["no"], data=data)

    async def delete_thread(self, at: Place) -> None:
        def delete(tx: Tx) -> None:
            assert tx.change("DELETE FROM pages WHERE id = :id", id=at.thread) == 1

        await self._store.write(delete)

    async def other_bot_says(self, at: Place, text: str) -> None:
        """The page has no bots. The browser of another owner tries instead."""
        page = await self._page("eve")
        await page.ask("say", chat=at.thread, text=text)
        await page.until("refused")

    # Her eyes

    async def seen(self, text: str) -> Sequence[Seen]:
        looks = (render.html(text), render.plain(text))
        found = [
            Seen(
                str(shown["no"]),
                Place(ME, chat),
                text,
                tuple(button["label"] for button in shown["buttons"]),
            )
            for chat, shown in await self._messages()
            if shown["html"] in looks
        ]
        for seen in found if self._serving() else ():
            await self._follow(seen.place.thread or "")
        return sorted(found, key=lambda seen: int(seen.id))

    async def typing(self, at: Place) -> int:
        return 0

    async def threads(self, at: Place) -> int:
        return len(set(await self._chats()) - self._places)

    async def _chats(self) -> list[str]:
        """The conversations on her page. The list shows only those with a session."""
        sql = "SELECT id FROM pages WHERE owner = :owner ORDER BY active DESC"
        return [row[0] for row in await self._store.read(lambda tx: tx.rows(sql, owner=ME))]

    # The platform

    async def repeat(self) -> None:
        await self._do_again()

    async def inject(self, updates: Iterable[str]) -> None:
        """Send the updates, each of which is refused, and check that the page still works."""
        page = await self._page()
        for update in updates:
            await page.wire.send(update)
            await page.until("refused")
        await page.ask("health")
        await page.until("health")

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


def specimen(*required: str, **frame: Any) -> Specimen:
    paths: tuple[Path, ...] = (("do",), *((name,) for name in required))
    return Specimen(json.loads(json.dumps(frame)), paths)


KEY = "b43f7c3e-6a55-4e0c-9f07-5b5d0b7cf1a4"
SPECIMENS = (
    specimen("chat", do="open", chat="0badcafe", seq=3, edits=1),
    specimen("chat", "before", do="earlier", chat="0badcafe", before=9),
    specimen("chat", "key", "text", do="say", chat="0badcafe", key=KEY, text="hello"),
    specimen(
        "chat", "key", "message", "data",
        do="press", chat="0badcafe", key=KEY, message=7, data="a:1:once",
    ),
    specimen("key", do="new", key=KEY),
    specimen("chat", "key", do="bring", chat="0badcafe", key=KEY),
    specimen("chat", "key", "title", do="rename", chat="0badcafe", key=KEY, title="Boats"),
    specimen("chat", "key", do="delete", chat="0badcafe", key=KEY),
    specimen("chat", "key", do="export", chat="0badcafe", key=KEY),
    specimen("words", do="search", words="boats"),
    specimen(do="more"),
    specimen(do="health"),
)  # fmt: skip


class TestPage(AdapterContract):
    @pytest.fixture
    async def rig(self, tmp_path: FilePath, port: int) -> AsyncGenerator[Rig]:
        async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
            await owners.ensure(store, ME)
            rig = WebRig(store, port)
            await rig.begin()
            yield rig
            await rig.end()


async def test_messages_to_the_page_itself_share_one_conversation(tmp_path: FilePath):
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
        await owners.ensure(store, ME)
        adapter = web_adapter(store, port=0)
        await adapter.connect()
        try:
            [home] = await owners.homes(store, ME)
            assert (home.platform, home.address.thread_id) == (Platform.WEB, None)
            for key in ("1", "2", "2"):
                await adapter.send(home.address, part(f"News {key}"), key=key)
        finally:
            await adapter.close()
        page = await pages.home(store, ME)
        assert page is not None
        assert [m.text for m in await pages.messages(store, page.id)] == ["News 1", "News 2"]
