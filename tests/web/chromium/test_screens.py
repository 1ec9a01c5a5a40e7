"""Every screen of the page: on a phone and at a desk, light and dark, enlarged, with a screen
reader."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from msgspec import structs
from playwright.async_api import Page, expect

from segue.core.session import ME
from segue.jobs.queries import jobs as stored_jobs
from tests.turns.conftest import call
from tests.web.chromium.watched_page import (
    DESKTOP,
    PHONE,
    REFUSED,
    Eyes,
    in_conversation,
    link,
    live,
    say,
)
from tests.web.conftest import Site
from tests.web.test_jobs import NEWS, finish

pytestmark = pytest.mark.real

ENLARGED = (640, 400)
"""What is left of a screen of 1280 × 800 at 200 %."""
ANSWER = """\
There are **two** files, both described in [the manual](https://example.org/manual):

| file | lines | state |
| :--- | ---: | :---: |
| `deliver.py` | 239 | green |
| `request.py` | 270 | green |

```python
async def deliver(desk: Desk, claim: Handoff) -> None:
    \"\"\"Carry out a handoff that this gateway has claimed, and never the handoff of another.\"\"\"
    await _carry_out(desk, claim)  # 1 commit
```

# A heading

1. First, a `code`.
2. Then ~~this~~ that.

> Quoted.
"""
Screen = Callable[[Site, Eyes], AbstractAsyncContextManager[Page]]


@contextlib.asynccontextmanager
async def not_paired(site: Site, eyes: Eyes) -> AsyncGenerator[Page]:
    async with site.gateway():
        page = await eyes.open(site.url, tolerates=REFUSED)
        title = page.get_by_role("heading", level=1)
        await expect(title).to_have_text("This browser is not paired yet")
        yield page


@contextlib.asynccontextmanager
async def empty(site: Site, eyes: Eyes) -> AsyncGenerator[Page]:
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await expect(page.get_by_text("No conversations yet")).to_be_visible()
        yield page


@contextlib.asynccontextmanager
async def question(site: Site, eyes: Eyes) -> AsyncGenerator[Page]:
    """A conversation with a history, an answer, and an open question."""
    asks = call("shell", command="make test")
    async with site.gateway(model=["I am here.", ANSWER, asks, "Done."]):
        async with site.terminal(("What is here?", ANSWER), title="Two files") as desk:
            done = await desk.hand_off("web")
        page = await eyes.open(await link(site.store, done.thread))
        await live(page)
        await say(page, "Tell me again")
        await expect(in_conversation(page, "Quoted.")).to_have_count(2)
        await say(page, "Test them")
        await expect(page.get_by_role("button", name="Deny")).to_be_enabled()
        yield page


@contextlib.asynccontextmanager
async def conversation(site: Site, eyes: Eyes) -> AsyncGenerator[Page]:
    async with question(site, eyes) as page:
        await page.get_by_role("button", name="Deny").click()
        await expect(in_conversation(page, "Done.").last).to_be_visible()
        yield page


@contextlib.asynccontextmanager
async def health(site: Site, eyes: Eyes) -> AsyncGenerator[Page]:
    async with question(site, eyes) as page:
        await page.get_by_role("link", name="Health").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Health")
        await expect(page.get_by_text("Two files → web")).to_be_visible()
        yield page


@contextlib.asynccontextmanager
async def jobs(site: Site, eyes: Eyes) -> AsyncGenerator[Page]:
    """A job that was run and one that is paused."""
    ran = await stored_jobs.create(site.store, ME, NEWS)
    await finish(site.store, ran.id, "It rains.")
    paused = await stored_jobs.create(site.store, ME, structs.replace(NEWS, name="tides"))
    await stored_jobs.pause(site.store, ME, paused.id)
    async with site.gateway():
        page = await eyes.open(await link(site.store))
        await live(page)
        await page.get_by_role("link", name="Jobs").click()
        await expect(page.get_by_role("switch")).to_have_count(2)
        yield page


@contextlib.asynccontextmanager
async def offline(site: Site, eyes: Eyes) -> AsyncGenerator[Page]:
    async with conversation(site, eyes) as page:
        pass
    await expect(page.get_by_role("button", name="Try now")).to_be_visible()
    await say(page, "Can you hear me?")
    await expect(page.locator("#pending > article")).to_have_text("Can you hear me?")
    yield page


SCREENS = (not_paired, empty, question, conversation, health, jobs, offline)


@pytest.mark.parametrize("screen", SCREENS)
async def test_every_screen_is_accessible(site: Site, eyes: Eyes, screen: Screen):
    async with screen(site, eyes) as page:
        for size in (DESKTOP, PHONE, ENLARGED):
            await page.set_viewport_size({"width": size[0], "height": size[1]})
            await is_usable(page)
            menu = page.get_by_role("button", name="Conversations")
            if await menu.count():
                await menu.click()
                listed = page.get_by_role("navigation", name="Conversations")
                await expect(listed).to_be_in_viewport(ratio=1)
                await is_usable(page, "light")  # in the dark it was checked beside the others
                await page.keyboard.press("Escape")


async def is_usable(page: Page, *schemes: Literal["light", "dark"]) -> None:
    """Check that the page is accessible, light and dark."""
    for scheme in schemes or ("dark", "light"):
        await page.emulate_media(color_scheme=scheme)
        await settled(page)
        results = await Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
        await fits(page)


async def settled(page: Page) -> None:
    """Wait until all animations are over, except endless ones."""
    await page.wait_for_function(
        "() => document.getAnimations().every((a) =>"
        " a.playState === 'finished' || a.effect.getTiming().iterations === Infinity)"
    )


async def fits(page: Page) -> None:
    """Check that nothing is wider than the screen, except what scrolls by itself."""
    too_wide = """() => [...document.querySelectorAll('*')].filter((e) => {
        const box = e.getBoundingClientRect();
        const apart = e.closest('.sideways, pre, .side, .unseen, .symbols, .skip');
        return box.width > 0 && !apart && (box.right > innerWidth + 1 || box.left < -1);
    }).map((e) => e.outerHTML.slice(0, 200))"""
    assert await page.evaluate(too_wide) == []
    across = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(across) == 0
    composer = page.locator("#composer")
    if await composer.is_visible():
        await expect(composer).to_be_in_viewport(ratio=1)


async def test_light_and_dark_can_be_chosen(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await eyes.open(await link(site.store), dark=True)
        await live(page)
        paper = "getComputedStyle(document.documentElement).backgroundColor"
        dark = await page.evaluate(paper)
        button = page.get_by_role("button", name="Theme")
        await expect(button).to_have_accessible_name("Theme: auto")
        await button.click()
        await expect(button).to_have_accessible_name("Theme: light")
        light = await page.evaluate(paper)
        assert light != dark
        await page.reload()
        await expect(button).to_have_accessible_name("Theme: light")
        assert await page.evaluate(paper) == light
