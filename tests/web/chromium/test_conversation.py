"""Conversations on the page: messages appear at once, once, and stay."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from tests.gateway.test_approvals import runs
from tests.turns.conftest import call
from tests.web.chromium.paused_model import HaltingModel
from tests.web.chromium.watched_page import (
    DESKTOP,
    PHONE,
    Eyes,
    in_conversation,
    link,
    live,
    say,
    shows,
)
from tests.web.conftest import Site

pytestmark = pytest.mark.real

SIZES = pytest.mark.parametrize(("size", "dark"), [(PHONE, True), (DESKTOP, False)])
ANSWER = "Three things: ⋯ a boat, ⋯ a map, and **a lamp**."
CLICK_AT_ONCE = """() => {
    window.clicked = 0;
    new MutationObserver(() => {
        for (const button of document.querySelectorAll("[data-label=Allow]")) {
            if (window.clicked === 0) button.click();
            window.clicked += 1;
        }
    }).observe(document.getElementById("messages"), { childList: true, subtree: true });
}"""
GROW = """() => {
    const more = document.createElement("p");
    more.style.paddingTop = "500px";
    more.append(Object.assign(document.createElement("b"), { textContent: "The end" }));
    document.getElementById("column").append(more);
    // An earlier scroll event, which arrives only now.
    document.getElementById("scroller").dispatchEvent(new Event("scroll"));
}"""
WHOLE = "Three things: ⋯ a boat, ⋯ a map, and a lamp."


async def begun(eyes: Eyes, site: Site, **more: object) -> Page:
    """A browser with an empty conversation."""
    page = await eyes.open(await link(site.store), **more)  # pyright: ignore[reportArgumentType]
    await live(page)
    await page.get_by_role("button", name="New conversation").last.click()
    await expect(page.get_by_text("What can I do for you?")).to_be_visible()
    return page


@SIZES
async def test_an_answer_is_shown_while_it_streams(
    site: Site, eyes: Eyes, size: tuple[int, int], dark: bool
):
    model = HaltingModel([ANSWER])
    async with site.gateway(model=model):
        page = await begun(eyes, site, size=size, dark=dark)
        await say(page, "What do I need?")
        await shows(page, "What do I need?", "Three things: ⋯ …")
        await expect(page.locator("#working")).to_be_visible()
        model.go_on()
        await shows(page, "What do I need?", "Three things: ⋯ a boat, ⋯ …")
        model.go_on()
        await shows(page, "What do I need?", WHOLE)
        await expect(page.locator("#messages strong")).to_have_text("a lamp")
        await expect(page.locator("#working")).to_be_hidden()


async def test_a_reload_during_an_answer_neither_loses_nor_duplicates_text(site: Site, eyes: Eyes):
    model = HaltingModel([ANSWER, "You are welcome."])
    async with site.gateway(model=model):
        page = await begun(eyes, site)
        await say(page, "What do I need?")
        await shows(page, "What do I need?", "Three things: ⋯ …")
        await page.get_by_role("textbox", name="Message").fill("Tha")
        await page.reload()
        await live(page)
        await shows(page, "What do I need?", "Three things: ⋯ …")
        await expect(page.get_by_role("textbox", name="Message")).to_have_value("Tha")
        model.go_on()
        await shows(page, "What do I need?", "Three things: ⋯ a boat, ⋯ …")
        await page.reload()
        model.go_on()
        await shows(page, "What do I need?", WHOLE)
        await say(page, "Thanks")
        await shows(page, "What do I need?", WHOLE, "Thanks", "You are welcome.")
        await page.reload()
        await shows(page, "What do I need?", WHOLE, "Thanks", "You are welcome.")
    assert len(model.prompts) == 2


class LatePreviews:
    """A connection on which the preview of an answer arrives after the answer."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.has_any = asyncio.Event()

    async def prepare(self, page: Page) -> None:
        await page.route_web_socket(re.compile("/live$"), self._route)

    def _route(self, socket: WebSocketRoute) -> None:
        socket.connect_to_server().on_message(lambda frame: self._pass(socket, str(frame)))

    def _pass(self, socket: WebSocketRoute, text: str) -> None:
        frame = json.loads(text)
        if frame["is"] == "writing":
            if frame["html"]:
                self.held.append(text)
                self.has_any.set()
            return
        socket.send(text)
        if any(line["role"] == "assistant" for line in frame.get("lines", ())):
            for late in self.held:
                socket.send(late)


