"""The page without a mouse: every step is a key, and the focus is always visible."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from tests.gateway.test_approvals import runs
from tests.web.chromium.watched_page import PHONE, Eyes, in_conversation, link, live, shows
from tests.web.conftest import Site

pytestmark = pytest.mark.real

MOST = 40
"""The maximum number of steps to reach an element."""


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def go_to(page: Page, wanted: Locator, key: str = "Tab") -> None:
    """Move the focus on until it is there, checking that it is visible."""
    await expect(wanted).to_be_visible()
    for _ in range(MOST):
        await press(page, key)
        if await wanted.evaluate("e => e === document.activeElement"):
            outline = await wanted.evaluate("e => getComputedStyle(e).outlineStyle")
            assert outline != "none", "nobody sees where the focus is"
            return
    raise AssertionError(f"{wanted} is out of reach")


async def test_everything_can_be_done_with_the_keyboard(site: Site, eyes: Eyes, tmp_path: Path):
    made = tmp_path / "made"
    async with site.gateway(model=["I am here.", "I am here, too.", "Hello.", *runs(made)]):
        for title in ("Boats", "Maps"):
            async with site.terminal(("Hi", "Hello"), title=title) as desk:
                await desk.hand_off("web")
        page = await eyes.open(await link(site.store))
        await live(page)
        listed = page.get_by_role("navigation", name="Conversations")
        await go_to(page, listed.get_by_role("link", name="Maps"))
        await press(page, "ArrowDown")
        await expect(listed.get_by_role("link", name="Boats")).to_be_focused()
        await press(page, "Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Boats")
        await expect(in_conversation(page, "I am here.")).to_be_visible()

        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await page.keyboard.type("One line,")
        await press(page, "Shift+Enter")
        await page.keyboard.type("and another")
        await press(page, "Enter")
        await expect(in_conversation(page, "Hello.")).to_be_visible()
        said = in_conversation(page, "and another")
        await expect(said).to_have_text("One line,\nand another", use_inner_text=True)
        await page.keyboard.type("Make it")
        await press(page, "Enter")
        allow = page.get_by_role("button", name="Allow", exact=True)
        await expect(allow).to_be_enabled()
        await go_to(page, allow, "Shift+Tab")
        await press(page, "Enter")
        await expect(in_conversation(page, "result:")).to_be_visible()
        assert made.exists()

        await go_to(page, page.get_by_role("button", name="New conversation"), "Shift+Tab")
        await press(page, "Enter")
        await expect(page.get_by_text("What can I do for you?")).to_be_visible()
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await press(page, "Escape")
        await go_to(page, page.get_by_role("link", name="Health"), "Shift+Tab")
        await press(page, "Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Health")


async def test_the_list_on_a_phone_opens_and_closes_with_the_keyboard(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store), size=PHONE)
        await live(page)
        await go_to(page, page.locator("#blank").get_by_role("button", name="New conversation"))
        await press(page, "Enter")
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await page.keyboard.type("hello")
        await press(page, "Enter")
        await shows(page, "hello", "(1) hello")
        menu = page.get_by_role("button", name="Conversations")
        await go_to(page, menu, "Shift+Tab")
        await press(page, "Enter")
        chosen = page.get_by_role("navigation", name="Conversations").get_by_role("link")
        await expect(chosen).to_be_focused()
        await press(page, "Escape")
        await expect(menu).to_be_focused()
        await press(page, "Enter")
        await expect(chosen).to_be_focused()
        await press(page, "Enter")
        await expect(page.locator("#side")).not_to_be_in_viewport()
        await expect(menu).to_be_focused()
