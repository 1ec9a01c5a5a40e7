"""The pictures of the README: `make test-real ARGS="--pictures"` takes them again."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from segue.core.session import ME, Origin
from segue.core.transcript import Message, Role, ToolCall
from segue.store import Store, bindings, pages, transcripts
from segue.web.open_page import address_of
from tests.turns.conftest import call
from tests.web.chromium.watched_page import Eyes, in_conversation, link, live, say
from tests.web.conftest import Site
from tests.web.test_sessions import TOPIC, in_terminal, session_with

pytestmark = pytest.mark.real

MOST = 200_000
"""Bytes of a picture."""
NOW = "2026-05-21T18:42:00Z"
BEFORE = "2026-05-21T18:07:00Z"
TITLE = "Tidy the photo archive"
LAST_WORDS = {
    "Sourdough timings": "Feed the starter at nine tonight, and bake on Saturday.",
    "A letter to the landlord": "The second draft is shorter, and names the date.",
    "By bike to Ghent": "Along the Scheldt: 62 km, and two ferries.",
}
ACTIVE = dict(
    zip(
        LAST_WORDS,
        ("2026-05-21T18:40:00Z", "2026-05-21T16:20:00Z", "2026-05-18T08:30:00Z"),
        strict=True,
    )
)
HISTORY = (
    (
        "There must be doubles among my Norway photos. Find them.",
        "I compared all 6,214 files: **1,137** are exact copies of another, 9.8 GB in all.",
    ),
)
GREETING = "I am here. We found 1,137 doubles in your Norway photos; next we decide what to keep."
ANSWER = """\
Most came in when the camera card was copied twice:

| folder | doubles | size |
| :--- | ---: | ---: |
| `card-1` | 804 | 7.1 GB |
| `from-phone` | 333 | 2.7 GB |

This sets them aside, so that nothing is lost:

```sh
# keep the oldest of each, move the others
rdfind -makesymlinks false -outputname doubles.txt 2019-Norway
awk '/^DUPTYPE_WITHIN/ { print $NF }' doubles.txt | xargs mv -t Doubles/
```
"""
ASKS: ToolCall = call("shell", command="rdfind -outputname doubles.txt 2019-Norway")


def pictured(frame: dict[str, Any]) -> dict[str, Any]:
    """The same, on an evening in May, on a computer that is called desk."""
    if "host" in frame:
        frame["host"] = "desk"
    for chat in (*frame.get("chats", ()), *filter(None, [frame.get("entry")])):
        chat["active"] = ACTIVE.get(chat["title"], NOW)
    for line in frame.get("lines", ()):
        line["at"] = BEFORE if line["seq"] <= 2 * len(HISTORY) else NOW
    for move in frame.get("moves", ()):
        move["at"] = NOW
    for message in (*frame.get("messages", ()), *filter(None, [frame.get("message")])):
        message["at"] = NOW
    return frame


def rewrite(socket: WebSocketRoute) -> None:
    server = socket.connect_to_server()
    server.on_message(lambda text: socket.send(json.dumps(pictured(json.loads(text)))))


async def prepare(page: Page) -> None:
    await page.clock.set_fixed_time(NOW)
    await page.route_web_socket(re.compile("/live$"), rewrite)


@contextlib.asynccontextmanager
async def other_conversations(store: Store) -> AsyncGenerator[None]:
    """One session in a terminal, where the agent works, one on Telegram, and one here."""
    baking, letter, bike = [
        await session_with(store, "How?", last, title=title)
        for title, last in reversed(LAST_WORDS.items())
    ][::-1]
    page = await pages.begin(store, ME, "Ghent", key="1")
    await bindings.rebind(store, bike.id, address_of(ME, page.id), Origin.HANDOFF)
    await bindings.rebind(store, letter.id, TOPIC, Origin.HANDOFF)
    async with in_terminal(store, baking) as held:
        asked = Message(Role.ASSISTANT, "", baking.started, tool_calls=(ASKS,))
        await transcripts.append(store, held.lease, [asked])
        yield


@pytest.mark.parametrize(
    ("name", "size", "dark"),
    [
        ("page-desktop", (1280, 1000), False),
        ("page-phone", (390, 780), False),
        ("page-dark", (390, 780), True),
    ],
)
async def test_a_screenshot_of_the_page_is_taken(
    site: Site,
    eyes: Eyes,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    name: str,
    size: tuple[int, int],
    dark: bool,
):
    async with site.gateway(model=[GREETING, ANSWER, ASKS]), other_conversations(site.store):
        async with site.terminal(*HISTORY, title=TITLE, cwd="/home/anna/Pictures") as desk:
            done = await desk.hand_off("web")
        page = await eyes.open(
            await link(site.store, done.thread),
            size=size,
            dark=dark,
            device_scale_factor=1 if size[0] > size[1] else 2,
            first=prepare,
        )
        await live(page)
        await say(page, "Where are they, and how would you set them aside?")
        await expect(in_conversation(page, "so that nothing is lost")).to_be_visible()
        await say(page, "Good. Look once more, and list them")
        await expect(page.get_by_role("button", name="Deny")).to_be_enabled()
        await expect(page.locator("#chats a").first).to_contain_text("waiting for approval")
        await page.get_by_role("textbox", name="Message").blur()
        if dark:
            await page.get_by_role("button", name="Conversations").click()
        picture = await page.screenshot(animations="disabled")
    assert len(picture) < MOST
    asked = bool(request.config.getoption("--pictures"))
    folder = request.config.rootpath / "docs" / "pictures" if asked else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.png").write_bytes(picture)
