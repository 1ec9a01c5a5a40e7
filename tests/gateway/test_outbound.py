"""What is said in chats arrives: once, in order, whole, and never in silence not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.scripted import Say, ScriptedModel
from segue.gateway import streaming
from segue.gateway.janitor import Janitor
from segue.store import Topic
from segue.store.gateways import LinkState
from segue.store.outbox import OutgoingState
from segue.testing.platform import Rules, Shape, Trouble
from tests.gateway.conftest import House, echoing
from tests.turns.conftest import call


async def test_a_long_answer_arrives_in_parts_in_order(house: House):
    await house.hands.rules(Rules(length=200))
    chat = await house.chat()
    lines = "\n".join(f"Line {number} of a long answer." for number in range(40))
    async with house.gateway(model=[lines]):
        await house.hands.say(house.anna, chat, "much")
        shown = await house.hands.until(
            lambda s: any("Line 39" in text for text in s.texts), chat=chat
        )
    said = "\n".join(m.text for m in shown.messages if m.author != house.anna)
    assert [n for n in range(40) if f"Line {n} of" in said] == list(range(40))
    assert said.index("Line 0 ") < said.index("Line 20 ") < said.index("Line 39 ")


@pytest.mark.parametrize("trouble", [Trouble.BUSY, Trouble.BROKEN, Trouble.DROP_AFTER])
async def test_where_the_platform_takes_keys_trouble_doubles_nothing(
    house: House, trouble: Trouble
):
    chat = await house.chat()
    async with house.gateway():
        await house.hands.fail("send", trouble, times=2)
        await house.hands.say(house.anna, chat, "hello")
        await house.hands.message("(1) hello", chat=chat)
        await house.idle()
    assert list((await house.hands.look(chat)).texts).count("(1) hello") == 1


async def test_without_keys_what_may_have_arrived_is_reported_and_not_repeated(house: House):
    await house.hands.rules(Rules(keys=False))
    chat = await house.chat()
    async with house.gateway():
        await house.hands.fail("send", Trouble.DROP_AFTER)
        await house.hands.say(house.anna, chat, "hello")
        await house.hands.message("(1) hello", chat=chat)
        await house.hands.say(house.anna, chat, "after")
        await house.hands.message("(2) after", chat=chat)
    assert list((await house.hands.look(chat)).texts).count("(1) hello") == 1
    (trouble,) = await house.store.outbox.troubled()
    assert trouble.state is OutgoingState.UNCERTAIN


async def test_what_cannot_be_delivered_is_told_in_the_session(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.hands.fail("send", Trouble.FORBIDDEN)
        await house.hands.say(house.anna, chat, "hello")
        await house.hands.say(house.anna, chat, "after")
        await house.hands.message("(2) after", chat=chat)
        await house.idle()
    (trouble,) = await house.store.outbox.troubled()
    assert trouble.state is OutgoingState.FAILED
    await Janitor(house.store).look()
    session = await house.session_at(await house.address(chat))
    role, text = (await house.said(session.id))[-1]
    assert role == "system"
    assert "did not arrive" in text
    await Janitor(house.store).look()
    assert (await house.said(session.id))[-1] == (role, text)
    assert [r for r, _ in await house.said(session.id)].count("system") == 1


async def test_a_platform_that_is_away_for_a_while_gets_everything_later(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.hands.say(house.anna, chat, "hello")
        await house.hands.message("(1) hello", chat=chat)
        await house.hands.down()
        await house.until_link(LinkState.DOWN)
        await house.hands.up()
        await house.hands.say(house.anna, chat, "again")
        await house.hands.message("(2) again", chat=chat)


class Slow(ScriptedModel):
    """Says its words one by one, each when it may."""

    def __init__(self) -> None:
        super().__init__(echoing())
        self.may = asyncio.Semaphore(0)

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        async for piece in super().stream(prompt):
            if isinstance(piece, Text):
                await self.may.acquire()
            yield piece


async def test_an_answer_is_seen_as_it_comes_and_ends_as_one_message(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.hands.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    model = Slow()
    async with house.gateway(model=model):
        await house.hands.say(house.anna, chat, "one two three")
        model.may.release()
        await house.hands.until(lambda s: any("(1) …" in t for t in s.texts), chat=chat)
        model.may.release()
        await house.hands.until(lambda s: any("(1) one …" in t for t in s.texts), chat=chat)
        for _ in range(5):
            model.may.release()
        await house.hands.message("(1) one two three", chat=chat)
        await house.idle()
    assert len((await house.hands.look(chat)).messages) == 2


async def test_half_an_answer_that_is_still_on_its_way_becomes_the_answer(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.hands.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    model = Slow()
    async with house.gateway(model=model):
        await house.hands.fail("send", Trouble.DELAY, seconds=0.3)
        await house.hands.say(house.anna, chat, "one")
        model.may.release()
        await house.hands.until(lambda shown: shown.calls.get("send", 0) > 0)
        model.may.release()
        await house.hands.message("(1) one", chat=chat)
        await house.idle()
    shown = await house.hands.look(chat)
    assert (shown.texts, shown.calls["send"]) == (["one", "(1) one"], 1)


async def test_a_turn_does_not_wait_until_what_it_said_is_delivered(house: House):
    chat = await house.chat()
    script = [Say(text="Let me look.", calls=(call("list_files", path="/"),)), "Done."]
    async with house.gateway(model=script):
        await house.hands.fail("send", Trouble.HANG)
        await house.hands.say(house.anna, chat, "look around")
        await house.hands.until(lambda shown: shown.hanging == 1)
        session = await house.session_at(await house.address(chat))
        async with asyncio.timeout(5), house.store.listen(Topic.LEASES) as wake:
            while await house.store.leases.get(session.id):
                await wake.wait(0.01)
        await house.hands.calm()
        await house.hands.message("Done.", chat=chat)


async def test_what_the_agent_does_is_one_line_that_becomes_the_answer(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.hands.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    go = asyncio.Event()

    class Working(ScriptedModel):
        async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
            if len(self.prompts) == 2:
                await go.wait()
            async for piece in super().stream(prompt):
                yield piece

    script = [call("list_files", path="/"), call("list_files", 2, path="/"), "Done."]
    async with house.gateway(model=Working(script)):
        await house.hands.say(house.anna, chat, "look around")
        await house.hands.until(lambda s: any("list_files ×2" in t for t in s.texts), chat=chat)
        go.set()
        await house.hands.message("Done.", chat=chat)
        await house.idle()
    shown = await house.hands.look(chat)
    assert list(shown.texts) == ["look around", "Done."]


async def test_the_platform_shows_that_an_answer_is_on_its_way(house: House):
    await house.hands.rules(Rules(typing=True))
    chat = await house.chat(Shape.DM)
    model = Slow()
    async with house.gateway(model=model):
        await house.hands.say(house.anna, chat, "one")
        await house.hands.until(lambda s: bool(s.typing), chat=chat)
        for _ in range(3):
            model.may.release()
        await house.hands.message("(1) one", chat=chat)
