"""In a chat with several people, only messages to the agent are answered."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import structs

from segue.core.address import Address, ChatType, Platform, Sender
from segue.gateway import texts
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.spec import Groups, PlatformSettings
from segue.testing.platform import Rules, Shape, Trouble
from tests.gateway.test_commands import Waiting, message_with
from tests.harness.house import TELEGRAM, House


async def test_messages_not_addressed_to_the_bot_are_neither_answered_nor_stored(house: House):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway():
        await house.driver.say(house.anna, chat, "Shall we eat?")
        await house.driver.say(house.anna, chat, "@bot how late is it?")
        await house.driver.message("(1) @bot how late is it?", chat=chat)
        await house.idle()
    assert len((await house.driver.look(chat)).texts) == 3


async def test_a_typed_command_is_addressed_to_the_agent_and_other_words_with_a_slash_are_not(
    house: House,
):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/shrug what a day")
        await house.driver.say(house.eve, chat, "/whoami")
        await house.driver.say(house.anna, chat, "/whoami")
        await message_with(house, chat, f"telegram user {house.anna}")
        await house.driver.say(house.anna, chat, "/handoff web")
        await message_with(house, chat, "Here, type /move PLATFORM.")
        await house.idle()
    assert len((await house.driver.look(chat)).texts) == 6


async def test_every_message_in_the_thread_of_a_session_is_addressed_to_the_agent(house: House):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.FORUM, house.eve)
    await house.home(chat, "group")
    async with house.gateway(), house.terminal(("one", "two")) as desk:
        await desk.hand_off()
        thread = await house.driver.thread(chat)
        await house.driver.say(house.anna, chat, "and three?", thread=thread.id)
        await house.driver.until(
            lambda shown: any("and three?" in text for text in shown.texts if "(" in text),
            chat=chat,
        )


async def test_every_message_in_the_thread_of_a_running_handoff_is_addressed_to_the_agent(
    house: House,
):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.FORUM, house.eve)
    await house.home(chat, "group")
    async with house.gateway(), house.terminal(("one", "two")) as desk:
        await house.driver.fail("send", Trouble.HANG)
        moving = asyncio.create_task(desk.hand_off())
        await house.driver.until(lambda shown: shown.hanging > 0)
        thread = await house.driver.thread(chat)
        await house.driver.say(house.anna, chat, "and three?", thread=thread.id)
        await house.driver.until(lambda shown: shown.unconfirmed == 0)
        await house.driver.calm()
        await moving
        await message_with(house, chat, ") and three?")


HINT = "Name @bot in this chat."


async def test_a_session_that_arrives_where_the_agent_must_be_addressed_says_so(house: House):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.NO_THREADS, house.eve)
    await house.home(chat, "group")
    async with house.gateway():
        await house.driver.join(house.anna, chat)
        await message_with(house, chat, f"{texts.JOINED} {HINT}")
        async with house.terminal(("one", "two"), title="Sums") as desk:
            await desk.hand_off()
        recap = await message_with(house, chat, "continues here.")
        assert HINT in recap.text
        await house.driver.say(house.anna, chat, "@bot go on")
        await message_with(house, chat, "@bot go on")
        await house.driver.command(house.anna, chat, "/new")
        await message_with(house, chat, "A new session.")
        await house.driver.command(house.anna, chat, "/resume sums")
        await message_with(house, chat, "was here before")
    shown = await house.driver.look(chat)
    assert sum(HINT in text for text in shown.texts) == 3


async def test_no_hint_is_given_where_the_bot_reads_every_message(house: House):
    chat = await house.chat(Shape.NO_THREADS, house.eve)
    async with house.gateway():
        await house.driver.join(house.anna, chat)
        assert (await message_with(house, chat, texts.JOINED)).text == texts.JOINED


async def test_with_the_setting_all_every_message_is_answered_and_no_hint_is_given(house: House):
    table = PlatformSettings(platform=Platform.TELEGRAM, groups=Groups.ALL)
    house.settings = structs.replace(house.settings, platforms={Platform.TELEGRAM: table})
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.NO_THREADS, house.eve)
    await house.home(chat, "group")
    async with house.gateway():
        await house.driver.join(house.anna, chat)
        assert (await message_with(house, chat, texts.JOINED)).text == texts.JOINED
        await house.driver.say(house.anna, chat, "how late is it?")
        await house.driver.message("(1) how late is it?", chat=chat)
        async with house.terminal(("one", "two"), title="Sums") as desk:
            await desk.hand_off()
        assert HINT not in (await message_with(house, chat, "continues here.")).text


async def test_a_command_of_the_owner_needs_no_name_of_the_bot(house: House):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/whoami")
        await message_with(house, chat, house.anna)
        await house.driver.say(house.eve, chat, "/whoami")
        await house.driver.say(house.anna, chat, "/unknown")
        await house.driver.say(house.anna, chat, "/usr/bin is a folder")
        await house.idle()
    assert len((await house.driver.look(chat)).texts) == 5


async def test_a_turn_of_a_group_that_moved_is_stopped_in_its_new_chat(house: House):
    old, new = await house.chat(Shape.GROUP), await house.chat(Shape.GROUP)
    model = Waiting()
    async with house.gateway(model=model) as gateway:
        adapter = gateway.context.adapters[TELEGRAM]
        sender = Sender(platform=TELEGRAM, user_id=house.anna)

        async def hears(number: int, chat: str, text: str, **more: Any) -> None:
            at = Address(platform=TELEGRAM, chat_type=ChatType.GROUP, chat_id=chat)
            given: dict[str, Any] = {"kind": InboundKind.MESSAGE, "addressed": True, **more}
            inbound = Inbound(
                update_id=f"u{number}",
                address=at,
                sender=sender,
                message_id=f"m{number}",
                text=text,
                **given,
            )
            await gateway.receiver.receive(adapter, inbound)

        await hears(1, old, "think")
        await model.asked.wait()
        there = Address(platform=TELEGRAM, chat_type=ChatType.GROUP, chat_id=new)
        await hears(2, old, "", kind=InboundKind.MOVED, moved_to=there)
        await hears(3, new, "/stop")
        await house.idle()
    shown = (await house.driver.look(new)).texts
    assert texts.NOTHING_TO_STOP not in shown
