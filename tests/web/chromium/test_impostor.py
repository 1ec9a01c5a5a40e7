"""Another account's process takes the port of a stopped gateway while the page is open."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request

from segue.store import owners
from tests.web.bare_server import page_server
from tests.web.chromium.watched_page import Eyes, link, live, say, shows
from tests.web.conftest import Site
from tests.web.handshake import ask, opened

pytestmark = pytest.mark.real

Json = dict[str, Any]
WARNING = "Another program answers at this address, and it is not your Segue."
KEPT = """
() => new Promise((resolve) => {
  const opening = indexedDB.open("segue");
  opening.onsuccess = () => {
    const asked = opening.result.transaction("segue").objectStore("segue").get("browser");
    asked.onsuccess = () => resolve(asked.result);
  };
})
"""


@dataclass
class Impostor:
    """Answers each frame with others, and records the frames it receives."""

    answers: Callable[[Json], Awaitable[list[Json]]]
    told: list[Json] = field(default_factory=list[Json])
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @contextlib.asynccontextmanager
    async def serving(self, url: str) -> AsyncGenerator[None]:
        port = urlsplit(url).port
        async with serve(self._talk, "127.0.0.1", port, process_request=self._request):
            yield

    def _request(self, _: ServerConnection, request: Request) -> None:
        self.headers.extend(request.headers.raw_items())

    async def _talk(self, connection: ServerConnection) -> None:
        async for frame in connection:
            told = json.loads(frame)
            self.told.append(told)
            for answer in await self.answers(told):
                await connection.send(json.dumps(answer))


async def reconnects(page: Page) -> None:
    """Reconnect now, without waiting for the pause."""
    await expect(page.locator("#state")).to_have_attribute("data-state", "offline")
    await page.get_by_role("button", name="Try now").click()


async def lies(_: Json) -> list[Json]:
    """Sends every frame that a gateway could send."""
    message = {"no": 1, "rev": 99, "author": "agent", "html": "<p>Evil</p>", "at": "2026-11-17"}
    return [
        {"is": "proof", "nonce": "0" * 64, "proof": "0" * 64},
        {"is": "hello", "version": "1", "host": "evil", "chats": []},
        {"is": "message", "chat": "x", "message": {**message, "buttons": []}},
    ]


async def test_an_open_page_sends_nothing_to_an_impostor_and_reconnects_to_the_gateway(
    site: Site, eyes: Eyes
):
    impostor = Impostor(lies)
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await live(page)
        await page.get_by_role("button", name="New conversation").first.click()
        await say(page, "hello")
        await shows(page, "hello", "(1) hello")
        [identity] = await owners.identities(site.store, "me")
    async with impostor.serving(site.url):
        await reconnects(page)
        await expect(page.get_by_role("alert")).to_contain_text(WARNING)
        await say(page, "a secret")
        await expect(page.locator("#pending")).to_have_text("a secret")
        await expect(page.locator("body")).not_to_contain_text("evil")
    for told in impostor.told:
        assert told.keys() == {"do", "key", "nonce"}
        assert (told["do"], told["key"]) == ("greet", identity.sender.user_id)
    nonces = [told["nonce"] for told in impostor.told]
    assert len(set(nonces)) == len(nonces) > 0
    assert not [value for name, value in impostor.headers if name.lower() == "cookie"]
    async with site.gateway():
        await live(page)
        await shows(page, "hello", "(1) hello", "a secret", "(2) a secret")
        await expect(page.get_by_role("alert")).to_be_hidden()


async def test_an_impostor_cannot_relay_messages_to_the_gateway(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await live(page)
    elsewhere = page_server(site.store)
    await elsewhere.start(0)

    async def relays(told: Json) -> list[Json]:
        async with opened(elsewhere.url) as wire:
            return [await ask(wire, told)]

    impostor = Impostor(relays)
    async with impostor.serving(site.url):
        await reconnects(page)
        # The gateway does not know a browser of another port, so there is nothing to relay.
        await expect(page.get_by_role("heading")).to_have_text("This browser is not paired yet")
    await elsewhere.stop()
    assert [told["do"] for told in impostor.told] == ["greet"]
    async with site.gateway():
        await page.reload()  # the key is still there
        await live(page)


async def test_no_script_can_read_the_key(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await live(page)
        kept = await page.evaluate(
            f"async () => {{ const {{ key }} = await ({KEPT})();"
            " const { extractable, usages } = key;"
            " const read = await crypto.subtle.exportKey('raw', key).catch((e) => e.name);"
            " return { extractable, usages, read }; }"
        )
    assert kept == {"extractable": False, "usages": ["sign"], "read": "InvalidAccessError"}


async def test_a_page_from_another_machine_proves_itself_without_the_browsers_own_hmac(
    site: Site, eyes: Eyes
):
    """Over plain HTTP, a browser has none for a page that is not from this machine."""

    async def without(page: Page) -> None:
        await page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")

    async with site.gateway():
        page = await eyes.open(await link(site.store), first=without)
        await live(page)
        await page.reload()
        await live(page)


async def test_our_own_hmac_is_correct(site: Site, eyes: Eyes):
    chance = random.Random(1)
    lengths = [(0, 0), (20, 8), (32, 55), (32, 56), (64, 64), (65, 119), (131, 152), (200, 1000)]
    cases = [(chance.randbytes(key), chance.randbytes(text)) for key, text in lengths]
    # RFC 4231, test cases 2 and 6.
    cases += [
        (b"Jefe", b"what do ya want for nothing?"),
        (b"\xaa" * 131, b"Test Using Larger Than Block-Size Key - Hash Key First"),
    ]
    async with site.gateway():
        page = await eyes.open(site.url)
        made = await page.evaluate(
            "async (cases) => { const { hmac } = await import('/hmac.js');"
            " return cases.map((case_) => [...hmac(...case_.map((b) => Uint8Array.from(b)))]); }",
            [[[*key], [*text]] for key, text in cases],
        )
    assert [*map(bytes, made)] == [hmac.digest(*case, hashlib.sha256) for case in cases]
