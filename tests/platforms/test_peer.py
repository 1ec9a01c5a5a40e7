"""The test platform itself: what it refuses, what it keeps, and what it does to those who call."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from segue.core.address import Address, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.base import Dialect, Part
from segue.testing.contract.rig import listening
from segue.testing.platform import Hands, Peer, PeerAdapter, Rules, Shape, Trouble, running, serving

BOUND = 15.0


@dataclass
class Stage:
    """The platform in this process, with Anna in a forum, and somebody who calls it by hand."""

    peer: Peer
    hands: Hands
    http: httpx2.AsyncClient
    anna: str
    chat: str
    adapters: list[PeerAdapter] = field(default_factory=list)

    async def call(self, method: str, **fields: Any) -> tuple[int, str]:
        """The status, and the code of the refusal or `ok`."""
        return await self.post(method, msgspec.json.encode(fields))

    async def post(self, method: str, content: bytes, **headers: str) -> tuple[int, str]:
        response = await self.http.post(method, content=content, headers=headers)
        good = response.status_code == 200
        return response.status_code, "ok" if good else response.json()["code"]

    async def adapter(self) -> PeerAdapter:
        adapter = PeerAdapter(Platform.SLACK, self.peer.url, self.peer.token)
        self.adapters.append(adapter)
        await adapter.connect()
        return adapter

    async def home(self, adapter: PeerAdapter) -> Address:
        await self.hands.say(self.anna, self.chat, "home")
        async with listening(adapter) as ear:
            return (await ear.next()).address


@contextlib.asynccontextmanager
async def stage(rules: Rules = Rules(), **more: Any) -> AsyncGenerator[Stage]:  # noqa: B008
    async with serving(rules, **more) as peer, peer.hands() as hands:
        headers = {"Authorization": f"Bearer {peer.token}", "Content-Type": "application/json"}
        async with httpx2.AsyncClient(
            base_url=f"{peer.url}/v1/", headers=headers, trust_env=False
        ) as http:
            anna = await hands.user("Anna")
            chat = await hands.chat(Shape.FORUM, [anna], name="Team")
            made = Stage(peer, hands, http, anna, chat)
            yield made
            for adapter in made.adapters:
                await adapter.close()


# What it refuses


async def test_what_is_malformed_is_refused() -> None:
    async with stage() as at:
        assert await at.call("send", chat=at.chat, text="fine") == (200, "ok")
        assert await at.call("send", chat=at.chat) == (400, "malformed")
        assert await at.call("send", chat=at.chat, text=7) == (400, "malformed")
        assert await at.call("send", chat="", text="x") == (400, "malformed")
        assert await at.call("send", chat=at.chat, text="x", to="y") == (400, "malformed")
        assert await at.call("send", chat=at.chat, text="x", format="html") == (400, "malformed")
        assert await at.call("updates", offset=-1) == (400, "malformed")
        assert await at.post("send", b"[]") == (400, "malformed")
        assert await at.post("send", b"{") == (400, "malformed")
        assert await at.post("me", b"{}", **{"content-type": "text/plain"}) == (415, "malformed")
        assert (await at.http.get("me")).status_code == 405
        assert (await at.hands.look()).texts == ["fine"]


async def test_what_is_unknown_is_refused() -> None:
    async with stage() as at:
        assert await at.call("sing") == (404, "unknown_method")
        assert await at.post("me", b"{}", authorization="Bearer x") == (401, "unauthorized")
        assert await at.call("send", chat="x", text="x") == (404, "chat_not_found")
        assert await at.call("send", chat=at.chat, thread="x", text="x") == (
            404,
            "thread_not_found",
        )
        assert await at.call("edit", chat=at.chat, message="x", text="x") == (
            404,
            "message_not_found",
        )
        assert await at.call("file", file="x") == (404, "file_not_found")
        assert await at.call("updates", offset=1) == (400, "bad_offset")


async def test_what_the_platform_cannot_do_is_refused() -> None:
    bare = Rules(
        threads=False, edits=False, buttons=False, typing=False, keys=False, dialect=Dialect.PLAIN
    )
    button = [{"label": "Yes", "data": "y"}]
    async with stage(bare) as at:
        refused = (400, "not_supported")
        assert await at.call("send", chat=at.chat, text="x", key="k") == refused
        assert await at.call("send", chat=at.chat, text="x", buttons=button) == refused
        assert await at.call("send", chat=at.chat, text="x", format="markup") == refused
        assert await at.call("typing", chat=at.chat) == refused
        assert await at.call("edit", chat=at.chat, message="m", text="x") == refused
        assert await at.call("open_thread", chat=at.chat, title="t") == (400, "no_threads")
        assert (await at.hands.look()).texts == []


async def test_a_key_that_was_used_for_something_else_is_refused() -> None:
    async with stage() as at:
        assert await at.call("send", chat=at.chat, text="x", key="k") == (200, "ok")
        assert await at.call("send", chat=at.chat, text="y", key="k") == (409, "key_reused")
        assert await at.call("open_thread", chat=at.chat, title="x", key="k") == (409, "key_reused")


async def test_the_bot_edits_only_what_is_its_own_and_not_to_the_same() -> None:
    async with stage() as at:
        said = await at.hands.say(at.anna, at.chat, "mine")
        assert await at.call("edit", chat=at.chat, message=said, text="x") == (403, "not_yours")
        await at.call("send", chat=at.chat, text="before")
        [bots] = [m.id for m in (await at.hands.look()).messages if m.text == "before"]
        assert await at.call("edit", chat=at.chat, message=bots, text="after") == (200, "ok")
        assert await at.call("edit", chat=at.chat, message=bots, text="after") == (
            400,
            "not_changed",
        )
        changed = await at.hands.message("after")
        assert changed.earlier == ("before",)


async def test_who_is_too_fast_in_one_chat_is_told_how_long_to_wait() -> None:
    async with stage(Rules(chat_seconds=60, chat_burst=3)) as at:
        other = await at.hands.chat(Shape.DM, [at.anna])
        for _ in range(3):
            assert await at.call("send", chat=at.chat, text="x") == (200, "ok")
        response = await at.http.post(
            "send", content=msgspec.json.encode({"chat": at.chat, "text": "x"})
        )
        assert response.status_code == 429
        assert 0 < response.json()["retry_after"] <= 60
        assert float(response.headers["retry-after"]) == pytest.approx(
            response.json()["retry_after"], abs=0.001
        )
        assert await at.call("send", chat=other, text="x") == (200, "ok")
        assert len((await at.hands.look(at.chat)).messages) == 3


# What it delivers


async def test_a_second_poll_ends_the_first() -> None:
    async with stage() as at:
        first = asyncio.ensure_future(at.call("updates", seconds=30))
        await at.hands.until(lambda shown: shown.calls.get("updates") == 1)
        second = asyncio.ensure_future(at.call("updates", seconds=30))
        assert await first == (409, "conflict")
        await at.hands.say(at.anna, at.chat, "x")
        assert await second == (200, "ok")


# What the hands can do


async def test_trouble_can_be_for_one_chat_only() -> None:
    async with stage() as at:
        other = await at.hands.chat(Shape.DM, [at.anna])
        await at.hands.fail("send", Trouble.BROKEN, times=2, chat=at.chat)
        assert await at.call("send", chat=other, text="x") == (200, "ok")
        for _ in range(2):
            assert await at.call("send", chat=at.chat, text="x") == (500, "internal")
        assert await at.call("send", chat=at.chat, text="x") == (200, "ok")
        shown = await at.hands.look()
        assert shown.calls["send"] == 4
        assert shown.refused == ("internal",) * 2


# Its adapter


@pytest.mark.parametrize("url", ["", "nonsense", "http://[", "http://127.0.0.1:1", "ftp://x"])
async def test_a_platform_that_cannot_be_reached_is_named(url: str) -> None:
    adapter = PeerAdapter(Platform.SLACK, url, "token")
    with pytest.raises(ConnectFailed, match="slack"):
        await adapter.connect()
    await adapter.close()


@pytest.mark.parametrize("token", ["", "secret ü", "secret\nb", "secret \ud800"])
async def test_a_token_that_cannot_be_one_is_named_and_not_shown(token: str) -> None:
    async with serving() as peer:
        adapter = PeerAdapter(Platform.SLACK, peer.url, token)
        with pytest.raises(ConnectFailed, match="token") as failed:
            await adapter.connect()
        assert "secret" not in str(failed.value)
        await adapter.close()


async def test_markup_that_is_refused_is_sent_plain() -> None:
    async with stage() as at:
        adapter = await at.adapter()
        home = await at.home(adapter)
        receipt = await adapter.send(home, Part("```\nopen", "open"), key="1")
        assert (await at.hands.message("open")).format == "plain"
        await adapter.edit(home, receipt, Part("**bold**", "bold"))
        assert (await at.hands.message("**bold**")).format == "markup"


async def test_another_that_polls_with_the_token_is_a_lost_connection() -> None:
    async with stage() as at:
        first, second = await at.adapter(), await at.adapter()
        async with listening(first) as one, listening(second) as two:
            waiting = asyncio.ensure_future(one.next())
            await at.hands.until(lambda shown: shown.calls.get("updates") == 1)
            other = asyncio.ensure_future(two.next())
            with pytest.raises(ConnectFailed, match="Another poll"):
                await waiting
            await at.hands.say(at.anna, at.chat, "x")
            assert (await other).text == "x"


# Its process

SENDER = """
import asyncio, sys
from segue.core.address import Address, ChatType, Platform
from segue.platforms.base import Part
from segue.testing.platform import PeerAdapter

