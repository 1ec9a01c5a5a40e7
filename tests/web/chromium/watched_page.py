"""A page in a real browser, with its requests, errors and warnings."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    expect,
)

from segue.core.address import Address
from segue.core.session import ME
from segue.store import Store
from segue.web import endpoints

PHONE = (390, 844)
DESKTOP = (1280, 800)
WITHIN = 15_000
"""Timeout in milliseconds for an expectation."""
REFUSED = ("the server responded with a status of 40", "HTTP Authentication failed")
"""The browser's errors when the server refuses it."""
_GONE = "net::ERR_CONNECTION_"
"""The browser's errors without a server, which may stop before the browser does."""

expect.set_options(timeout=WITHIN)


@dataclass
class Watched:
    """A browser context with its own cookies, and its requests and complaints."""

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
        page.on("console", self._hear)
        page.on("crash", lambda _: self.complaints.append("the page crashed"))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        if not any(words in message.text for words in (_GONE, *self.tolerated)):
            self.complaints.append(f"{message.text} {message.location['url']}")

    def origins(self) -> set[str]:
        """The origins of all requests.

        Inline parts of the page, such as data URLs, do not count.
        """
        parts = map(urlsplit, self.asked)
        return {part.netloc for part in parts if part.scheme not in {"data", "blob", "about"}}


class Eyes:
    """Opens browser contexts, and checks at the end that they report no errors."""

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
        first: Callable[[Page], Awaitable[None]] | None = None,
        **more: Any,
    ) -> Page:
        """Open a new context at that URL. `first` runs before the navigation."""
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
        if first is not None:
            await first(page)
        await page.goto(url)
        return page

    def asked(self, page: Page) -> list[str]:
        """Every URL that the page has requested."""
        return self._watched[page].asked

    async def close(self) -> None:
        """Close all contexts.

        Raises AssertionError after a complaint or a request to another server.
        """
        for watched in self._watched.values():
            await watched.context.close()
        for page, watched in self._watched.items():
            assert not watched.complaints, watched.complaints
            assert watched.origins() == {urlsplit(page.url).netloc}


async def link(store: Store, at: Address | None = None) -> str:
    """A link that signs a browser in and shows the conversation at that address."""
    made = await endpoints.page_link(store, ME, at)
    assert made is not None
    return made


async def live(page: Page) -> None:
    """Wait until the page is connected."""
    await expect(page.locator("#state")).to_have_attribute("data-state", "live")


async def say(page: Page, text: str) -> None:
    """Write a message and send it."""
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def shows(page: Page, *texts: str | re.Pattern[str]) -> None:
    """Wait until the page shows exactly these messages, in this order.

    No message may be waiting to be sent.
    """
    await expect(page.locator("#messages > article > .prose")).to_have_text(list(texts))
    await expect(page.locator("#pending > article")).to_have_count(0)


def in_conversation(page: Page, text: str) -> Locator:
    """The element with that text in the conversation.

    The text for screen readers contains it too.
    """
    return page.locator("#messages").get_by_text(text)
