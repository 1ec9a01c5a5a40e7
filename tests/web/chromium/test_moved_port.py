"""The gateway restarts while a tab is open."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.web.chromium.watched_page import Eyes, link, live
from tests.web.conftest import Site

pytestmark = pytest.mark.real

MOST = 20
"""The maximum number of attempts before the tab says what to do."""


async def stop_time(page: Page) -> None:
    """From now on, let the page reconnect only when the test asks it to."""
    await page.clock.pause_at(await page.evaluate("Date.now()") + 1000)


async def test_a_tab_whose_page_has_moved_says_how_to_find_it(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store), first=lambda page: page.clock.install())
        await live(page)
        await page.get_by_role("button", name="New conversation").first.click()
        await page.get_by_role("textbox", name="Message").fill("Not sent yet")
        await stop_time(page)
    state, hint = page.locator("#state"), page.get_by_text("It may have moved to another address")
    await expect(state).to_have_attribute("data-state", "offline")
    await expect(hint).to_be_hidden()
    for _ in range(MOST):
        await expect(state).to_have_attribute("data-state", "offline")
        if await hint.is_visible():
            break
        await page.get_by_role("button", name="Try now").click()
    await expect(hint).to_contain_text("On its computer, type segue gateway start.")
    await expect(hint).to_contain_text("type segue pair, and open the link")
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("Not sent yet")
    # It was only unreachable: no hint is left.
    async with site.gateway():
        await page.get_by_role("button", name="Try now").click()
        await live(page)
        await expect(hint).to_be_hidden()
