"""Complete handoffs: from a terminal to a chat, where the user continues, and back."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from segue.core.address import Address
from segue.core.session import ME
from segue.gateway import service
from segue.handoffs import Completed, Working, delivery, handed_over
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.store import Topic, owners
from segue.store.outbox import OFFER
from segue.testing.platform import Rules, Shape, Trouble
from segue.turns import hold
from tests.gateway.test_approvals import question
from tests.gateway.test_commands import message_with
from tests.harness.house import Desk, House, Slow
from tests.turns.conftest import call

SAID = (("What is 6 times 7?", "42."), ("And my cat's name?", "Tiger."), ("Remember 17.", "Yes."))

DIRECT = (Shape.NO_THREADS, Shape.THREADS_REFUSED)


async def home_in(house: House, shape: Shape) -> tuple[str, Address]:
    """Anna types /sethome in a chat of that shape."""
    chat = await house.chat(shape, name="Home")
    await house.driver.say(house.anna, chat, "/sethome yes")
    await house.driver.message("Handoffs to telegram arrive here from now on.", chat=chat)
    (home,) = await owners.homes(house.store, ME)
    return chat, home.address


async def test_a_handoff_posts_a_recap_and_a_reply_of_the_agent(house: House):
    async with house.gateway():
        chat, _ = await home_in(house, Shape.FORUM)
        async with house.terminal(*SAID, title="Sums") as desk:
            await desk.hand_off()
        shown = await house.driver.until(
            lambda shown: sum(1 for m in shown.messages if m.thread) >= 2, chat=chat
        )
    recap, reply = [m for m in shown.messages if m.thread][-2:]
    assert "Sums" in recap.text
    assert "Tiger." in recap.text
    assert "handed off to telegram" in reply.text  # our model repeats its prompt


async def test_the_session_comes_back_with_the_messages_of_the_chat(house: House):
    async with house.gateway():
        chat, _ = await home_in(house, Shape.DM)
        async with house.terminal(*SAID, title="Sums") as desk:
            await desk.hand_off()
            session = desk.session
        thread = await house.driver.thread(chat)
        await house.driver.say(house.anna, chat, "on the phone", thread=thread.id)
        await house.driver.message("(5) on the phone", chat=chat)
        await house.idle()
        here = Address.parse(f"agent:main:local:dm:{session.id}")
        async with hold(house.store, session.id, "a terminal", address=here):
            said = await house.said(session.id)
        assert said[-2:] == [("user", "on the phone"), ("assistant", "(5) on the phone")]
        await house.driver.until(
            lambda shown: any("went to the terminal" in text for text in shown.texts), chat=chat
        )


# A home channel without threads, in which another session is

ASIDE, ARRIVED = "was here before. Type /resume", "**“Sums”** continues here."


async def order(house: House, chat: str, *words: str) -> list[int]:
    """Wait until the chat shows messages with these words, and return their positions."""
    shown = await house.driver.until(
        lambda shown: all(any(it in text for text in shown.texts) for it in words), chat=chat
    )
    return [next(n for n, text in enumerate(shown.texts) if it in text) for it in words]


async def thinking_in(house: House, model: Slow) -> str:
    """The home channel, in which the agent works on an answer."""
    chat, _ = await home_in(house, Shape.NO_THREADS)
    await house.driver.say(house.anna, chat, "think")
    await model.thinks.wait()
    return chat


async def waits(desk: Desk) -> None:
    """Wait until an answer delays the handoff."""
    async with asyncio.timeout(40), desk.store.listen(Topic.HANDOFFS) as wake:
        while not (found := await handoffs.current(desk.store, desk.session.id)) or (
            found.detail != "an answer is being written there"
        ):
            await wake.wait(0.05)


async def test_an_answer_in_the_home_channel_arrives_before_its_session_is_set_aside(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delivery, "ANSWER_TIMEOUT", 3600.0)
    model = Slow("think")
    async with house.gateway(model=model), house.terminal(*SAID, title="Sums") as desk:
        chat = await thinking_in(house, model)
        moving = asyncio.create_task(desk.hand_off())
        await waits(desk)
        model.go.set()
        assert (await moving).state is State.COMPLETED
        shown = await order(house, chat, "(1) think", ARRIVED, ASIDE)
    assert shown == sorted(shown)


async def test_an_answer_that_takes_long_arrives_after_its_session_is_set_aside(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delivery, "ANSWER_TIMEOUT", 0.01)
    model = Slow("think")
    async with house.gateway(model=model), house.terminal(*SAID, title="Sums") as desk:
        chat = await thinking_in(house, model)
        assert (await desk.hand_off()).state is State.COMPLETED
        await order(house, chat, ARRIVED, ASIDE)
        model.go.set()
        shown = await order(house, chat, ARRIVED, ASIDE, "(1) think")
    assert shown == sorted(shown)


async def test_a_question_in_the_home_channel_does_not_delay_a_handoff(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delivery, "ANSWER_TIMEOUT", 3600.0)
    made = tmp_path / "made"
    script = [call("shell", 1, command=f"touch {made}"), "Here I am."]
    async with house.gateway(model=script), house.terminal(*SAID, title="Sums") as desk:
        chat, _ = await home_in(house, Shape.NO_THREADS)
        await house.driver.say(house.anna, chat, "make it")
        await question(house, chat)
        assert (await desk.hand_off()).state is State.COMPLETED
        await order(house, chat, ARRIVED, ASIDE)
    assert not made.exists()


# A platform that asks to wait


@pytest.mark.parametrize("method", ["open_thread", "send"])
async def test_a_rate_limit_longer_than_the_handoff_timeout_fails_at_once(
    house: House, method: str, monkeypatch: pytest.MonkeyPatch
):
    # The recap is still queued when the gateway stops, for as long as the platform asks to wait.
    monkeypatch.setattr(service, "FLUSH_TIMEOUT", 0.1)
    async with house.gateway():
        chat, _ = await home_in(house, Shape.DM)
        async with house.terminal(*SAID, title="Sums") as desk:
            await house.driver.fail(method, Trouble.BUSY, seconds=300)
            failed = await desk.hand_off()
            assert failed.state is State.FAILED
            assert re.search(r"telegram asks to wait until .*\d\d:\d\d, longer", failed.error or "")
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)


@pytest.mark.parametrize("method", ["open_thread", "send"])
async def test_a_short_rate_limit_is_shown_with_its_length(house: House, method: str):
    async with house.gateway():
        await home_in(house, Shape.DM)
        async with house.terminal(*SAID, title="Sums") as desk:
            await house.driver.fail(method, Trouble.BUSY, seconds=1)
            assert (await desk.hand_off()).state is State.COMPLETED
    waited = [p.text() for p in desk.seen if isinstance(p, Working) and p.detail]
    assert len(waited) == 1
    assert waited[0].endswith("on telegram: telegram asks to wait 1 s…")


# An arrival that the platform did not confirm


async def test_a_handoff_that_the_platform_did_not_confirm_says_so_at_both_ends(house: House):
    await house.driver.rules(Rules(keys=False, threads=True))
    async with house.gateway():
        chat, _ = await home_in(house, Shape.DM)
        async with house.terminal(*SAID, title="Sums") as desk:
            await house.driver.fail("send", Trouble.BROKEN, times=2)
            done = await desk.hand_off()
        assert (done.state, done.confirmed) == (State.COMPLETED, False)
        farewell = await handed_over(house.store, Completed(done))
        assert "telegram did not confirm that the first message arrived. Look there" in farewell
        await house.idle()
        thread = await house.driver.thread(chat)
        assert not [m for m in (await house.driver.look(chat)).messages if m.thread]
        await house.driver.say(house.anna, chat, "anybody?", thread=thread.id)
        await house.driver.message("(5) anybody?", chat=chat)
        await house.driver.say(house.anna, chat, "again", thread=thread.id)
        await house.driver.message("(6) again", chat=chat)
        await house.idle()
    shown = [m.text for m in (await house.driver.look(chat)).messages if m.thread]
    recap, reply = [text for text in shown if text.startswith(OFFER)]  # once
    assert "Sums" in recap
    assert "handed off to telegram" in reply
    assert shown.index(recap) < shown.index(reply) < shown.index("(5) anybody?")


async def test_a_reply_after_an_unconfirmed_message_says_what_may_be_missing(house: House):
    await house.driver.rules(Rules(keys=False, threads=True))
    async with house.gateway():
        chat, _ = await home_in(house, Shape.DM)
        async with house.terminal(*SAID, title="Sums") as desk:
            await house.driver.fail("send", Trouble.BROKEN)
            await desk.hand_off()
        await house.driver.until(
            lambda s: any("The message before this one may be missing" in t for t in s.texts),
            chat=chat,
        )


async def test_a_confirmed_handoff_does_not_offer_its_messages_again(house: House):
    await house.driver.rules(Rules(keys=False, threads=True))
    async with house.gateway():
        chat, _ = await home_in(house, Shape.DM)
        async with house.terminal(*SAID, title="Sums") as desk:
            done = await desk.hand_off()
        assert done.confirmed
        assert not done.warning
        thread = await house.driver.thread(chat)
        await house.driver.say(house.anna, chat, "go on", thread=thread.id)
        await house.driver.message("(5) go on", chat=chat)
        await house.idle()
    texts = (await house.driver.look(chat)).texts
    assert not [text for text in texts if OFFER in text or "may be missing" in text]


async def test_an_answer_of_a_session_that_was_set_aside_meanwhile_names_it(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delivery, "ANSWER_TIMEOUT", 0.0)
    chat = await house.chat(Shape.NO_THREADS)
    await house.home(chat, "group")
    model = Slow("a long one")
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "a long one")
        await model.thinks.wait()
        async with house.terminal(("one", "two"), title="Sums") as desk:
            await desk.hand_off()
        model.go.set()
        await message_with(house, chat, ", which was here before, answers:\n\n(1) a long one")
        await house.driver.say(house.anna, chat, "go on")
        await house.driver.message("(3) go on", chat=chat)
