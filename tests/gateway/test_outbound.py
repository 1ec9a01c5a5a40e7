"""Messages to chats arrive once, in order and complete, or their failure is reported."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.scripted import Say, ScriptedModel
from segue.core import provenance
from segue.core.address import Address, ChatType, Platform
from segue.gateway import outbound, streaming
from segue.gateway.janitor import Janitor
from segue.gateway.streaming import LiveAnswer
from segue.store import Topic, bubbles, leases, outbox, transcripts
from segue.store.base import Tx
from segue.store.gateways import LinkState
from segue.store.outbox import OutgoingState
from segue.testing.platform import PeerAdapter, Rules, Shape, Trouble
from segue.testing.platform.adapter import Client
from segue.turns import Turns, hold
from tests.harness.house import TELEGRAM, House, echoing
from tests.turns.conftest import call


async def test_a_long_answer_arrives_in_parts_in_order(house: House):
    await house.driver.rules(Rules(length=200))
    chat = await house.chat()
    lines = "\n".join(f"Line {number} of a long answer." for number in range(40))
    async with house.gateway(model=[lines]):
        await house.driver.say(house.anna, chat, "much")
        shown = await house.driver.until(
            lambda s: any("Line 39" in text for text in s.texts), chat=chat
        )
    said = "\n".join(m.text for m in shown.messages if m.author != house.anna)
    assert [n for n in range(40) if f"Line {n} of" in said] == list(range(40))
    assert said.index("Line 0 ") < said.index("Line 20 ") < said.index("Line 39 ")


@pytest.mark.parametrize("trouble", [Trouble.BUSY, Trouble.BROKEN, Trouble.DROP_AFTER])
async def test_with_idempotency_keys_a_retry_sends_no_duplicate(house: House, trouble: Trouble):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.fail("send", trouble, times=2)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    assert list((await house.driver.look(chat)).texts).count("(1) hello") == 1


async def test_without_keys_a_message_that_may_have_arrived_is_reported_and_not_repeated(
    house: House,
):
    await house.driver.rules(Rules(keys=False))
    chat = await house.chat()
    async with house.gateway():
        await house.driver.fail("send", Trouble.DROP_AFTER)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
    assert list((await house.driver.look(chat)).texts).count("(1) hello") == 1
    (trouble,) = await outbox.troubled(house.store)
    assert trouble.state is OutgoingState.UNCERTAIN


class ForgetfulAdapter(PeerAdapter):
    """Its platform forgets a key at once."""

    async def _greet(self, client: Client) -> None:
        await super()._greet(client)
        self.capabilities = dataclasses.replace(self.capabilities, key_age=timedelta(0))


async def test_a_message_whose_key_the_platform_may_have_forgotten_is_not_repeated(house: House):
    chat = await house.chat()
    async with house.gateway(speaks=ForgetfulAdapter):
        await house.driver.fail("send", Trouble.DROP_AFTER)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.fail("send", Trouble.BUSY)  # that one did not arrive
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
        await house.idle()
    assert list((await house.driver.look(chat)).texts).count("(1) hello") == 1
    (trouble,) = await outbox.troubled(house.store)
    assert (trouble.state, trouble.attempt) == (OutgoingState.UNCERTAIN, 1)


async def test_the_next_gateway_knows_since_when_a_message_may_have_arrived(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbound, "pause", lambda *_: 2.0)
    chat = await house.chat()
    async with house.gateway():
        await house.driver.fail("send", Trouble.DROP_AFTER)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await queued_again(house)
    async with house.gateway(speaks=ForgetfulAdapter):
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
        await house.idle()
    assert list((await house.driver.look(chat)).texts).count("(1) hello") == 1
    (trouble,) = await outbox.troubled(house.store)
    assert (trouble.state, trouble.attempt) == (OutgoingState.UNCERTAIN, 2)


async def queued_again(house: House) -> None:
    """Wait until a message is queued that may have arrived."""
    async with house.store.listen(Topic.SENT) as wake:
        while not await house.store.read(_unconfirmed):
            await wake.wait(0.05)


def _unconfirmed(tx: Tx) -> int:
    sql = "SELECT count(*) FROM outbox WHERE state = 'queued' AND unconfirmed IS NOT NULL"
    return tx.one(sql)[0]


async def test_an_undelivered_message_is_reported_in_its_session(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.fail("send", Trouble.FORBIDDEN)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
        await house.idle()
    (trouble,) = await outbox.troubled(house.store)
    assert trouble.state is OutgoingState.FAILED
    await Janitor(house.store).clean_up()
    session = await house.session_at(await house.address(chat))
    role, text = (await house.said(session.id))[-1]
    assert role == "system"
    assert "did not arrive" in text
    (notice,) = await transcripts.last(house.store, session.id, 1)
    assert notice.provenance == provenance.PROGRAM | provenance.UNKNOWN  # it quotes the platform
    await Janitor(house.store).clean_up()
    assert (await house.said(session.id))[-1] == (role, text)
    assert [r for r, _ in await house.said(session.id)].count("system") == 1


async def test_messages_are_delivered_after_an_outage_of_the_platform(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.down()
        await house.until_link(LinkState.DOWN)
        await house.driver.up()
        await house.driver.say(house.anna, chat, "again")
        await house.driver.message("(2) again", chat=chat)


class Slow(ScriptedModel):
    """Streams one word at a time, each when the test allows it."""

    def __init__(self) -> None:
        super().__init__(echoing())
        self.may = asyncio.Semaphore(0)

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        async for piece in super().stream(prompt):
            if isinstance(piece, Text):
                await self.may.acquire()
            yield piece


async def test_an_answer_is_streamed_by_edits_and_ends_as_one_message(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.driver.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    model = Slow()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "one two three")
        model.may.release()
        await house.driver.until(lambda s: any("(1) …" in t for t in s.texts), chat=chat)
        model.may.release()
        await house.driver.until(lambda s: any("(1) one …" in t for t in s.texts), chat=chat)
        for _ in range(5):
            model.may.release()
        await house.driver.message("(1) one two three", chat=chat)
        await house.idle()
    assert len((await house.driver.look(chat)).messages) == 2


async def test_a_partial_answer_stays_when_its_session_is_taken_over(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.driver.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    model = Slow()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "one two three")
        for _ in range(2):
            model.may.release()
        await house.driver.until(lambda s: any("(1) one …" in t for t in s.texts), chat=chat)
        session = await house.session_at(await house.address(chat))
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(house.store, session.id, "a terminal", take_over=True, address=here):
            await house.driver.until(
                lambda s: "This conversation went to" in s.texts[-1], chat=chat
            )
            await house.idle()
    _, half, notice = (await house.driver.look(chat)).texts
    assert half == "(1) one …\n\nInterrupted here."
    assert notice.startswith("This conversation went to")


async def test_a_delivered_answer_is_not_redrawn_as_unfinished(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """Although the turn does not know yet that the answer is stored."""
    record, update = Turns._record, LiveAnswer._update
    known, drawn = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(self: Turns, *args: Any) -> None:
        await record(self, *args)
        await known.wait()

    async def counted(self: LiveAnswer) -> None:
        await update(self)
        self._dirty.set()
        drawn.release()

    monkeypatch.setattr(Turns, "_record", slow)
    monkeypatch.setattr(LiveAnswer, "_update", counted)
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.driver.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        drawn = asyncio.Semaphore(0)
        for _ in range(3):
            await drawn.acquire()
        known.set()
        await house.idle()
    assert (await house.driver.look(chat)).texts == ["one", "(1) one"]
    assert await bubbles.shown(house.store, [TELEGRAM]) == {}


async def test_a_partial_answer_that_is_still_being_sent_becomes_the_answer(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.driver.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    model = Slow()
    async with house.gateway(model=model):
        await house.driver.fail("send", Trouble.DELAY, seconds=0.3)
        await house.driver.say(house.anna, chat, "one")
        model.may.release()
        await house.driver.until(lambda shown: shown.calls.get("send", 0) > 0)
        model.may.release()
        await house.driver.message("(1) one", chat=chat)
        await house.idle()
    shown = await house.driver.look(chat)
    assert (shown.texts, shown.calls["send"]) == (["one", "(1) one"], 1)


async def test_a_turn_does_not_wait_for_the_delivery_of_its_messages(house: House):
    chat = await house.chat()
    script = [Say(text="Let me look.", calls=(call("list_files", path="/"),)), "Done."]
    async with house.gateway(model=script):
        await house.driver.fail("send", Trouble.HANG)
        await house.driver.say(house.anna, chat, "look around")
        await house.driver.until(lambda shown: shown.hanging == 1)
        session = await house.session_at(await house.address(chat))
        async with asyncio.timeout(5), house.store.listen(Topic.LEASES) as wake:
            while await leases.get(house.store, session.id):
                await wake.wait(0.01)
        await house.driver.calm()
        await house.driver.message("Done.", chat=chat)


async def test_a_status_line_shows_the_running_tool_and_becomes_the_answer(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.driver.rules(Rules(edits=True, edit_seconds=0.01))
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
        await house.driver.say(house.anna, chat, "look around")
        await house.driver.until(lambda s: any("list_files ×2" in t for t in s.texts), chat=chat)
        go.set()
        await house.driver.message("Done.", chat=chat)
        await house.idle()
    shown = await house.driver.look(chat)
    assert list(shown.texts) == ["look around", "Done."]


async def test_the_chat_shows_typing_while_the_agent_works(house: House):
    await house.driver.rules(Rules(typing=True))
    chat = await house.chat(Shape.DM)
    model = Slow()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "one")
        await house.driver.until(lambda s: bool(s.typing), chat=chat)
        for _ in range(3):
            model.may.release()
        await house.driver.message("(1) one", chat=chat)
