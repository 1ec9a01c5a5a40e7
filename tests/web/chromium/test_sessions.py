"""Sessions on the page: one entry each, followed wherever they go."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from segue.approvals import queries as approvals
from segue.core.address import ChatType, HomeChannel
from segue.core.approval import Answer
from segue.core.session import ME, Origin
from segue.core.transcript import Message, Role, spoken
from segue.store import bindings, leases, owners, transcripts
from tests.harness.house import Desk
from tests.web.chromium.watched_page import DESKTOP, PHONE, Eyes, link, live, say, shows
from tests.web.conftest import Site
from tests.web.test_sessions import TOPIC, in_terminal, session_with

pytestmark = pytest.mark.real

TRIPS = 10
SIZES = pytest.mark.parametrize(("size", "dark"), [(PHONE, True), (DESKTOP, False)])


def entries(page: Page) -> Locator:
    return page.locator("#chats a")


@SIZES
async def test_ten_round_trips_leave_one_entry_in_the_transcripts_order(
    site: Site, eyes: Eyes, size: tuple[int, int], dark: bool
):
    store = site.store
    session = await session_with(store, "my boat is red", "Good.", title="Boats")
    said: list[str | re.Pattern[str]] = ["my boat is red", "Good."]
    async with site.gateway():
        page = await eyes.open(await link(store), size=size, dark=dark)
        await live(page)
        for trip in range(TRIPS):
            async with in_terminal(store, session) as held:
                now = session.started
                words = (f"terminal {trip}", f"Heard {trip}.")
                messages = [spoken(words[0], now), Message(Role.ASSISTANT, words[1], now)]
                await transcripts.append(store, held.lease, messages)
                said += words
                await shows(page, *said)
                await expect(page.locator("#where")).to_contain_text("in the terminal")
                await Desk(store, held, session).hand_off("web")
            said.append(re.compile("This session has just been handed off"))
            await expect(page.locator("#elsewhere")).to_be_hidden()
            await say(page, f"page {trip}")
            said += [f"page {trip}", re.compile(rf"page {trip}\s*$")]
            await shows(page, *said)
        moves = page.locator(".moved")
        moved = [re.compile("^Moved to the terminal"), re.compile("^Moved here")] * TRIPS
        await expect(moves).to_have_text(moved)
        await expect(entries(page)).to_have_count(1)
        await page.reload()
        await live(page)
        await shows(page, *said)
        await expect(moves).to_have_text(moved)
        await expect(entries(page)).to_have_count(1)


async def test_a_session_on_telegram_is_read_live_and_brought_here(site: Site, eyes: Eyes):
    store = site.store
    session = await session_with(store, "a boat", "Yes.", title="Boats")
    await bindings.rebind(store, session.id, TOPIC, Origin.HANDOFF)
    async with site.gateway():
        page = await eyes.open(await link(store))
        await live(page)
        await expect(entries(page)).to_contain_text("On Telegram")
        await expect(page.locator("#where")).to_contain_text("This conversation is on Telegram.")
        lease = await leases.acquire(store, session.id, "a gateway")
        await transcripts.append(store, lease, [spoken("from the phone", session.started)])
        await shows(page, "a boat", "Yes.", "from the phone")
        await expect(page.locator("#working")).to_be_visible()
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        asked = await approvals.ask(store, lease, "1", "f", "make", TOPIC, seconds=60)
        await expect(page.locator("#where")).to_contain_text("It waits for your approval there.")
        await expect(entries(page)).to_contain_text("On Telegram, waiting for approval")
        await approvals.give(store, asked.id, ME, TOPIC, Answer.NEVER)
        await expect(page.locator("#working")).to_be_visible()
        await transcripts.append(store, lease, [Message(Role.ASSISTANT, "Seen.", session.started)])
        await leases.release(store, lease)
        await shows(page, "a boat", "Yes.", "from the phone", "Seen.")
        await page.get_by_role("button", name="Bring it here").click()
        await expect(page.locator("#elsewhere")).to_be_hidden()
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await say(page, "go on")
        said = ("a boat", "Yes.", "from the phone", "Seen.", "go on", "(3) go on")
        await shows(page, *said)
        await expect(page.locator(".moved")).to_have_text(
            [re.compile("^Moved to Telegram"), re.compile("^Moved here")]
        )
    binding = await bindings.list_bindings(store, ME)
    assert [b.address.chat_type for b in binding] == [ChatType.DM]


async def test_the_menu_moves_a_session_that_is_here(site: Site, eyes: Eyes):
    await owners.set_home(site.store, ME, HomeChannel(address=TOPIC))
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await live(page)
        await page.get_by_role("button", name="New conversation").first.click()
        await say(page, "hello")
        await shows(page, "hello", "(1) hello")
        await page.locator("#actions > summary").click()
        await page.get_by_role("button", name="Move", exact=True).click()
        await expect(page.locator("#messages")).to_contain_text(
            "The gateway does not serve telegram"
        )


async def test_sessions_are_found_renamed_exported_and_deleted(
    site: Site, eyes: Eyes, tmp_path: Path
):
    await session_with(site.store, "the hull is red", "Good.", title="Boats")
    await session_with(site.store, "hello", "Hello.", title="Other")
    async with site.gateway():
        page = await eyes.open(await link(site.store), accept_downloads=True)
        await live(page)
        await expect(entries(page)).to_have_count(2)
        search = page.get_by_role("searchbox", name="Search conversations")
        await search.fill("hull")
        await expect(entries(page)).to_have_count(1)
        await expect(entries(page)).to_contain_text("the hull is red")
        await entries(page).click()
        await shows(page, "the hull is red", "Good.")
        await search.press("Escape")
        await expect(entries(page)).to_have_count(2)

        actions = page.locator("#actions > summary")
        await actions.click()
        await page.get_by_role("button", name="Rename").click()
        await page.get_by_role("textbox", name="Title").fill("Ships")
        await page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Ships")
        await expect(entries(page).first).to_contain_text("Other")

        await actions.click()
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Export").click()
        file = tmp_path / (await download.value).suggested_filename
        await (await download.value).save_as(file)
        header, *lines = map(json.loads, file.read_text().splitlines())
        assert (header["title"], len(lines)) == ("Ships", 2)

        await actions.click()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("button", name="Keep it").click()
        await expect(entries(page)).to_have_count(2)
        await actions.click()
        await page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Ships and all its messages are deleted everywhere.")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(entries(page)).to_have_count(1)
        await expect(page.get_by_text("This conversation was deleted.")).to_be_visible()


async def test_undo_removes_what_it_undid_and_retry_replaces_it(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await live(page)
        await page.get_by_role("button", name="New conversation").last.click()
        await say(page, "one")
        await shows(page, "one", "(1) one")
        await say(page, "two")
        await shows(page, "one", "(1) one", "two", "(2) two")
        await say(page, "/undo")
        await shows(page, "one", "(1) one", re.compile("."))
        notice = await page.locator("#messages > article > .prose").last.text_content() or ""
        await say(page, "/retry")
        await expect(page.locator(".said.agent:not(.notice)")).to_have_text("(1) one")
        await page.reload()
        await live(page)
        await expect(page.locator(".said.agent:not(.notice)")).to_have_text("(1) one")
        assert "two" not in await page.locator("#messages").inner_text() or "two" in notice
