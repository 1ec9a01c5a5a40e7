"""The view of jobs in a real browser."""

from __future__ import annotations

import pytest
from msgspec import structs
from playwright.async_api import Locator, Page, expect

from segue.core.session import ME
from segue.jobs.queries import jobs
from segue.jobs.values import JobState
from tests.web.chromium.watched_page import DESKTOP, PHONE, Eyes, link, live, say
from tests.web.conftest import Site
from tests.web.test_jobs import NEWS

pytestmark = pytest.mark.real


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


@pytest.mark.parametrize(("size", "dark"), [(PHONE, True), (DESKTOP, False)])
async def test_a_job_is_switched_off_and_on_run_and_deleted(
    site: Site, eyes: Eyes, size: tuple[int, int], dark: bool
):
    news = await jobs.create(site.store, ME, NEWS)
    await jobs.create(site.store, ME, structs.replace(NEWS, name="tides"))
    async with site.gateway(model=["It rains."]):
        page = await eyes.open(await link(site.store), size=size, dark=dark)
        await live(page)
        if size is PHONE:
            await page.get_by_role("button", name="Conversations").click()
        await page.get_by_role("link", name="Jobs").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        shown = card(page, "news")
        await expect(shown).to_contain_text("08:00 (Europe/Oslo)")

        switch = shown.get_by_role("switch")
        await switch.click()
        await expect(switch).to_have_attribute("aria-checked", "false")
        await expect(switch).to_be_focused()
        assert (await jobs.found(site.store, ME, news.id)).state is JobState.PAUSED
        await switch.press("Space")
        await expect(switch).to_have_attribute("aria-checked", "true")
        assert (await jobs.found(site.store, ME, news.id)).state is JobState.ENABLED

        await shown.get_by_role("button", name="Run now").click()
        await expect(shown).to_contain_text("kept in its own session")

        await shown.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("news and the record of its runs are deleted.")
        await dialog.get_by_role("button", name="Keep it").click()
        await expect(shown).to_be_visible()
        await shown.get_by_role("button", name="Delete").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(shown).to_have_count(0)
        await expect(card(page, "tides")).to_be_visible()


async def test_a_reminder_made_in_a_conversation_is_listed(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await live(page)
        await page.get_by_role("link", name="Jobs").click()
        await expect(page.get_by_text("No jobs yet")).to_be_visible()
        await page.get_by_role("button", name="New conversation").first.click()
        await say(page, "/remind 20 Call the bank.")
        await expect(page.locator("#messages")).to_contain_text(
            "It delivers to: the chat where you asked."
        )
        await page.get_by_role("link", name="Jobs").click()
        await expect(card(page, "Call the bank.")).to_contain_text("Delivers to", ignore_case=True)
