"""The page keeps the contract of all platforms, over its real wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from pathlib import Path as FilePath
from typing import Any

import pytest

import segue.store
from segue.config import WebSettings
from segue.core.address import Platform
from segue.core.session import ME
from segue.platforms.base import Adapter
from segue.store import Store, Tx
from segue.testing.clock import FakeClock
from segue.web import render
from segue.web.adapter import WebAdapter
from tests.platforms.contract import AdapterContract, part
from tests.platforms.malformed import Path, Specimen
from tests.platforms.rig import File, Lack, Place, Rig, Seen
from tests.web.browser import Browser
from tests.web.door import Door, free_port
from tests.web.proving import Key


class WebRig:
    """Anna has a browser, with a tab for every conversation that she looks at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._settings = WebSettings(port=free_port())
        self._open = contextlib.AsyncExitStack()
        self._tabs: dict[str, Browser] = {}
        self._places: set[str] = set()
        self._adapters: list[WebAdapter] = []
        self._keys: dict[str, Key] = {}
        self._last: dict[str, Any] = {}
        self.anna = ""
        self.name = ""
        self.lacks = frozenset(Lack)
        self.usual = "dm"
        self.adapter: Adapter = self.another()

    async def begin(self) -> None:
        await self.adapter.connect()
        self._keys["anna"] = await self._paired(ME)
        [identity] = await self._store.owners.identities(ME)
        self.anna = identity.sender.user_id
        await self._store.owners.ensure("eve")
        self._keys["eve"] = await self._paired("eve")

    async def end(self) -> None:
        await self._open.aclose()
        await self.adapter.close()

    async def _paired(self, owner: str) -> Key:
        async with self._door() as door:
            return await door.key(owner)

    @contextlib.asynccontextmanager
    async def _door(self) -> AsyncGenerator[Door]:
        """Of the adapter that serves the page; of one for the moment, when none does."""
        serving = [adapter for adapter in self._adapters if adapter._server is not None]
        for_now = None if serving else WebAdapter(WebSettings(port=0), self._store)
        if for_now is not None:
            await for_now.connect()
            serving.append(for_now)
        [adapter] = serving
        assert adapter._server is not None
        try:
            yield Door(adapter._server, self._store, FakeClock())
        finally:
            if for_now is not None:
                await for_now.close()

    def another(self) -> Adapter:
        self._adapters.append(WebAdapter(self._settings, self._store))
        return self._adapters[-1]

    def has_threads(self, shape: str) -> bool:
        return True

    # The wire

    @contextlib.asynccontextmanager
    async def _browser(self, who: str = "anna") -> AsyncGenerator[Browser]:
        async with self._door() as door:
            key = self._keys[who]
            if not await door.knows(key):  # it is at another place, for now
                key = await door.key(ME)
            async with door.browser(key) as browser:
                yield browser

    async def _tab(self, page: str) -> Browser:
        """One with that conversation open, now that it has seen all there is."""
        tab = self._tabs.get(page)
        if tab is None or tab.wire.close_code is not None:
            tab = self._tabs[page] = await self._open.enter_async_context(self._browser())
            await tab.ask("open", chat=page)
        await tab.ask("open", chat="nowhere")
        await tab.until("refused")
        return tab

    async def _do(self, do: str, **fields: Any) -> str:
        """Let Anna do it; the conversation that it is taken in."""
        self._last = {"do": do, "key": str(uuid.uuid4()), **fields}
        async with self._browser() as browser:
            await browser.ask(**self._last)
            return (await browser.until("taken", key=self._last["key"]))["chat"]

    async def _chats(self) -> list[str]:
        async with self._browser() as browser:
            return [chat["id"] for chat in (await browser.until("hello"))["chats"]]

    async def _messages(self, page: str) -> list[dict[str, Any]]:
        async with self._browser() as browser:
            await browser.ask("open", chat=page)
            return (await browser.until("shown"))["messages"]

    # Anna

    async def place(self, shape: str) -> Place:
        page = await self._do("new")
        self._places.add(page)
        return Place(ME, page)

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        assert not files
        tab = await self._tab(at.thread or "")
        self._last = {"do": "say", "key": str(uuid.uuid4()), "chat": at.thread, "text": text}
        await tab.ask(**self._last)
        said = await tab.until("message", lambda t: t["message"]["key"] == self._last["key"])
        return str(said["message"]["no"])

    async def command(self, at: Place, text: str) -> str:
        return await self.say(at, text)

    async def forward(self, at: Place, author: str, text: str) -> str:
        raise NotImplementedError

    async def reply(self, at: Place, message: str, text: str) -> str:
        raise NotImplementedError

    async def edit(self, message: str, text: str) -> None:
        raise NotImplementedError

    async def press(self, message: str, label: str) -> None:
        for page in await self._chats():
            for shown in await self._messages(page):
                if shown["no"] == int(message):
                    [data] = [b["data"] for b in shown["buttons"] if b["label"] == label]
                    await self._do("press", chat=page, message=shown["no"], data=data)

    async def join(self, at: Place) -> None:
        raise NotImplementedError

    async def delete_thread(self, at: Place) -> None:
        def delete(tx: Tx) -> None:
            assert tx.change("DELETE FROM pages WHERE id = :id", id=at.thread) == 1

        await self._store.write(delete)

    async def other_bot_says(self, at: Place, text: str) -> None:
        """There are none; but somebody else's browser can try."""
        async with self._browser("eve") as browser:
            await browser.ask("say", chat=at.thread, text=text)
            await browser.until("refused")

    # Her eyes

    async def seen(self, text: str) -> Sequence[Seen]:
        found: list[Seen] = []
        for page in await self._chats():
            await self._tab(page)
            found.extend(
                Seen(
                    str(shown["no"]),
                    Place(ME, page),
                    text,
                    tuple(button["label"] for button in shown["buttons"]),
                )
                for shown in await self._messages(page)
                if shown["html"] in (render.html(text), render.plain(text))
            )
        return sorted(found, key=lambda seen: int(seen.id))

    async def typing(self, at: Place) -> int:
        tab = await self._tab(at.thread or "")
        return sum(told["is"] == "working" and told["chat"] == at.thread for told in tab.told)

    async def threads(self, at: Place) -> int:
        return len(set(await self._chats()) - self._places)

    # The platform

    async def repeat(self) -> None:
        async with self._browser() as browser:
            await browser.ask(**self._last)
            await browser.until("taken", key=self._last["key"])

    async def inject(self, updates: Iterable[str]) -> None:
        """Each is refused, and the page goes on."""
        async with self._browser() as browser:
            for update in updates:
                await browser.wire.send(update)
                await browser.until("refused")
            await browser.ask("health")
            await browser.until("health")

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