async def test_a_preview_that_arrives_after_its_answer_is_not_shown(site: Site, eyes: Eyes):
    model, late = HaltingModel(["A boat ⋯ and a map.", "You are welcome."]), LatePreviews()
    async with site.gateway(model=model):
        page = await begun(eyes, site, first=late.prepare)
        await say(page, "What do I need?")
        await late.has_any.wait()
        model.go_on()
        await shows(page, "What do I need?", "A boat ⋯ and a map.")
        await say(page, "Thanks")
        await shows(page, "What do I need?", "A boat ⋯ and a map.", "Thanks", "You are welcome.")


@SIZES
@pytest.mark.parametrize(
    ("label", "lines", "outcome"), [("Allow", 1, "✓ Allowed"), ("Deny", 0, "✗ Not allowed")]
)
async def test_a_question_is_answered_with_a_button(
    site: Site,
    eyes: Eyes,
    tmp_path: Path,
    size: tuple[int, int],
    dark: bool,
    label: str,
    lines: int,
    outcome: str,
):
    made = tmp_path / "made"
    async with site.gateway(model=runs(made)):
        page = await begun(eyes, site, size=size, dark=dark)
        await say(page, "make it")
        question = page.get_by_role("group", name="Your answer")
        await question.get_by_role("button", name=label, exact=True).click()
        await expect(in_conversation(page, outcome)).to_be_visible()
        await expect(in_conversation(page, "result:")).to_be_visible()
        await expect(page.get_by_role("group", name="Your answer")).to_have_count(0)
        await page.reload()
        await expect(in_conversation(page, "result:")).to_have_count(1)
        await expect(in_conversation(page, outcome)).to_be_visible()
        await expect(page.get_by_role("group", name="Your answer")).to_have_count(0)
    assert made.exists() == bool(lines)


async def test_a_click_as_the_question_appears_does_not_answer_it(
    site: Site, eyes: Eyes, tmp_path: Path
):
    made = tmp_path / "made"
    async with site.gateway(model=runs(made)):
        page = await begun(eyes, site)
        await page.evaluate(CLICK_AT_ONCE)
        await say(page, "make it")
        question = page.get_by_role("group", name="Your answer")
        await question.get_by_role("button", name="Deny").click()
        await expect(in_conversation(page, "✗ Not allowed")).to_be_visible()
        assert await page.evaluate("window.clicked") > 0
    assert not made.exists()


async def test_no_activity_is_shown_beside_an_open_question(site: Site, eyes: Eyes, tmp_path: Path):
    activity = asyncio.Event()

    def hear(frame: str | bytes) -> None:
        if "Waiting for your answer" in str(frame):
            activity.set()

    async def watch(page: Page) -> None:
        page.on("websocket", lambda socket: socket.on("framereceived", hear))

    async with site.gateway(model=runs(tmp_path / "made")):
        page = await begun(eyes, site, first=watch)
        await say(page, "make it")
        await expect(page.get_by_role("button", name="Deny")).to_be_enabled()
        await activity.wait()
        await expect(page.locator("#chats a")).to_contain_text("waiting for approval")
        await expect(in_conversation(page, "Waiting for your answer")).to_have_count(0)


@SIZES
async def test_a_long_call_can_be_allowed_only_below_its_last_line(
    site: Site, eyes: Eyes, tmp_path: Path, size: tuple[int, int], dark: bool
):
    made = tmp_path / "made"
    lines = "\n".join(f"echo line {n} of this script" for n in range(60))
    wanted = call("shell", command=f"touch {made}\n{lines}\ndate")
    async with site.gateway(model=[wanted, "Over."]):
        page = await begun(eyes, site, size=size, dark=dark)
        await say(page, "make it")
        questions = page.get_by_role("group", name="Your answer")
        await expect(in_conversation(page, "The whole call has 63 lines")).to_be_visible()
        top = await page.locator("header").first.bounding_box()
        code = await page.locator("article.asks pre").bounding_box()
        assert top
        assert code
        assert code["y"] > top["y"] + top["height"], "its first line is in sight"
        await expect(in_conversation(page, "echo line 30")).to_have_count(0)
        assert await questions.get_by_role("button").all_inner_texts() == ["Show all", "Deny"]
        await questions.get_by_role("button", name="Show all").click()
        allow = questions.get_by_role("button", name="Allow", exact=True)
        await expect(allow).to_be_in_viewport()
        await expect(in_conversation(page, "echo line 30")).to_have_count(1)
        assert not made.exists()
        await allow.click()
        await expect(in_conversation(page, "Over.")).to_be_visible()
        await expect(questions).to_have_count(0)
    assert made.exists()


