"""Markup in answers: none of it runs, and nothing leaves the page."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from segue.agent.models.scripted import ScriptedModel, Step
from tests.turns.conftest import call
from tests.web.chromium.watched_page import PHONE, Eyes, in_conversation, link, live, say
from tests.web.conftest import Site

pytestmark = pytest.mark.real

_ROW = "| " + " | ".join(f"column {n}" for n in range(60)) + " |"
HOSTILE = f"""\
<script>window.pwned = 1</script>
<style>#composer {{ display: none }}</style>
<img src="http://198.51.100.1/x.png" onerror="window.pwned = 2">
<svg onload="window.pwned = 3"><use href="http://198.51.100.1/x.svg#a"/></svg>
<iframe srcdoc="<script>parent.pwned = 4</script>"></iframe>
<form action="http://198.51.100.1/"><button>Send</button></form>
<base href="http://198.51.100.1/"><meta http-equiv="refresh" content="0;url=http://198.51.100.1/">

[one](javascript:window.pwned=5) [two](JaVaScRiPt:window.pwned=6) [three](data:text/html,<script>)
[four](vbscript:x) <javascript:window.pwned=7> ![picture](http://198.51.100.1/x.png)
[five](https://example.org/"onmouseover="window.pwned=8)

{_ROW}
{"|" + "---|" * 60}
{_ROW}

{"w" * 5000}

`{"c" * 5000}`

```js"><img src=x onerror=window.pwned=9>
{"long line of code " * 300}
</code></pre><script>window.pwned = 10</script>
```

The end.
"""
TITLE = '<img src=x onerror="window.pwned = 11">'


def model(*script: Step) -> ScriptedModel:
    """A model that never needs a summary."""
    return ScriptedModel(script, context=1_000_000)


async def is_quiet(page: Page) -> None:
    """Check that nothing has run, and that the page looks unchanged."""
    assert await page.evaluate("window.pwned") is None
    inside = page.locator("#column")
    for element in ("script", "style", "img", "iframe", "form", "base", "meta", "object"):
        assert await inside.locator(element).count() == 0
    links = await inside.locator("a").evaluate_all("all => all.map((a) => a.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}
    handlers = (
        "[...document.querySelectorAll('#column *')].flatMap((e) => [...e.attributes])"
        ".map((a) => a.name).filter((name) => name.startsWith('on') || name === 'style')"
    )
    assert await page.evaluate(handlers) == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
    assert await page.evaluate("scroller.scrollWidth - scroller.clientWidth") == 0
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()


async def test_markup_in_an_answer_does_not_run(site: Site, eyes: Eyes):
    async with site.gateway(model=model(HOSTILE, "Still here.")):
        page = await eyes.open(await link(site.store), size=PHONE)
        await live(page)
        await page.get_by_role("button", name="New conversation").last.click()
        await say(page, "<b onclick=pwned=1>Tell</b> <script>window.pwned = 0</script>")
        await expect(in_conversation(page, "The end.")).to_be_visible()
        await is_quiet(page)
        await say(page, "Are you there?")
        await expect(in_conversation(page, "Still here.")).to_be_visible()
        await page.reload()
        await expect(in_conversation(page, "Still here.")).to_be_visible()
        await is_quiet(page)


async def test_markup_in_a_handed_off_history_does_not_run(site: Site, eyes: Eyes):
    asks = call("shell", command=HOSTILE)
    async with site.gateway(model=model("I am here.", asks, HOSTILE)):
        async with site.terminal((HOSTILE, HOSTILE), title=TITLE, cwd=f"/{TITLE}") as desk:
            done = await desk.hand_off("web")
        page = await eyes.open(await link(site.store, done.thread))
        await live(page)
        await expect(in_conversation(page, "I am here.")).to_be_visible()
        await expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
        await say(page, "Go on")
        await page.get_by_role("button", name="Deny").click()
        # In the history and in the answer.
        await expect(page.locator("#messages").get_by_text("The end.", exact=True)).to_have_count(2)
        await is_quiet(page)
