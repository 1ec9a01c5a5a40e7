"""What a test sees of the page in a real browser, and what the browser itself complains of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from segue.core.address import Address
from segue.core.session import ME
from segue.store import Store
from segue.web import links

PHONE = (390, 844)
DESKTOP = (1280, 800)
WITHIN = 15_000
"""Milliseconds in which what is expected has to be seen."""
REFUSED = ("Failed to load resource", "WebSocket connection to")
"""What a browser complains of when its server refuses it, or is not there."""

expect.set_options(timeout=WITHIN)


@dataclass
class Watched:
    """A browser with cookies of its own: what it asked for, and what it complained of."""

    context: BrowserContext
    tolerated: Sequence[str]
    asked: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.context.on("page", self._watch)
        self.context.on("weberror", lambda error: self.complaints.append(f"{error.error}"))

    def _watch(self, page: Page) -> None:
        page.on("websocket", lambda socket: self.asked.append(socket.url))
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("crash", lambda _: self.complaints.append("the page crashed"))

    def _hear(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and not text.startswith(tuple(self.tolerated)):
            self.complaints.append(text)

    def origins(self) -> set[str]:
        """Where anything was asked for; what is a part of the page itself asks nobody."""
        parts = map(urlsplit, self.asked)
        return {part.netloc for part in parts if part.scheme not in {"data", "blob", "about"}}


class Eyes:
    """Opens browsers, and sees to it in the end that nothing in them went wrong."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._watched: dict[Page, Watched] = {}

    async def open(
        self,
        url: str,
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        tolerates: Sequence[str] = (),
        **more: Any,
    ) -> Page:
        """A new browser, at that address."""
        context = await self._chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            locale="en-GB",
            timezone_id="Europe/London",
            **more,
        )
        context.set_default_timeout(WITHIN)
        watched = Watched(context, tolerates)
        page = await context.new_page()
        self._watched[page] = watched
        await page.goto(url)
        return page

    def asked(self, page: Page) -> list[str]:
        """Every address that it has asked for anything."""
        return self._watched[page].asked

    async def close(self) -> None:
        """Close them all; AssertionError when one complained, or spoke to another server."""
        for watched in self._watched.values():
            await watched.context.close()
        for page, watched in self._watched.items():
            assert not watched.complaints, watched.complaints
            assert watched.origins() == {urlsplit(page.url).netloc}


async def link(store: Store, at: Address | None = None) -> str:
    """One that lets a browser in, and shows the conversation there."""
    made = await links.opening(store, ME, at)
    assert made is not None
    return made


async def live(page: Page) -> None:
    """Wait until it is connected."""
    await expect(page.locator("#state")).to_have_attribute("data-state", "live")


async def say(page: Page, text: str) -> None:
    """Write it, and send it."""
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def shows(page: Page, *texts: str | re.Pattern[str]) -> None:
    """Wait until exactly these are the messages since the session is here, in this order, and none
    of them waits to be sent."""
    await expect(page.locator("#messages > article > .prose")).to_have_text(list(texts))
    await expect(page.locator("#pending > article")).to_have_count(0)


def told(page: Page, text: str) -> Locator:
    """Where that is said in the conversation; what is there for screen readers says it, too."""
    return page.locator("#messages").get_by_text(text)