async def test_the_page_scrolls_with_new_messages_until_the_user_scrolls_up(site: Site, eyes: Eyes):
    long = "\n\n".join(f"Line {n}" for n in range(60))
    async with site.gateway(model=[long, "Over."]):
        page = await begun(eyes, site)
        await say(page, "Tell me")
        await expect(in_conversation(page, "Line 59")).to_be_in_viewport()
        await page.evaluate(GROW)
        end = page.get_by_text("The end")
        await expect(end).to_be_in_viewport()
        await page.locator("#scroller").hover()
        await page.mouse.wheel(0, -1500)
        await expect(end).not_to_be_in_viewport()
        other = await eyes.open(await link(site.store))
        await live(other)
        await say(other, "And now?")
        await expect(in_conversation(page, "Over.")).to_be_attached()
        await expect(page.get_by_role("button", name="New messages")).to_be_visible()
        await expect(end).not_to_be_in_viewport()


async def test_two_browsers_of_one_owner_show_the_same(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await begun(eyes, site)
        other = await eyes.open(await link(site.store), size=PHONE, dark=True)
        await live(other)
        await say(page, "one")
        await shows(page, "one", "(1) one")
        await shows(other, "one", "(1) one")
        await say(other, "two")
        await shows(page, "one", "(1) one", "two", "(2) two")
        await shows(other, "one", "(1) one", "two", "(2) two")


async def test_a_question_answered_in_one_browser_is_closed_in_the_other(
    site: Site, eyes: Eyes, tmp_path: Path
):
    async with site.gateway(model=runs(tmp_path / "made")):
        page = await begun(eyes, site)
        other = await eyes.open(await link(site.store), size=PHONE)
        await live(other)
        await say(page, "make it")
        await expect(page.get_by_role("button", name="Deny")).to_be_visible()
        await other.get_by_role("button", name="Deny").click()
        await expect(in_conversation(page, "✗ Not allowed")).to_be_visible()
        await expect(page.get_by_role("button", name="Deny")).to_have_count(0)


async def test_conversations_are_separate(site: Site, eyes: Eyes):
    async with site.gateway():
        page = await begun(eyes, site)
        await say(page, "one")
        await shows(page, "one", "(1) one")
        await page.get_by_role("button", name="New conversation").first.click()
        await expect(page.get_by_text("What can I do for you?")).to_be_visible()
        await say(page, "other")
        await shows(page, "other", "(1) other")
        listed = page.get_by_role("navigation", name="Conversations").get_by_role("link")
        await expect(listed).to_have_count(2)
        await listed.last.click()
        await shows(page, "one", "(1) one")
        await page.go_back()
        await shows(page, "other", "(1) other")
        await page.go_forward()
        await say(page, "two")
        await shows(page, "one", "(1) one", "two", "(2) two")


class HeldFrames:
    """A connection on which the server's frames wait while it is held."""

    def __init__(self) -> None:
        self._socket: WebSocketRoute | None = None
        self._held: list[str] | None = None

    async def prepare(self, page: Page) -> None:
        await page.route_web_socket(re.compile("/live$"), self._route)

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held = self._held or []
        self._held = None
        assert self._socket is not None
        for text in held:
            self._socket.send(text)

    def _route(self, socket: WebSocketRoute) -> None:
        self._socket = socket
        socket.connect_to_server().on_message(lambda frame: self._pass(socket, str(frame)))

    def _pass(self, socket: WebSocketRoute, text: str) -> None:
        if self._held is None:
            socket.send(text)
        else:
            self._held.append(text)


async def test_going_back_and_forward_before_the_server_answers_shows_what_is_new(
    site: Site, eyes: Eyes
):
    line = HeldFrames()
    async with site.gateway():
        page = await begun(eyes, site, first=line.prepare)
        await say(page, "one")
        await shows(page, "one", "(1) one")
        await page.get_by_role("button", name="New conversation").first.click()
        await expect(page.get_by_text("What can I do for you?")).to_be_visible()
        await say(page, "other")
        await shows(page, "other", "(1) other")
        listed = page.get_by_role("navigation", name="Conversations").get_by_role("link")
        await expect(listed).to_have_count(2)
        line.hold()
        await listed.last.click()
        await shows(page, "one", "(1) one")
        await page.go_back()
        await shows(page, "other", "(1) other")
        line.release()
        await page.go_forward()
        await shows(page, "one", "(1) one")
        await say(page, "two")
        await shows(page, "one", "(1) one", "two", "(2) two")
