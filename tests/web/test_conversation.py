"""Talking to the agent on the page, over its real protocol."""

from __future__ import annotations

from segue.core.session import ME
from segue.handoffs.values import State
from segue.store import sessions
from tests.gateway.test_approvals import runs
from tests.turns.conftest import call
from tests.web.conftest import Site


async def test_a_message_on_the_page_is_answered_there(site: Site):
    async with site.gateway(), site.browser() as browser:
        hello = await browser.until("hello")
        assert hello["chats"] == []
        chat = await browser.new()
        key = await browser.ask("say", chat=chat, text="hello")
        await browser.until("taken", key=key)
        assert await browser.line("(1) hello")


async def test_a_session_is_handed_off_to_the_page_with_its_history(site: Site):
    said = (("What is 6 times 7?", "42."), ("And my cat?", "**Tiger**."))
    async with site.gateway(), site.browser() as browser:
        async with site.terminal(*said, title="Sums") as desk:
            done = await desk.hand_off("web")
            assert done.state is State.COMPLETED, done.error
        assert done.thread is not None
        chat = done.thread.thread_id
        listed = await browser.until("chats", lambda t: t["chats"])
        assert [c["title"] for c in listed["chats"]] == ["Sums"]
        await browser.ask("open", chat=chat)
        shown = await browser.until("shown", chat=done.session_id, was=chat)
        roles = [line["role"] for line in shown["lines"]]
        assert roles == ["user", "assistant", "user", "assistant", "assistant"]
        assert "<strong>Tiger</strong>" in shown["lines"][3]["html"]
        assert [(move["text"], move["after"]) for move in shown["moves"]] == [("Moved here", 4)]
        assert shown["messages"] == []
        await browser.ask("say", chat=chat, text="go on")
        await browser.line("(4) go on")
    assert len(await sessions.list_sessions(site.store, ME)) == 1


async def test_a_reconnected_page_gets_missed_messages_once(site: Site):
    async with site.gateway():
        key = await site.key()
        async with site.browser(key) as browser:
            chat = await browser.new()
            await browser.ask("say", chat=chat, text="one")
            seen = await browser.line("(1) one")
        async with site.browser(key) as other:
            await other.ask("open", chat=chat)
            await other.until("shown", was=chat)
            await other.ask("say", chat=chat, text="two")
            await other.line("(2) two")
        async with site.browser(key) as browser:
            await browser.ask("open", chat=chat, seq=seen["seq"])
            shown = await browser.until("shown", was=chat)
    assert [line["html"] for line in shown["lines"]] == ["<p>two</p>", "<p>(2) two</p>\n"]
    assert (shown["messages"], shown["fresh"]) == ([], False)


async def test_a_repeated_frame_takes_effect_once(site: Site):
    async with site.gateway(), site.browser() as browser:
        chat = await browser.new()
        for _ in range(3):
            await browser.ask("say", chat=chat, key="12345678-same", text="hello")
        await browser.line("(1) hello")
        await browser.ask("say", chat=chat, text="after")
        await browser.line("(2) after")
    assert len(site.model.prompts) == 2


async def test_a_question_is_answered_with_a_button(site: Site, tmp_path):
    made = tmp_path / "made"
    async with site.gateway(model=runs(made)), site.browser() as browser:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="make it")
        asked = await browser.message("May I do this?")
        assert [b["label"] for b in asked["buttons"]] == ["Allow", "Allow in this session", "Deny"]
        await browser.ask("press", chat=chat, message=asked["no"], data=asked["buttons"][0]["data"])
        outcome = await browser.message("✓ Allowed")
        assert (outcome["no"], outcome["buttons"]) == (asked["no"], [])
        await browser.ask("open", chat=chat)
        await browser.line("result:")
    assert made.read_text() == "x\n"


async def test_a_press_answers_the_question_under_which_it_was_made(site: Site, tmp_path):
    """Not the next question, and not one in another conversation."""
    first, second = tmp_path / "first", tmp_path / "second"
    wanted = [call("shell", command=f"touch {path}") for path in (first, second)]
    async with site.gateway(model=[*wanted, "Over."]), site.browser() as browser:
        other, chat = await browser.new(), await browser.new()
        await browser.ask("say", chat=chat, text="make them")
        asked = await browser.message("This is question 1.")
        allow = {"message": asked["no"], "data": asked["buttons"][0]["data"]}
        key = await browser.ask("press", chat=other, **allow)
        assert (await browser.until("refused", key=key))["reason"] == "That button no longer works."
        assert not first.exists()
        await browser.ask("press", chat=chat, **allow)
        next_one = await browser.message("This is question 2.")
        for number in (asked["no"], next_one["no"]):
            key = await browser.ask("press", chat=chat, message=number, data=allow["data"])
            assert (await browser.until("refused", key=key))[
                "reason"
            ] == "That button no longer works."
        assert (first.exists(), second.exists()) == (True, False)
        deny = next_one["buttons"][2]["data"]
        await browser.ask("press", chat=chat, message=next_one["no"], data=deny)
        await browser.line("Over.")
    assert not second.exists()


async def test_the_page_shows_the_health_of_the_gateway(site: Site):
    async with site.gateway(), site.browser() as browser:
        await browser.ask("health")
        healthy = await browser.until("health")
        assert [p["platform"] for p in healthy["gateway"]["platforms"]] == ["web"]
