"""The test platform: what it refuses, its adapter, the contract suite, and the console."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import httpx2
import msgspec
import pytest

from segue.core.address import Address, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.base import Button, Dialect, InboundKind, Part
from segue.testing.contract.connection import ReconnectContract
from segue.testing.contract.rig import Feature, reading
from segue.testing.contract.suite import RemoteContract
from segue.testing.platform import (
    FAKE,
    Driver,
    Peer,
    PeerAdapter,
    Rules,
    Shape,
    Trouble,
    console,
    serving,
)
from segue.testing.platform.rig import PeerRig
from tests.harness.fakes import contract, forked


@dataclass
class Stage:
    """The platform in this process, with Anna in a forum, and an HTTP client."""

    peer: Peer
    driver: Driver
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
        await self.driver.say(self.anna, self.chat, "home")
        async with reading(adapter) as reader:
            return (await reader.next()).address


@contextlib.asynccontextmanager
async def stage(rules: Rules = Rules(), **more: Any) -> AsyncGenerator[Stage]:  # noqa: B008
    async with serving(rules, **more) as peer, peer.driver() as driver:
        headers = {"Authorization": f"Bearer {peer.token}", "Content-Type": "application/json"}
        async with httpx2.AsyncClient(
            base_url=f"{peer.url}/v1/", headers=headers, trust_env=False
        ) as http:
            anna = await driver.user("Anna")
            chat = await driver.chat(Shape.FORUM, [anna], name="Team")
            made = Stage(peer, driver, http, anna, chat)
            yield made
            for adapter in made.adapters:
                await adapter.close()


# Refusals

BUTTON = [{"label": "Yes", "data": "y"}]
BARE = Rules(
    threads=False, edits=False, buttons=False, typing=False, keys=False, dialect=Dialect.PLAIN
)


async def test_malformed_and_unknown_calls_are_refused() -> None:
    async with stage() as at:
        assert await at.call("send", chat=at.chat, text="fine", key="k") == (200, "ok")
        for method, refusal, fields in (
            ("send", (400, "malformed"), {}),
            ("send", (400, "malformed"), {"text": 7}),
            ("send", (400, "malformed"), {"text": "x", "chat": ""}),
            ("send", (400, "malformed"), {"text": "x", "to": "y"}),
            ("send", (400, "malformed"), {"text": "x", "format": "html"}),
            ("send", (404, "chat_not_found"), {"text": "x", "chat": "x"}),
            ("send", (404, "thread_not_found"), {"text": "x", "thread": "x"}),
            ("send", (409, "key_reused"), {"text": "other", "key": "k"}),
            ("edit", (404, "message_not_found"), {"message": "x", "text": "x"}),
            ("open_thread", (409, "key_reused"), {"title": "x", "key": "k"}),
            ("sing", (404, "unknown_method"), {}),
        ):
            assert await at.call(method, **{"chat": at.chat, **fields}) == refusal
        assert await at.call("file", file="x") == (404, "file_not_found")
        assert await at.call("updates", offset=9) == (400, "bad_offset")
        assert await at.post("send", b"[]") == (400, "malformed")
        assert await at.post("me", b"{}", **{"content-type": "text/plain"}) == (415, "malformed")
        assert await at.post("me", b"{}", authorization="Bearer x") == (401, "unauthorized")
        assert (await at.http.get("me")).status_code == 405
        assert (await at.driver.look()).texts == ["fine"]


async def test_calls_that_the_platform_does_not_support_are_refused() -> None:
    async with stage(BARE) as at:
        for method, fields in (
            ("send", {"text": "x", "key": "k"}),
            ("send", {"text": "x", "buttons": BUTTON}),
            ("send", {"text": "x", "format": "markup"}),
            ("typing", {}),
            ("edit", {"message": "m", "text": "x"}),
        ):
            assert await at.call(method, chat=at.chat, **fields) == (400, "not_supported")
        assert await at.call("open_thread", chat=at.chat, title="t") == (400, "no_threads")
        assert (await at.driver.look()).texts == []


async def test_the_bot_edits_only_its_own_messages_and_not_to_the_same_text() -> None:
    async with stage() as at:
        said = await at.driver.say(at.anna, at.chat, "mine")
        assert await at.call("edit", chat=at.chat, message=said, text="x") == (403, "not_yours")
        await at.call("send", chat=at.chat, text="before")
        sent = (await at.driver.message("before")).id
        for refusal in ((200, "ok"), (400, "not_changed")):
            assert await at.call("edit", chat=at.chat, message=sent, text="after") == refusal
        assert (await at.driver.message("after")).earlier == ("before",)


async def test_too_many_calls_in_one_chat_are_refused_with_a_time_to_wait() -> None:
    async with stage(Rules(chat_seconds=60, chat_burst=3)) as at:
        other = await at.driver.chat(Shape.DM, [at.anna])
        for _ in range(3):
            assert await at.call("send", chat=at.chat, text="x") == (200, "ok")
        body = msgspec.json.encode({"chat": at.chat, "text": "x"})
        response = await at.http.post("send", content=body)
        wait = response.json()["retry_after"]
        assert response.status_code == 429
        assert 0 < wait <= 60
        assert float(response.headers["retry-after"]) == pytest.approx(wait, abs=0.001)
        assert await at.call("send", chat=other, text="x") == (200, "ok")


async def test_a_fault_can_be_for_one_chat_only() -> None:
    async with stage() as at:
        other = await at.driver.chat(Shape.DM, [at.anna])
        await at.driver.fail("send", Trouble.BROKEN, times=2, chat=at.chat)
        assert await at.call("send", chat=other, text="x") == (200, "ok")
        for _ in range(2):
            assert await at.call("send", chat=at.chat, text="x") == (500, "internal")
        assert await at.call("send", chat=at.chat, text="x") == (200, "ok")
        shown = await at.driver.look()
        assert shown.calls["send"] == 4
        assert shown.refused == ("internal",) * 2


# The adapter


@pytest.mark.parametrize("url", ["", "nonsense", "http://[", "http://127.0.0.1:1", "ftp://x"])
async def test_an_unreachable_platform_is_named(url: str) -> None:
    adapter = PeerAdapter(Platform.SLACK, url, "token")
    with pytest.raises(ConnectFailed, match="slack"):
        await adapter.connect()
    await adapter.close()


@pytest.mark.parametrize("token", ["", "secret ü", "secret\nb", "secret \ud800"])
async def test_an_invalid_token_is_reported_and_not_shown(token: str) -> None:
    async with serving() as peer:
        adapter = PeerAdapter(Platform.SLACK, peer.url, token)
        with pytest.raises(ConnectFailed, match="token") as failed:
            await adapter.connect()
        assert "secret" not in str(failed.value)
        await adapter.close()


async def test_refused_markup_is_sent_as_plain_text() -> None:
    async with stage() as at:
        adapter = await at.adapter()
        home = await at.home(adapter)
        receipt = await adapter.send(home, Part("```\nopen", "open"), key="1")
        assert (await at.driver.message("open")).format == "plain"
        await adapter.edit(home, receipt, Part("**bold**", "bold"))
        assert (await at.driver.message("**bold**")).format == "markup"


async def test_a_second_poll_ends_the_first_and_loses_its_connection() -> None:
    async with stage() as at:
        first = await at.adapter()
        second = await at.adapter()
        async with reading(first) as one, reading(second) as two:
            waiting = asyncio.ensure_future(one.next())
            await at.driver.until(lambda shown: shown.calls.get("updates") == 1)
            other = asyncio.ensure_future(two.next())
            with pytest.raises(ConnectFailed, match="Another poll"):
                await waiting
            await at.driver.say(at.anna, at.chat, "x")
            assert (await other).text == "x"


async def test_an_invalid_answer_is_a_lost_call() -> None:
    async with stage() as at:
        adapter = await at.adapter()
        home = await at.home(adapter)
        await at.driver.fail("updates", Trouble.GARBLED)
        async with reading(adapter) as reader:
            with pytest.raises(ConnectFailed, match="no sense"):
                await reader.next()
        await at.driver.fail("send", Trouble.GARBLED)
        with pytest.raises(DeliveryFailed) as failed:
            await adapter.send(home, Part("x", "x"), key="1")
        assert failed.value.arrived


# The contract suite

LACKS = frozenset(Feature) - {Feature.RETRY_TIMES, Feature.REPEATS, Feature.REDELIVERY}


class BareRig(PeerRig):
    """Anna on a platform without threads, edits, buttons, typing, keys and markup, whose users can
    only write."""

    rules = msgspec.structs.replace(BARE, echo=False, link=None)
    lacks = LACKS


@pytest.fixture(scope="module")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


class TestWithEverything(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[PeerRig]:
        async with PeerRig.plugged_in(peer) as rig:
            yield rig

    @pytest.fixture(params=[Shape.DM, Shape.CHANNEL, Shape.NO_THREADS, Shape.THREADS_REFUSED])
    def shape(self, request: pytest.FixtureRequest) -> str:
        """Chats whose threads start with a message or not, and chats without threads. A group is
        the usual shape."""
        return request.param


TestWithNothing = contract(BareRig)


class TestReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[PeerRig]:
        async with serving() as peer, PeerRig.plugged_in(peer) as rig:
            yield rig


# The console


async def test_a_user_can_chat_in_a_shell() -> None:
    said: SimpleQueue[str] = SimpleQueue()
    printed: asyncio.Queue[str] = asyncio.Queue()

    async def prints(text: str) -> str:
        async with asyncio.timeout(10):
            while text not in (line := await printed.get()):
                pass
        return line

    shell = asyncio.create_task(console.chat(said.get, printed.put_nowait, port=0))
    url = (await prints("platform is at")).split()[4].rstrip(".")
    adapter = PeerAdapter(Platform.SLACK, url, console.TOKEN)
    await adapter.connect()
    async with reading(adapter) as reader:
        said.put("hello\n")
        home = (await reader.next()).address
        await adapter.send(home, Part("Well?", "Well?"), key="1", buttons=[Button("Yes", "y")])
        await prints("Well? [Yes]")
        for line, kind in (("Yes", InboundKind.BUTTON), ("/status", InboundKind.COMMAND)):
            said.put(f"{line}\n")
            assert (await reader.next()).kind is kind
    await adapter.close()
    said.put("")
    await shell
