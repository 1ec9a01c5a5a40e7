"""One session that moves between a real terminal, the page and Telegram."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from segue.core.address import Platform
from segue.core.session import ME
from segue.core.transcript import Kind
from segue.handoffs.values import State
from segue.store import sessions, transcripts
from segue.store.gateways import LinkState
from tests.harness import household
from tests.harness.household import Household
from tests.harness.terminal import Person
from tests.harness.terminal import person as person
from tests.rigs.telegram import TelegramRig
from tests.web.chromium.watched_page import PHONE, Eyes, in_conversation, link, live, say

pytestmark = pytest.mark.real

TRIPS = 10
ON_PHONE = re.compile(r"(\(\d+\) )?phone \d")
TERMINAL, TELEGRAM, HERE = "Moved to the terminal", "Moved to Telegram", "Moved here"


class Traveller:
    """Anna, who continues her session everywhere."""

    def __init__(self, home: Household, page: Page) -> None:
        self.home = home
        self.page = page
        self.said: list[str] = []
        """Her messages, in order."""

    async def at_the_desk(self, text: str, then: str) -> None:
        """Resume the session in a terminal, write there, and hand it off."""
        arguments = ("resume", "sums") if self.said else ("chat", "--title", "Sums")
        self.said.append(text)
        async with self.home.person.opens(*arguments, columns=160, lines=60) as shown:
            await shown.ready()
            shown.say(text)
            await shown.shows(f") {text}")
            await expect(in_conversation(self.page, f") {text}")).to_be_visible()
            await shown.ready()
            shown.say(f"/handoff {then}")
            assert await shown.end() == 0, shown.text
        done = await self.home.handoff(State.COMPLETED, State.FAILED)
        assert done.state is State.COMPLETED, done.error

    async def on_the_page(self, text: str) -> None:
        """Write on the page, which brings the session there."""
        self.said.append(text)
        await say(self.page, text)
        await expect(in_conversation(self.page, f") {text}")).to_be_visible()
        await expect(self.page.locator("#elsewhere")).to_be_hidden()

    async def on_telegram(self, text: str) -> None:
        """Write in the session's topic, which brings the session there."""
        thread = await self.home.thread()  # the only one
        self.said.append(text)
        await self.home.writes(text, thread)
        await self.home.sees(f") {text}", thread)
        await expect(in_conversation(self.page, f") {text}")).to_be_visible()
        await expect(self.page.locator("#where")).to_contain_text("on Telegram")


def add_page(person: Person, port: int) -> None:
    """Let the gateway serve the page on that port."""
    with Path(person.environment["SEGUE_CONFIG"]).open("a") as settings:
        settings.write(f"\n[web]\nport = {port}\nlan = false\n")


async def whole(page: Page) -> list[str]:
    """All messages of the open conversation, in order."""
    await expect(page.locator("#messages > article").first).to_be_visible()
    await page.locator("#scroller").evaluate("scroller => (scroller.scrollTop = 0)")
    await expect(page.locator("#earlier")).to_be_hidden()
    found = await page.locator("#messages > article:not(.notice) > .prose").all_inner_texts()
    return [text.strip() for text in found]


async def ten_round_trips(anna: Traveller) -> list[str]:
    """Return where the session went, as the page words it."""
    moves: list[str] = []
    for trip in range(TRIPS):
        if trip % 2:
            await anna.at_the_desk(f"desk {trip}", then="web")
            await anna.on_the_page(f"page {trip}")
            await anna.on_telegram(f"phone {trip}")
            moves += [TERMINAL, HERE, TELEGRAM]
        else:
            await anna.at_the_desk(f"desk {trip}", then="telegram")
            await anna.on_telegram(f"phone {trip}")
            await anna.on_the_page(f"page {trip}")
            moves += [TERMINAL, TELEGRAM, HERE]
    return moves[1:]  # it started in the terminal


async def test_ten_round_trips_leave_one_entry_and_one_topic_in_the_transcripts_order(
    person: Person, port: int, eyes: Eyes
):
    async with household.opened(person, TelegramRig) as home:
        add_page(person, port)
        await home.at_home(home.rig.forum)
        async with home.gateway():
            await home.until_link(LinkState.CONNECTED, Platform.WEB)
            page = await eyes.open(await link(home.store))
            await live(page)
            anna = Traveller(home, page)
            moves = [re.compile(f"^{move} · ") for move in await ten_round_trips(anna)]
            await home.rig.confirmed()

            (session,) = await sessions.list_sessions(home.store, ME)
            lines = await transcripts.load(home.store, session.id)
            assert [m.content for m in lines if m.content in anna.said] == anna.said
            said = [m.content.strip() for m in lines if m.kind is Kind.SAID]
            assert await whole(page) == said
            await page.reload()
            other = await eyes.open(await link(home.store), size=PHONE, dark=True)
            for browser in (page, other):
                await live(browser)
                assert await whole(browser) == said
                await expect(browser.locator(".moved")).to_have_text(moves)
                await expect(browser.locator("#chats a")).to_have_count(1)
            there = [m.text for m in (await home.rig.look(home.chat)).messages]
            seen, told_there = (list(filter(ON_PHONE.fullmatch, texts)) for texts in (there, said))
            assert seen == told_there
            assert await home.texts(None) == [], "all of it is in the one topic"
