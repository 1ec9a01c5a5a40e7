"""Talking to the agent in a chat."""

from __future__ import annotations

import asyncio

from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.events import NO_ANSWER
from segue.core.session import ME
from segue.store import outbox, sessions
from segue.store.outbox import Draft
from segue.testing.platform import Shape, Trouble
from tests.harness.house import House


async def test_a_message_is_answered_in_its_chat(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.say(house.anna, chat, "again")
        await house.driver.message("(2) again", chat=chat)
    session = await house.session_at(await house.address(chat))
    assert await house.said(session.id) == [
        ("user", "hello"),
        ("assistant", "(1) hello"),
        ("user", "again"),
        ("assistant", "(2) again"),
    ]


async def test_an_update_that_is_delivered_twice_is_answered_once(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.repeat()
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
    assert len(house.model.prompts) == 2


async def test_messages_of_one_chat_are_answered_in_order(house: House):
    chat = await house.chat()
    async with house.gateway():
        for number in range(10):
            await house.driver.say(house.anna, chat, f"n{number}")
        await house.driver.message("(10) n9", chat=chat)
    shown = await house.driver.look(chat)
    answers = [text for text in shown.texts if text.startswith("(")]
    assert answers == [f"({n + 1}) n{n}" for n in range(10)]


async def test_a_slow_chat_does_not_delay_another(house: House):
    go = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, prompt: Prompt):
            if prompt.messages[-1].content == "slow":
                await go.wait()
            async for piece in super().stream(prompt):
                yield piece

    from tests.harness.house import echoing

    slow, quick = await house.chat(), await house.chat(Shape.GROUP)
    async with house.gateway(model=Slow(echoing())):
        await house.driver.say(house.anna, slow, "slow")
        await house.driver.say(house.anna, quick, "quick")
        await house.driver.message("(1) quick", chat=quick)
        go.set()
        await house.driver.message("(1) slow", chat=slow)


async def test_an_answer_that_the_platform_refuses_temporarily_is_sent_later(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.fail("send", Trouble.BUSY, times=3, seconds=0.05)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)


async def test_messages_of_unknown_senders_are_dropped(house: House):
    chat = await house.driver.chat(Shape.DM, [house.eve])
    group = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway():
        await house.driver.say(house.eve, chat, "hello")
        await house.driver.command(house.eve, group, "/help")
        await house.driver.say(house.anna, group, "mine")
        await house.driver.message("(1) mine", chat=group)
        await house.idle()
    assert list((await house.driver.look(chat)).texts) == ["hello"]
    assert len(house.model.prompts) == 1
    assert len(await sessions.list_sessions(house.store, ME)) == 1


async def test_an_invisible_answer_is_reported(house: House):
    chat = await house.chat()
    async with house.gateway(model=["\u2800\u200b\n\u3000\ufeff\ufe0f", "seen"]):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message(NO_ANSWER, chat=chat)
        await house.driver.say(house.anna, chat, "again")
        await house.driver.message("seen", chat=chat)
        await house.idle()
    assert list((await house.driver.look(chat)).texts).count(NO_ANSWER) == 1


async def test_a_handoff_with_an_invisible_reply_reports_it(house: House):
    chat = await house.chat()
    await house.home(chat)
    async with house.gateway(model=["\u2800"]), house.terminal(("a", "b")) as desk:
        await desk.hand_off()
        await house.driver.message("The session is here. Send a message to continue.", chat=chat)


async def test_invisible_text_does_not_count_as_sent(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        address = await house.address(chat)
        await outbox.enqueue(house.store, Draft(key="k", address=address, body="\u2800"))
        await house.driver.message(NO_ANSWER, chat=chat)
