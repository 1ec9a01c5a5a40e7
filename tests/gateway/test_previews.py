"""What platforms show besides messages: previews, and a menu of commands."""

from __future__ import annotations

import asyncio

from segue import commands
from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.commands import Where
from segue.core.address import Address, ChatType, Platform
from segue.testing.platform import Rules, Trouble
from segue.turns import hold
from tests.harness.house import House, echoing


class Thoughtful(ScriptedModel):
    """Streams its answer when the test allows it."""

    def __init__(self) -> None:
        super().__init__(echoing())
        self.go = asyncio.Event()

    async def stream(self, prompt: Prompt):
        async for piece in super().stream(prompt):
            yield piece
            await self.go.wait()


async def test_with_previews_the_answer_is_one_message(house: House):
    """No message of ours is ever edited."""
    await house.driver.rules(Rules(previews=True))
    chat = await house.chat()
    model = Thoughtful()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "hello")
        shown = await house.driver.until(lambda shown: bool(shown.drafts), chat=chat)
        assert shown.drafts[0].text.endswith("…")
        assert shown.texts == ["hello"]
        model.go.set()
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    shown = await house.driver.look(chat)
    assert shown.texts == ["hello", "(1) hello"]
    assert shown.drafts == ()
    assert "edit" not in shown.calls


async def test_a_partial_answer_in_a_preview_becomes_a_message_when_its_session_is_taken_over(
    house: House,
):
    await house.driver.rules(Rules(previews=True))
    chat = await house.chat()
    async with house.gateway(model=Thoughtful()):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.until(lambda shown: bool(shown.drafts), chat=chat)
        session = await house.session_at(await house.address(chat))
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(house.store, session.id, "a terminal", take_over=True, address=here):
            await house.driver.until(
                lambda s: "This conversation went to" in s.texts[-1], chat=chat
            )
            await house.idle()
    shown = await house.driver.look(chat)
    assert shown.texts[:2] == ["hello", "(1) …\n\nInterrupted here."]
    assert shown.texts[2].startswith("This conversation went to")
    assert shown.drafts == ()


async def test_a_delivered_answer_is_not_marked_as_interrupted_when_the_session_leaves(
    house: House,
):
    await house.driver.rules(Rules(previews=True))
    chat = await house.chat()
    model = Thoughtful()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.until(lambda shown: bool(shown.drafts), chat=chat)
        model.go.set()
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
        session = await house.session_at(await house.address(chat))
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(house.store, session.id, "a terminal", address=here):
            await house.driver.until(
                lambda s: "This conversation went to" in s.texts[-1], chat=chat
            )
    assert len((await house.driver.look(chat)).texts) == 3


async def test_an_answer_arrives_even_if_its_previews_fail(house: House):
    await house.driver.rules(Rules(previews=True))
    await house.driver.fail("preview", Trouble.FORBIDDEN, times=100)
    chat = await house.chat()
    model = Thoughtful()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.until(lambda shown: shown.calls.get("preview", 0) > 0)
        model.go.set()
        await house.driver.message("(1) hello", chat=chat)


async def test_the_menu_lists_the_chat_commands(house: House):
    async with house.gateway():
        shown = await house.driver.until(lambda shown: bool(shown.menu))
    known = [command.name for command in commands.available(Where.CHAT)]
    assert [entry.name for entry in shown.menu] == known
    assert all(entry.help for entry in shown.menu)


async def test_a_platform_that_refuses_the_menu_is_still_served(house: House):
    await house.driver.fail("menu", Trouble.FORBIDDEN)
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
