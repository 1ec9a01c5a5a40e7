"""A handoff and a question go only to a chat that is as private as the owner believes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue.core.address import Address, ChatType
from segue.core.errors import AudienceChanged
from segue.core.session import ME
from segue.gateway import outbound
from segue.gateway.context import FRESH_SECONDS, Audiences
from segue.handoffs.values import State
from segue.store import Topic, outbox, owners
from segue.testing.platform import Shape, Trouble
from tests.gateway.test_approvals import asked, runs
from tests.gateway.test_handoffs import SAID, home_in
from tests.harness.house import TELEGRAM, House

SHARED = (Shape.GROUP, Shape.NO_THREADS)


async def handed_off(house: House) -> tuple[State, str]:
    """How a handoff of a new session ends."""
    async with house.terminal(*SAID) as desk:
        done = await desk.hand_off()
    return done.state, done.error or ""


async def come_in(house: House, chat: str) -> None:
    """Eve comes into the chat."""
    await house.driver.populate(chat, [house.anna, house.eve])


@pytest.mark.parametrize("shape", SHARED)
async def test_no_handoff_arrives_where_a_newcomer_reads_it(house: House, shape: Shape):
    async with house.gateway():
        chat, _ = await home_in(house, shape)
        await come_in(house, chat)
        before = (await house.driver.look(chat)).texts
        state, error = await handed_off(house)
        assert state is State.FAILED
        assert "1 new reader. Send /sethome there" in error
        assert (await house.driver.look(chat)).texts == before
        await house.driver.say(house.anna, chat, "/sethome yes")
        arrive = "Handoffs to telegram arrive here from now on."
        await house.driver.until(lambda shown: shown.texts.count(arrive) == 2, chat=chat)
        state, error = await handed_off(house)
        assert state is State.COMPLETED, error


async def test_no_handoff_arrives_in_a_chat_that_became_public(house: House):
    async with house.gateway():
        chat, _ = await home_in(house, Shape.GROUP)
        await house.driver.publish(chat)
        state, error = await handed_off(house)
    assert state is State.FAILED
    assert "it is public now" in error


async def test_no_handoff_arrives_where_the_owner_has_left(house: House):
    async with house.gateway():
        chat, _ = await home_in(house, Shape.GROUP)
        await house.driver.populate(chat, [house.eve])
        state, error = await handed_off(house)
    assert state is State.FAILED
    assert "You are not in telegram group" in error
    assert "Send /sethome in another chat" in error


async def test_a_look_that_fails_once_is_repeated(house: House):
    async with house.gateway():
        await home_in(house, Shape.GROUP)
        await house.driver.fail("readers", Trouble.BUSY)
        state, error = await handed_off(house)
    assert state is State.COMPLETED, error


async def test_a_question_waits_while_a_newcomer_could_read_it(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbound, "PROBE_SECONDS", 600.0)
    async with house.gateway(model=runs(tmp_path / "made")):
        chat, _ = await home_in(house, Shape.NO_THREADS)
        await come_in(house, chat)
        async with house.store.listen(Topic.SENT) as wake, asyncio.timeout(20):
            await house.driver.say(house.anna, chat, "make it @bot")
            while not (paused := await outbox.paused(house.store)):
                await wake.wait(1.0)
        assert paused[0].platform is TELEGRAM
        assert paused[0].until is None
        assert "1 new reader" in paused[0].reason
        shown = await house.driver.look(chat)
        assert not any("May I do this?" in text for text in shown.texts)
        await house.driver.say(house.anna, chat, "/sethome")
        sure = await house.driver.until(
            lambda shown: any("can read them. Type /sethome yes" in text for text in shown.texts),
            chat=chat,
        )
        assert not any("May I do this?" in text for text in sure.texts)
        await house.driver.say(house.anna, chat, "/sethome yes")
        await asked(house, chat)
        assert await outbox.paused(house.store) == ()


async def test_a_home_without_a_record_gets_one_at_the_first_look(house: House):
    async with house.gateway():
        chat, home = await home_in(house, Shape.GROUP)
        (found,) = await owners.homes(house.store, ME)
        assert found.audience is not None
        assert found.audience.names == (house.anna,)
        unknown = type(found)(address=home, name=found.name)
        await owners.set_home(house.store, ME, unknown)
        state, error = await handed_off(house)
        assert state is State.COMPLETED, error
        (found,) = await owners.homes(house.store, ME)
        assert found.audience is not None
        assert chat == found.address.chat_id


async def test_the_platform_is_asked_once_a_minute(house: House):
    now = 0.0
    chat = await house.chat(Shape.GROUP)
    adapter = house.adapter(TELEGRAM)
    await adapter.connect()
    try:
        audiences = Audiences(house.store, {TELEGRAM: adapter}, lambda: now)
        at = Address(platform=TELEGRAM, chat_type=ChatType.GROUP, chat_id=chat)
        await audiences.check(ME, at)
        await house.driver.populate(chat, [house.eve])
        await audiences.check(ME, at)
        assert len(await house.driver.calls("readers")) == 1
        now = FRESH_SECONDS
        with pytest.raises(AudienceChanged, match="You are not in"):
            await audiences.check(ME, at)
        await house.driver.populate(chat, [house.anna])
        await audiences.check(ME, at)  # a bad answer is not kept
    finally:
        await adapter.close()
