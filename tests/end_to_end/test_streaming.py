"""A gateway is killed while an answer streams: the next one delivers it once."""

from __future__ import annotations

import asyncio

import pytest

from segue.gateway import texts
from segue.store import Topic, bubbles, outbox
from segue.testing.contract.rig import Act
from segue.testing.peers import Trouble
from tests import rigs
from tests.end_to_end.conftest import on
from tests.fakes.models.openai import Say
from tests.fakes.models.travel import AT_ONCE, Travel
from tests.harness.household import WITHIN, Household
from tests.rigs import Message

STORY = "Once upon a time there was a boat. " * 20
HALF = 3000
"""Bytes of the answer that arrive before it stops."""


async def begins_a_story(home: Household, thread: str | None) -> None:
    home.model.travel = Travel(stall_after=HALF)
    home.model.plans.append(Say(text=STORY))
    await home.writes("a story", thread)


def is_growing(message: Message) -> bool:
    return message.text.endswith("…")


def is_half(message: Message) -> bool:
    return message.text.startswith("Once upon") and is_growing(message)


async def grows(home: Household, thread: str | None) -> Message:
    """Wait for the message that is being written."""
    view = await home.rig.until(lambda view: any(map(is_half, view.messages)), home.chat)
    return home.spoken(view, thread)[-1]


async def is_known(home: Household) -> None:
    """Wait until it is recorded in the store, shortly after users see it."""
    async with asyncio.timeout(WITHIN), home.store.listen(Topic.OUTBOX) as wake:
        while not await bubbles.shown(home.store, [home.rig.platform]):
            await wake.wait(0.05)


@pytest.fixture(autouse=True)
def shows_halves(home: Household) -> None:
    home.set_constants({"segue.gateway.streaming.BUBBLE_DELAY": 0.2})


@on(rigs.DiscordRig, rigs.SignalRig, among=rigs.EDITING)
async def test_a_partial_message_becomes_the_answer(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        await begins_a_story(home, thread)
        begun = await grows(home, thread)
        await is_known(home)
    home.model.travel = AT_ONCE
    async with home.gateway():
        answer = await home.sees("(3) a story", thread)
        if not home.rig.edits_later:
            await home.sees(texts.HALF, thread)
        left = [m.id for m in (await home.rig.look(home.chat)).messages if is_growing(m)]
    assert left == ([] if home.rig.edits_later else [begun.id])
    assert (answer.id == begun.id, answer.text) == (home.rig.edits_later, "(3) a story")
    said = await home.texts(thread)
    assert len(said) == 3 + 2 * len(left)
    assert (texts.HALF in said) == bool(left)
    assert await outbox.troubled(home.store) == ()


@on(rigs.TelegramRig, among=rigs.KEYLESS)
async def test_a_partial_message_that_may_have_arrived_is_reported(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        await home.rig.fail(Act.SEND, Trouble.HANG_AFTER)
        await begins_a_story(home, thread)
        begun = await grows(home, thread)
        await home.rig.until(lambda view: view.hanging == 1)
    await home.rig.calm()
    home.model.travel = AT_ONCE
    async with home.gateway():
        await home.sees(texts.HALF, thread)
    _, _, left, answer, told = home.spoken(await home.rig.look(home.chat), thread)
    assert left.id == begun.id
    assert is_half(left)
    assert (answer.text, told.text) == ("(3) a story", texts.HALF)