async def main():
    adapter = PeerAdapter(Platform.SLACK, sys.argv[1], sys.argv[2])
    await adapter.connect()
    to = Address(platform=Platform.SLACK, chat_type=ChatType.GROUP, chat_id=sys.argv[3])
    await adapter.send(to, Part("last words", "last words"), key="1")

asyncio.run(main())
"""


async def test_what_it_did_outlives_a_killed_bot(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running(journal=journal) as peer:
        async with peer.hands() as hands:
            anna = await hands.user("Anna")
            chat = await hands.chat(Shape.GROUP, [anna])
            await hands.say(anna, chat, "before")
            await hands.fail("send", Trouble.HANG_AFTER)
            bot = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SENDER, peer.url, peer.token, chat
            )
            await hands.until(lambda shown: shown.hanging == 1, within=BOUND)
            bot.kill()
            assert await bot.wait() == -signal.SIGKILL
            await hands.calm()
            adapter = PeerAdapter(Platform.SLACK, peer.url, peer.token)
            await adapter.connect()
            async with listening(adapter) as ear:
                home = (await ear.next()).address
            words = Part("last words", "last words")
            await adapter.send(home, words, key="1")
            await adapter.close()
            shown = await hands.until(lambda shown: shown.hanging == 0)
            assert shown.texts == ["before", "last words"]
    assert journal.read_text().count("last words") == 2


async def test_no_answer_makes_sense_of_nonsense() -> None:
    async with stage() as at:
        adapter = await at.adapter()
        home = await at.home(adapter)
        await at.hands.fail("updates", Trouble.GARBLED)
        async with listening(adapter) as ear:
            with pytest.raises(ConnectFailed, match="no sense"):
                await ear.next()
        await at.hands.fail("send", Trouble.GARBLED)
        with pytest.raises(DeliveryFailed) as failed:
            await adapter.send(home, Part("x", "x"), key="1")
        assert failed.value.arrived
