"""A partial answer stays on the page when a terminal takes its session."""

from __future__ import annotations

from segue.core.session import ME
from segue.store import sessions
from tests.web.chromium.paused_model import HaltingModel
from tests.web.conftest import Site
from tests.web.test_sessions import in_terminal, opened


async def test_a_partial_answer_stays_on_the_page_when_its_session_is_taken_over(site: Site):
    async with site.gateway(HaltingModel(["Half an ⋯ answer."])), site.browser() as browser:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="hello")
        await browser.until("writing", lambda told: "Half an" in told["html"])
        (session,) = await sessions.list_sessions(site.store, ME)
        async with in_terminal(site.store, session):
            half = await browser.message("Interrupted here.")
            assert "Half an ⋯" in half["html"]
            shown = await opened(browser, session.id)
            assert [m["no"] for m in shown["messages"]] == [half["no"]]
