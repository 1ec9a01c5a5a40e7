"""Typing without a click first: which element has the focus, and where a key goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.gateway.test_approvals import runs
from tests.web.chromium.paused_model import HaltingModel
from tests.web.chromium.watched_page import DESKTOP, PHONE, Eyes, in_conversation, link, live, say
from tests.web.conftest import Site

pytestmark = pytest.mark.real

ON_A_PHONE = {"size": PHONE, "has_touch": True, "is_mobile": True}
SCREENS = pytest.mark.parametrize(
    "screen", [{"size": DESKTOP}, ON_A_PHONE], ids=["desktop", "phone"]
)


def composer(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


async def with_a_session(site: Site, eyes: Eyes, screen: dict[str, Any]) -> Page:
    """A browser that has just opened the link of a handoff."""
    async with site.terminal(("Hi", "Hello"), title="Boats") as desk:
        await desk.hand_off("web")
    page = await eyes.open(await link(site.store), **screen)
    await live(page)
    return page


@SCREENS
async def test_the_composer_has_the_focus_after_opening_a_link(
    site: Site, eyes: Eyes, screen: dict[str, Any]
):
    async with site.gateway(model=["I am here.", "Done."]):
        page = await with_a_session(site, eyes, screen)
        await expect(composer(page)).to_be_focused()
        await page.keyboard.type("run ls")
        await expect(composer(page)).to_have_value("run ls")
        await page.get_by_role("button", name="Send").click()
        await expect(in_conversation(page, "Done.")).to_be_visible()
        # Another link opens in the same tab.
        await page.evaluate("document.activeElement.blur()")
        await page.goto(await link(site.store))
        await expect(composer(page)).to_be_focused()
        # A gateway that stops refuses what the page has not loaded yet.
        await page.wait_for_load_state("networkidle")


async def test_a_key_pressed_outside_the_composer_goes_to_the_composer(site: Site, eyes: Eyes):
    """No key starts a conversation or does anything else: the user expects to be writing."""
    async with site.gateway(model=["I am here."]):
        page = await with_a_session(site, eyes, {})
        for place in ("body", "#scroller", "#chats a", "#theme"):
            await composer(page).fill("")
            await page.evaluate(
                "(place) => { document.activeElement.blur();"
                " if (place !== 'body') document.querySelector(place).focus(); }",
                place,
            )
            await expect(composer(page)).not_to_be_focused()
            await page.keyboard.type("no /new")
            await expect(composer(page)).to_have_value("no /new")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Boats")
        await expect(page.locator("#chats a")).to_have_count(1)


@SCREENS
@pytest.mark.parametrize("answer", ["Allow", "Deny"])
async def test_the_composer_has_the_focus_after_a_question_is_answered(
    site: Site, eyes: Eyes, tmp_path: Path, screen: dict[str, Any], answer: str
):
    async with site.gateway(model=["I am here.", *runs(tmp_path / "made")]):
        page = await with_a_session(site, eyes, screen)
        await say(page, "Make it")
        await page.get_by_role("button", name=answer, exact=True).click()
        await expect(composer(page)).to_be_focused()
        await expect(in_conversation(page, "result:")).to_be_visible()
        await expect(composer(page)).to_be_focused()


@SCREENS
async def test_the_composer_has_the_focus_after_stop(
    site: Site, eyes: Eyes, screen: dict[str, Any]
):
    model = HaltingModel(["I am here.", "One ⋯ two."])
    async with site.gateway(model=model):
        page = await with_a_session(site, eyes, screen)
        await say(page, "Count")
        await expect(in_conversation(page, "One ⋯")).to_be_visible()
        await page.get_by_role("button", name="Stop").click()
        await expect(composer(page)).to_be_focused()
        model.go_on()
        await expect(page.locator("#working")).to_be_hidden()
        await expect(composer(page)).to_be_focused()


async def test_on_a_touch_screen_enter_starts_a_new_line_and_the_button_sends(
    site: Site, eyes: Eyes
):
    async with site.gateway(model=["I am here.", "So it is:\nred\nblue"]):
        page = await with_a_session(site, eyes, ON_A_PHONE)
        await expect(composer(page)).to_have_attribute("enterkeyhint", "enter")
        await page.keyboard.type("red")
        await page.keyboard.press("Enter")
        await page.keyboard.type("blue")
        await expect(composer(page)).to_have_value("red\nblue")
        await page.get_by_role("button", name="Send").tap()
        said = page.locator("#messages > article > .prose")
        await expect(said.last).to_have_text("So it is:\nred\nblue", use_inner_text=True)
        await expect(said.nth(-2)).to_have_text("red\nblue", use_inner_text=True)
