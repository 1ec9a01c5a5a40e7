"""What a screen reader announces: each event once."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from tests.gateway.test_approvals import runs
from tests.web.chromium.test_moved_port import stop_time
from tests.web.chromium.watched_page import Eyes, in_conversation, link, live, say, shows
from tests.web.conftest import Site

pytestmark = pytest.mark.real

LISTEN = """() => {
    window.announced = [];
    new MutationObserver((changes) => {
        for (const { addedNodes } of changes) {
            for (const node of addedNodes) window.announced.push(node.textContent);
        }
    }).observe(document.getElementById("spoken"), { childList: true });
}"""


async def opened(
    site: Site, eyes: Eyes, first: Callable[[Page], Awaitable[None]] | None = None
) -> Page:
    page = await eyes.open(await link(site.store), first=first)
    await live(page)
    await page.evaluate(LISTEN)
    return page


async def announced(page: Page) -> list[str]:
    return await page.evaluate("window.announced")


async def test_a_question_its_outcome_and_the_answer_are_announced_once(
    site: Site, eyes: Eyes, tmp_path: Path
):
    async with site.gateway(model=["I am here.", *runs(tmp_path / "made")]):
        async with site.terminal(("Hi", "Hello"), title="Boats") as desk:
            await desk.hand_off("web")
        page = await opened(site, eyes)
        await say(page, "Make it")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(in_conversation(page, "result:")).to_be_visible()
        heard = " ".join(await announced(page))
        assert heard.count("May I do this?") == 1
        assert heard.count("Your answer: Allow") == 1
        assert heard.count("result:") == 1


async def at_once(page: Page) -> None:
    """Let the first messages of a conversation arrive together with its session."""
    held: list[dict[str, Any]] = []

    def route(socket: WebSocketRoute) -> None:
        def receive(text: str | bytes) -> None:
            frame = json.loads(text)
            if frame["is"] == "chats":  # the list follows the session
                return
            if frame["is"] != "shown" or frame["entry"] is None:
                socket.send(text)
                return
            held.append(frame)
            lines = [line for frame in held for line in frame["lines"]]
            if any(line["role"] == "assistant" for line in lines):
                whole = {**frame, "was": held[0]["was"], "fresh": True, "lines": lines}
                socket.send(json.dumps(whole))

        socket.connect_to_server().on_message(receive)

    await page.route_web_socket(re.compile("/live$"), route)


async def test_a_first_answer_that_arrives_with_its_question_is_announced(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await opened(site, eyes, at_once)
        await page.get_by_role("button", name="New conversation").first.click()
        await say(page, "hello")
        await shows(page, "hello", "(1) hello")
        assert await announced(page) == ["(1) hello"]


async def test_an_announcement_is_not_repeated_after_a_reconnection(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await opened(site, eyes, first=lambda page: page.clock.install())
        await page.get_by_role("button", name="New conversation").first.click()
        await say(page, "hello")
        await shows(page, "hello", "(1) hello")
        await stop_time(page)
    await expect(page.locator("#state")).to_have_attribute("data-state", "offline")
    async with site.gateway():
        await page.get_by_role("button", name="Try now").click()
        await live(page)
        await say(page, "again")
        await shows(page, "hello", "(1) hello", "again", "(2) again")
        assert await announced(page) == ["(1) hello", "Offline", "Connected again", "(2) again"]


async def test_a_new_conversation_is_announced_once_however_often_the_list_changes(
    site: Site, eyes: Eyes
):
    async with site.gateway():
        page = await opened(site, eyes)
        await page.get_by_role("button", name="New conversation").first.click()
        await say(page, "hello")
        async with site.terminal(("Hi", "Hello"), title="Boats") as desk:
            await desk.hand_off("web")
        await expect(page.locator("#chats a")).to_have_count(2)
        await say(page, "again")
        await expect(in_conversation(page, "again").last).to_be_visible()
        await expect(page.locator("#pending > article")).to_have_count(0)
        await page.evaluate("() => new Promise((resolve) => setTimeout(resolve))")
        heard = await announced(page)
        assert heard.count("New conversation: Boats") == 1
        assert len(set(heard)) == len(heard)
