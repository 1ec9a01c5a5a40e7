"""From a real terminal to the page and back, and through a crash of the gateway."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.harness.pty import Terminal
from tests.web.chromium.home import at_home
from tests.web.chromium.watched_page import Eyes, live, say, shows

pytestmark = pytest.mark.real

LINK = re.compile(r"http://127\.0\.0\.1:\d+/#t=\S+&c=\S+")


async def exchange(shown: Terminal, text: str, answer: str) -> None:
    await shown.ready()
    shown.say(text)
    await shown.shows(answer)
    await shown.ready()


async def test_a_session_goes_to_the_page_and_comes_back(tmp_path: Path, eyes: Eyes):
    async with at_home(tmp_path) as home:
        async with home.person.opens(columns=160, lines=60) as shown:
            await exchange(shown, "the boat is red", "You told me: the boat is red.")
            await exchange(shown, "it has two masts", "the boat is red, it has two masts.")
            shown.say("/title Boats")
            await shown.shows("The title of this session is “Boats”.")
            shown.say("/handoff web")
            assert await shown.end() == 0
            found = LINK.search(shown.text)
        assert found is not None
        page = await eyes.open(found[0])
        await live(page)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Boats")
        said = (
            "the boat is red",
            "You told me: the boat is red.",
            "it has two masts",
            "You told me: the boat is red, it has two masts.",
            "I am here.",
        )
        await shows(page, *said)
        await expect(page.locator(".moved")).to_contain_text("Moved here")

        await say(page, "and it is fast")
        knows = "You told me: the boat is red, it has two masts, and it is fast."
        await shows(page, *said, "and it is fast", knows)

        async with home.person.opens("resume", "boats", columns=160, lines=60) as back:
            await back.shows(knows)
            await exchange(back, "home again", "it has two masts, and it is fast, home again.")
            again = (re.compile("^You told me: .*, home again"),)
            await shows(page, *said, "and it is fast", knows, "home again", *again)
            await expect(page.locator(".moved")).to_have_text(
                [re.compile("^Moved here"), re.compile("^Moved to the terminal")]
            )
            await expect(page.locator("#where")).to_contain_text(
                "This conversation is in the terminal."
            )
            listed = page.get_by_role("navigation", name="Conversations").get_by_role("link")
            await expect(listed).to_have_count(1)
            await expect(listed).to_contain_text("In the terminal")


async def test_an_answer_survives_the_death_of_the_gateway(tmp_path: Path, eyes: Eyes):
    async with at_home(tmp_path) as home:
        page = await eyes.open(await home.link())
        await live(page)
        await page.get_by_role("button", name="New conversation").last.click()
        hello = re.compile("^Hello, I am Segue")
        await say(page, "a boat")
        await shows(page, "a boat", hello, "You told me: a boat.")
        home.model.pausing()
        await say(page, "a map")
        begun = ("a boat", hello, "You told me: a boat.", "a map")
        await shows(page, *begun, re.compile(r"^You.*…\s*$"))

        await home.kill_gateway()
        await expect(page.locator("#state")).to_have_attribute("data-state", "offline")
        await say(page, "a lamp")
        await expect(page.locator("#pending > article")).to_have_text("a lamp")
        home.model.go.set()
        await home.start_gateway()
        await live(page)
        both = ("You told me: a boat, a map.", "a lamp", "You told me: a boat, a map, a lamp.")
        await shows(page, *begun, *both)
        await page.reload()
        await shows(page, *begun, *both)
        said = [text for role, text in await home.person.said() if role == "user"]
        assert said == ["a boat", "a map", "a lamp"]
