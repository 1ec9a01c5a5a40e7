"""The link that pairs a browser, once."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from segue.store import owners
from tests.web.chromium.watched_page import REFUSED, Eyes, link, live, say, shows
from tests.web.conftest import Site

pytestmark = pytest.mark.real


async def test_the_link_pairs_a_browser_and_leaves_no_trace_of_its_token(site: Site, eyes: Eyes):
    async with site.gateway():
        url = await link(site.store)
        token = url.partition("#t=")[2]
        page = await eyes.open(url)
        await live(page)
        assert page.url == f"{site.url}/"
        assert await page.context.cookies() == []
        kept = await page.evaluate(
            "JSON.stringify([{...sessionStorage}, {...localStorage}, history.state])"
            " + document.documentElement.outerHTML"
        )
        assert token not in kept
        assert not [asked for asked in eyes.asked(page) if token in asked]
        await page.reload()
        await live(page)


async def test_a_second_browser_with_the_same_link_is_shown_what_to_do(site: Site, eyes: Eyes):
    async with site.gateway():
        url = await link(site.store)
        await live(await eyes.open(url))
        late = await eyes.open(url, tolerates=REFUSED)
        await expect(late.get_by_role("heading")).to_have_text("This link no longer works")
        await expect(late.get_by_role("main")).to_contain_text("/handoff web")
        assert late.url == f"{site.url}/"
        again = await eyes.open(site.url, tolerates=REFUSED)
        await expect(again.get_by_role("heading")).to_have_text("This browser is not paired yet")


async def test_a_browser_that_opens_three_links_is_one_browser(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store), tolerates=REFUSED)
        await live(page)
        [paired] = await owners.identities(site.store, "me")
        for tab in (page, await page.context.new_page()):
            url = await link(site.store)
            await tab.goto(url)
            await live(tab)
            late = await eyes.open(url, tolerates=REFUSED)  # it is used up
            await expect(late.get_by_role("heading")).to_have_text("This link no longer works")
        assert await owners.identities(site.store, "me") == (paired,)


async def test_a_browser_that_is_revoked_is_paired_again_by_a_link(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store), tolerates=REFUSED)
        await live(page)
        [paired] = await owners.identities(site.store, "me")
        await owners.unlink(site.store, paired.sender.platform, paired.sender.user_id)
        await expect(page.get_by_role("heading")).to_have_text("This browser is not paired yet")
        await page.goto(await link(site.store))
        await live(page)
        [again] = await owners.identities(site.store, "me")
        assert again.sender.user_id != paired.sender.user_id


async def test_a_browser_that_is_paired_can_open_any_link(site: Site, eyes: Eyes):
    async with site.gateway():
        url = await link(site.store)
        page = await eyes.open(url, tolerates=REFUSED)
        await live(page)
        await page.get_by_role("button", name="New conversation").first.click()
        await say(page, "hello")
        await shows(page, "hello", "(1) hello")
        await page.goto("about:blank")
        await page.goto(url)
        await live(page)
        await shows(page, "hello", "(1) hello")
