"""How handoff fails elsewhere, 6 to 8, and how it does not here."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Platform
from segue.core.session import ME
from segue.handoffs import Completed, handed_over
from segue.handoffs.values import State
from segue.store import bindings, sessions
from segue.testing.platform import Shape, Trouble
from tests.failures.conftest import STAYED, Household
from tests.gateway.test_handoffs import SAID, home_in, waits
from tests.harness.house import House, Slow

SAID_SO_FAR = [text for exchange in SAID for text in exchange]


# 6


@pytest.mark.parametrize("method", ["send", "open_thread"])
async def test_a_handoff_that_cannot_be_delivered_changes_nothing(house: House, method: str):
    """6. Sending fails: marked failed, but routing stays moved, the synthetic turn stays in the
    transcript, an empty topic remains, and the retry leaves two chats bound to one session."""
    async with house.gateway():
        chat, _ = await home_in(house, Shape.FORUM)
        async with house.terminal(*SAID, title="Sums") as desk:
            before = await sessions.get(house.store, desk.session.id)
            await house.driver.fail(method, Trouble.FORBIDDEN, chat=chat)
            failed = await desk.hand_off()
            assert failed.state is State.FAILED
            assert "The bot may not do that" in (failed.error or "")
            assert await sessions.get(house.store, desk.session.id) == before
            assert [text for _, text in await house.said(desk.session.id)] == SAID_SO_FAR
            (binding,) = await bindings.list_bindings(house.store, ME)
            assert binding.address.platform is Platform.LOCAL
            await house.idle()
            threads = (await house.driver.look(chat)).threads
            assert len(threads) == (method == "send")
            for thread in threads:
                (only,) = [m for m in (await house.driver.look(chat)).messages if m.thread]
                assert (only.thread, only.text[: len(STAYED)]) == (thread.id, STAYED)
            done = await desk.hand_off()
            assert done.state is State.COMPLETED, done.error
        (binding,) = await bindings.list_bindings(house.store, ME)
        assert (binding.address, binding.session_id) == (done.thread, desk.session.id)
        roles = [role for role, _ in await house.said(desk.session.id)]
        assert roles == ["user", "assistant"] * 4


# 7


async def test_the_session_of_a_home_channel_without_threads_is_set_aside_by_name(
    house: House,
):
    """7. Without a thread the live conversation of the home chat is ended silently, and its running
    turn is never delivered."""
    model = Slow("a long story")
    async with house.gateway(model=model):
        chat, home = await home_in(house, Shape.NO_THREADS)
        await house.driver.say(house.anna, chat, "/title Stories")
        await house.driver.message("The title of this session is “Stories”.", chat=chat)
        await house.driver.say(house.anna, chat, "a long story")
        await model.thinks.wait()
        live = await house.session_at(home)
        async with house.terminal(*SAID, title="Sums") as desk:
            moving = asyncio.create_task(desk.hand_off())
            await waits(desk)
            model.go.set()
            done = await moving
            assert (done.state, done.thread) == (State.COMPLETED, home)
            farewell = await handed_over(house.store, Completed(done))
            assert "No thread could be opened there" in farewell
        assert (await house.session_at(home)).id == desk.session.id
        advice = "“Stories”, which was here before, is set aside. Type /resume Stories to go on"
        shown = await house.driver.until(
            lambda shown: any(text.startswith(advice) for text in shown.texts), chat=chat
        )
        assert any("No thread could be opened" in text for text in shown.texts)
        assert "(1) a long story" in shown.texts
        aside = await sessions.get(house.store, live.id)
        assert aside is not None
        assert (aside.ended, aside.address) == (None, None)
        await house.driver.say(house.anna, chat, "go on")
        await house.driver.message("(5) go on", chat=chat)
        await house.driver.say(house.anna, chat, "/resume Stories")
        await house.driver.until(
            lambda shown: any(
                "“Stories” continues here" in t.replace("*", "") for t in shown.texts
            ),
            chat=chat,
        )
        await house.driver.say(house.anna, chat, "and then?")
        await house.driver.message("(2) and then?", chat=chat)
        await house.idle()
    assert (await house.session_at(home)).id == live.id


# 8


async def test_an_empty_session_is_handed_off_like_any_other(
    household: Household,
):
    """8. A session with no message yet cannot be handed off, and the error is wrong."""
    await household.left()
    async with household.gateway():
        output = await household.shell("handoff", "Sums", "telegram")
        assert output.returncode == 0, output.stderr
        assert "“Sums” continues at telegram" in output.stdout
        assert "To come back: segue resume Sums" in output.stdout
        thread = await household.thread()
        await household.sees("Nothing has been said in it yet.")
        await household.writes("hello", thread)
        await household.sees("(2) hello")
    (session,) = await sessions.list_sessions(household.store, ME)
    assert (session.title, session.messages) == ("Sums", 4)
