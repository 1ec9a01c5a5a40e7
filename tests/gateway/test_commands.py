"""Commands in chats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from msgspec import structs

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.config import Approvals
from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.session import ME
from segue.store import owners, sessions
from segue.testing.platform import Message, Shape, Trouble
from tests.harness.house import House, echoing


async def message_with(house: House, chat: str, words: str) -> Message:
    """The newest message that contains this text."""
    shown = await house.driver.until(
        lambda shown: any(words in text for text in shown.texts), chat=chat
    )
    return next(m for m in reversed(shown.messages) if words in m.text)


class Waiting(ScriptedModel):
    """Answers when the test allows it."""

    def __init__(self) -> None:
        super().__init__(echoing())
        self.go = asyncio.Event()
        self.asked = asyncio.Event()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        self.asked.set()
        await self.go.wait()
        async for piece in super().stream(prompt):
            yield piece


async def test_new_starts_another_session_and_resume_brings_the_first_back(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        await house.driver.say(house.anna, chat, "/title First")
        await message_with(house, chat, "this session is “First”")
        await house.driver.say(house.anna, chat, "/new Second")
        await message_with(house, chat, "A new session.")
        await house.driver.say(house.anna, chat, "two")
        await house.driver.message("(1) two", chat=chat)
        await house.driver.say(house.anna, chat, "/resume First")
        await message_with(house, chat, "**“First”** continues here")
        await house.driver.say(house.anna, chat, "three")
        await house.driver.message("(2) three", chat=chat)


async def test_tools_in_a_new_chat_shows_the_permissions_of_that_chat(house: House):
    policies = {Platform.TELEGRAM: Policy.AUTO}
    house.settings = structs.replace(house.settings, approvals=Approvals(platforms=policies))
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/tools")
        assert "asks first" not in (await message_with(house, chat, "runs at once")).text


async def test_resume_offers_the_titled_sessions_of_all_platforms(house: House):
    chat = await house.chat()
    async with house.terminal(("What is 6 times 7?", "42."), title="Sums"):
        pass
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/resume")
        listed = await message_with(house, chat, "1. Sums")
        assert "terminal" in listed.text
        await house.driver.press(house.anna, listed.id, listed.buttons[0].label)
        await message_with(house, chat, "**“Sums”** continues here")
        await house.driver.say(house.anna, chat, "go on")
        await house.driver.message("(2) go on", chat=chat)
        await house.driver.say(house.anna, chat, "/resume 1")
        await message_with(house, chat, "It is here already.")


async def test_resume_with_an_unknown_title_lists_the_existing_sessions(house: House):
    chat = await house.chat()
    async with house.terminal(("What is 6 times 7?", "42."), title="Sums"):
        pass
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/resume Summs")
        await message_with(house, chat, "There is no session “Summs”")
        await message_with(house, chat, "1. Sums")


async def test_resume_takes_a_session_from_a_terminal_and_notifies_it(house: House):
    chat = await house.chat()
    async with house.gateway():
        async with house.terminal(("What is 6 times 7?", "42."), title="Sums") as desk:
            await house.driver.say(house.anna, chat, "/resume Sums")
            await message_with(house, chat, "**“Sums”** continues here")
            async with asyncio.timeout(10):
                await desk.held.lost.wait()
        await house.driver.say(house.anna, chat, "go on")
        await house.driver.message("(2) go on", chat=chat)


async def test_resume_stops_a_turn_in_another_chat_and_notifies_that_chat(house: House):
    chat, other = await house.chat(), await house.chat(Shape.GROUP)
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "slow")
        await model.asked.wait()
        session = await house.session_at(await house.address(chat))
        await house.driver.say(house.anna, other, f"/resume {session.id}")
        shown = await message_with(house, other, "continues here")
        assert "The agent was working on it, and was stopped." in shown.text
        await message_with(house, chat, "Stopped.")
        await message_with(house, chat, "This conversation went to telegram group")
        model.go.set()
        await house.driver.say(house.anna, other, "go on")
        await house.driver.message("(2) go on", chat=other)


async def test_resume_never_finds_the_session_of_another_owner(house: House):
    await owners.ensure(house.store, "other")
    from segue.core.address import Platform

    theirs = await sessions.create(house.store, "other", Platform.LOCAL, title="Secret")
    chat = await house.chat()
    async with house.gateway():
        for name in ("Secret", theirs.id, theirs.id[:12], "1"):
            await house.driver.say(house.anna, chat, f"/resume {name}")
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(1) after", chat=chat)
        shown = await house.driver.look(chat)
    assert not any("continues here" in text for text in shown.texts)


async def test_stop_interrupts_the_turn_and_queued_messages_are_answered_next(house: House):
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "slow")
        await model.asked.wait()
        await house.driver.say(house.anna, chat, "next")
        await house.driver.say(house.anna, chat, "/stop")
        await house.driver.message("Stopped.", chat=chat)
        model.go.set()
        await house.driver.message("(2) next", chat=chat)


async def test_a_read_only_command_does_not_wait_for_the_turn(house: House):
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "slow")
        await model.asked.wait()
        await house.driver.say(house.anna, chat, "/status")
        await message_with(house, chat, "Session")
        await house.driver.say(house.anna, chat, "/help")
        await message_with(house, chat, "/approve")
        model.go.set()


async def test_undo_removes_the_last_turn_and_retry_repeats_it(house: House):
    chat = await house.chat()
    async with house.gateway():
        for words in ("one", "two"):
            await house.driver.say(house.anna, chat, words)
        await house.driver.message("(2) two", chat=chat)
        await house.driver.say(house.anna, chat, "/undo")
        await message_with(house, chat, "Undone from this message on: two")
        await house.driver.say(house.anna, chat, "/retry")
        await message_with(house, chat, "Again: one")
        await house.driver.until(
            lambda shown: [t for t in shown.texts if t == "(1) one"] == ["(1) one"] * 2, chat=chat
        )


async def test_sethome_asks_for_confirmation_where_others_can_read(house: House):
    chat = await house.chat(Shape.GROUP, house.eve, name="Team")
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/sethome")
        asked = await message_with(house, chat, "can read")
        assert await owners.homes(house.store, ME) == ()
        await house.driver.press(house.anna, asked.id, "Yes, here")
        await message_with(house, chat, "Handoffs to telegram arrive here from now on.")
    (home,) = await owners.homes(house.store, ME)
    assert (home.address.chat_id, home.name) == (chat, "Team")


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with others"])
async def test_a_chat_in_which_the_bot_cannot_write_does_not_become_the_home_channel(
    house: House, others: bool
):
    seen = await house.home(await house.chat())
    members = (house.eve,) if others else ()
    chat = await house.chat(Shape.GROUP, *members, name="Team")
    async with house.gateway():
        await house.driver.fail("send", Trouble.FORBIDDEN, chat=chat)
        await house.driver.say(house.anna, chat, "/sethome")
        told = await message_with(house, seen.chat_id, "I cannot write in the telegram chat (Team)")
        assert "so it is not your home channel: " in told.text
        await house.idle()
    assert [home.address for home in await owners.homes(house.store, ME)] == [seen]


async def test_without_a_home_channel_a_refused_one_is_reported_where_the_owner_talks(house: House):
    seen, chat = await house.chat(), await house.chat(Shape.GROUP, name="Team")
    async with house.gateway():
        await house.driver.say(house.anna, seen, "hello")
        await house.driver.message("(1) hello", chat=seen)
        await house.driver.fail("send", Trouble.FORBIDDEN, chat=chat)
        await house.driver.say(house.anna, chat, "/sethome")
        await message_with(house, seen, "so it is not your home channel: ")
    assert await owners.homes(house.store, ME) == ()


async def test_whoami_shows_the_owner(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/whoami")
        answer = await message_with(house, chat, "paired with the owner")
    assert house.anna in answer.text


@pytest.mark.parametrize("typed", ["/nonsense", "/undo 3", "/approve", "/resume 99", "/model nope"])
async def test_a_command_that_cannot_run_explains_why(house: House, typed: str):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, typed)
        await house.driver.until(lambda shown: len(shown.messages) == 2, chat=chat)
        shown = await house.driver.look(chat)
    assert (
        "Type" in shown.texts[-1] or "There is no" in shown.texts[-1] or "again" in shown.texts[-1]
    )


async def test_start_greets_and_explains_pairing(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/start")
        greeting = await message_with(house, chat, "I am Segue")
        assert "segue pair" in greeting.text
        await house.driver.say(house.anna, chat, "/start ABCD-2345")
        refused = await message_with(house, chat, "That code is not valid")
        assert "You are paired." in refused.text
    assert house.model.prompts == []


async def test_start_from_an_unknown_sender_is_not_answered(house: House):
    chat = await house.driver.chat(Shape.DM, [house.eve])
    async with house.gateway():
        await house.driver.say(house.eve, chat, "/start")
        await house.idle()
    assert len((await house.driver.look(chat)).messages) == 1
