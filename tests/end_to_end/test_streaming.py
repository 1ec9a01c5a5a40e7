"""A gateway that is killed while an answer is to be seen growing: the next one says it once."""

from __future__ import annotations

import asyncio

import pytest

from segue.gateway import texts
from segue.gateway.streaming import BUBBLE_DELAY
from segue.store import Topic
from segue.testing.models.openai import Say
from segue.testing.models.travel import AT_ONCE, Travel
from segue.testing.telegram import Message, Shown, Trouble
from tests.end_to_end.conftest import TELEGRAM, WITHIN, Home, Shape

STORY = "Once upon a time there was a boat. " * 20
HALF = 3000
"""Bytes of the answer that come before it stops."""


@pytest.fixture(autouse=True)
def halves(home: Home) -> None:
    """Are shown."""
    home.set_constants({"segue.gateway.streaming.BUBBLE_DELAY": BUBBLE_DELAY})


async def begins_a_story(home: Home, chat: int, thread: int | None) -> None:
    home.mind.travel = Travel(stall_after=HALF)
    home.mind.plans.append(Say(text=STORY))
    await home.hands.say(home.anna, chat, "a story", thread=thread)


def half(message: Message) -> bool:
    return message.text.startswith("Once upon") and message.text.endswith("…")


async def grows(home: Home, chat: int, thread: int | None) -> Message:
    """The message that is being written, once it is there."""
    shown = await home.hands.until(
        lambda shown: any(map(half, home.spoken(shown, thread))), chat=chat, within=WITHIN
    )
    return home.spoken(shown, thread)[-1]


async def is_known(home: Home) -> None:
    """Wait until the store knows of it, which it does a moment later than people see it."""
    async with asyncio.timeout(WITHIN), home.store.listen(Topic.OUTBOX) as wake:
        while not await home.store.outbox.bubbles([TELEGRAM]):
            await wake.wait(0.05)


async def answers(home: Home, chat: int, thread: int | None) -> Shown:
    """Let another gateway go on; what is to be seen once it has answered."""
    home.mind.travel = AT_ONCE
    async with home.gateway():
        return await home.hands.until(
            lambda shown: any(m.text == "(3) a story" for m in home.spoken(shown, thread)),
            chat=chat,
            within=WITHIN,
        )


async def test_half_a_message_becomes_the_answer(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        thread = await home.arrives(chat)
        await begins_a_story(home, chat, thread)
        begun = await grows(home, chat, thread)
        await is_known(home)
    shown = await answers(home, chat, thread)
    _, _, answer = home.spoken(shown, thread)
    assert (answer.id, answer.text) == (begun.id, "(3) a story")
    assert await home.store.outbox.troubled() == ()


async def test_half_a_message_of_which_nobody_knows_is_told_of(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        thread = await home.arrives(chat)
        await home.hands.fail("sendMessage", Trouble.HANG_AFTER)
        await begins_a_story(home, chat, thread)
        begun = await grows(home, chat, thread)
        await home.hands.until(lambda shown: shown.hanging == 1, within=WITHIN)
    await home.hands.calm()
    home.mind.travel = AT_ONCE
    async with home.gateway():
        await home.sees("half a message above", chat, thread=thread)
        shown = await home.hands.look(chat)
    _, _, left, answer, told = home.spoken(shown, thread)
    assert left.id == begun.id
    assert half(left)
    assert answer.text == "(3) a story"
    assert told.text == texts.HALF


async def test_a_draft_gives_way_to_the_answer(home: Home):
    chat = await home.at_home(Shape.TOPICS)
    async with home.gateway():
        thread = await home.arrives(chat)
        await begins_a_story(home, chat, thread)
        shown = await home.hands.until(lambda shown: bool(shown.drafts), chat=chat, within=WITHIN)
        assert [draft.thread for draft in shown.drafts] == [thread]
        assert len(home.spoken(shown, thread)) == 2
    shown = await answers(home, chat, thread)
    assert [m.text for m in home.spoken(shown, thread)][2:] == ["(3) a story"]
    assert shown.drafts == ()
