"""The pictures of the README: `make test-real ARGS="--pictures"` takes them anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from segue.core.address import Address, ChatType, Platform
from segue.core.transcript import ToolCall
from segue.turns import hold
from tests.turns.conftest import call
from tests.web.chromium.watched_page import Eyes, link, live, say, told
from tests.web.conftest import Site

pytestmark = pytest.mark.real

MOST = 150_000
"""Bytes of a picture."""
NOW = "2026-05-21T18:42:00Z"
BEFORE = "2026-05-21T18:07:00Z"
TITLE = "Tidy the photo archive"
OTHERS = {
    "Sourdough timings": "2026-05-21T16:20:00Z",
    "A letter to the landlord": "2026-05-20T19:05:00Z",
    "By bike to Ghent": "2026-05-18T08:30:00Z",
}
HISTORY = (
    ("Which of my photo folders takes the most space?", "**2019-Norway**, with 41 GB."),
    (
        "There must be doubles in it. Find them.",
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
    for chat in frame.get("chats", ()):
        chat["active"] = OTHERS.get(chat["title"], NOW)
    for line in frame.get("history", ()):
        line["at"] = BEFORE
    for message in (*frame.get("messages", ()), *filter(None, [frame.get("message")])):
        message["at"] = NOW
    return frame


def rewrite(socket: WebSocketRoute) -> None:
    server = socket.connect_to_server()
    server.on_message(lambda text: socket.send(json.dumps(pictured(json.loads(text)))))


async def prepare(page: Page) -> None:
    await page.clock.set_fixed_time(NOW)
    await page.route_web_socket(re.compile("/live$"), rewrite)


async def other_conversations(site: Site) -> None:
    """The first of them has gone back to the terminal."""
    sessions: list[str] = []
    for title in reversed(OTHERS):
        async with site.terminal(("Hello", "Hello"), title=title) as desk:
            sessions.append((await desk.hand_off("web")).session_id)
    back = sessions[-1]
    at = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=back)
    async with hold(site.store, back, "a terminal", address=at, take_over=True):
        pass


@pytest.mark.parametrize(
    ("name", "size", "dark", "scale"),
    [("page-desktop", (1280, 860), False, 1), ("page-phone", (390, 844), True, 2)],
)
async def test_a_picture_of_the_page(
    site: Site,
    eyes: Eyes,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    name: str,
    size: tuple[int, int],
    dark: bool,
    scale: int,
):
    script = [*["Hello."] * len(OTHERS), GREETING, ANSWER, ASKS]
    async with site.gateway(model=script):
        await other_conversations(site)
        async with site.terminal(*HISTORY, title=TITLE, cwd="/home/anna/Pictures") as desk:
            done = await desk.hand_off("web")
        page = await eyes.open(
            await link(site.store, done.thread),
            size=size,
            dark=dark,
            device_scale_factor=scale,
            first=prepare,
        )
        await live(page)
        await say(page, "Where are they, and how would you set them aside?")
        await expect(told(page, "so that nothing is lost")).to_be_visible()
        await say(page, "Good. Look once more, and list them")
        await expect(page.get_by_role("button", name="Deny")).to_be_visible()
        await page.get_by_role("textbox", name="Message").blur()
        picture = await page.screenshot(animations="disabled")
    assert len(picture) < MOST
    asked = bool(request.config.getoption("--pictures"))
    folder = request.config.rootpath / "docs" / "pictures" if asked else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.png").write_bytes(picture)