def specimen(*required: str, **frame: Any) -> Specimen:
    paths: tuple[Path, ...] = (("do",), *((name,) for name in required))
    return Specimen(json.loads(json.dumps(frame)), paths)


KEY = "b43f7c3e-6a55-4e0c-9f07-5b5d0b7cf1a4"
SPECIMENS = (
    specimen("chat", do="open", chat="0badcafe", after=3),
    specimen("chat", "before", do="earlier", chat="0badcafe", before=9),
    specimen("chat", "key", "text", do="say", chat="0badcafe", key=KEY, text="hello"),
    specimen(
        "chat", "key", "message", "data",
        do="press", chat="0badcafe", key=KEY, message=7, data="a:1:once",
    ),
    specimen("key", do="new", key=KEY),
    specimen(do="health"),
)  # fmt: skip


class TestPage(AdapterContract):
    @pytest.fixture
    def rig(self, tmp_path: FilePath, runner: asyncio.Runner) -> Generator[Rig]:
        async def begin() -> tuple[WebRig, Store]:
            store = await segue.store.open(f"sqlite://{tmp_path}/segue.db")
            await store.owners.ensure(ME)
            rig = WebRig(store)
            await rig.begin()
            return rig, store

        async def end() -> None:
            await rig.end()
            await store.close()

        rig, store = runner.run(begin())
        yield rig
        runner.run(end())

    @pytest.fixture
    def shape(self) -> str:
        return "dm"


async def test_the_page_is_a_home_for_what_nobody_asked_for(tmp_path: FilePath):
    """What is sent to the page itself has a conversation of its own, the same again and again."""
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
        await store.owners.ensure(ME)
        adapter = WebAdapter(WebSettings(port=0), store)
        await adapter.connect()
        try:
            [home] = await store.owners.homes(ME)
            assert (home.platform, home.address.thread_id) == (Platform.WEB, None)
            for key in ("1", "2", "2"):
                await adapter.send(home.address, part(f"News {key}"), key=key)
        finally:
            await adapter.close()
        [page] = await store.pages.list(ME)
        assert [m.text for m in await store.pages.changes(page.id, 0)] == ["News 1", "News 2"]
