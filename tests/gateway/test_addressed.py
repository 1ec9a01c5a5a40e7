"""In a chat with several people, only what is meant for the agent is answered."""

from __future__ import annotations

from segue.testing.platform import Rules, Shape
from tests.gateway.conftest import House


async def test_what_people_say_to_each_other_is_neither_answered_nor_kept(house: House):
    await house.hands.rules(Rules(mentions=True))
    chat = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway():
        await house.hands.say(house.anna, chat, "Shall we eat?")
        await house.hands.say(house.anna, chat, "@bot how late is it?")
        await house.hands.message("(1) @bot how late is it?", chat=chat)
        await house.idle()
    assert len((await house.hands.look(chat)).texts) == 3


async def test_in_a_thread_of_ours_everything_is_meant_for_the_agent(house: House):
    await house.hands.rules(Rules(mentions=True))
    chat = await house.chat(Shape.FORUM, house.eve)
    await house.home(chat, "group")
    async with house.gateway(), house.terminal(("one", "two")) as desk:
        await desk.hand_off()
        thread = await house.hands.thread(chat)
        await house.hands.say(house.anna, chat, "and three?", thread=thread.id)
        await house.hands.until(
            lambda shown: any("and three?" in text for text in shown.texts if "(" in text),
            chat=chat,
        )
