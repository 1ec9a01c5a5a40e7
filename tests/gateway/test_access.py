"""Unknown senders are ignored until they send a code from the owner's machine."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from segue.core.address import Address, ChatType, Sender
from segue.core.session import ME
from segue.gateway import texts
from segue.gateway.access import GUESS_WINDOW, MAX_GUESSES, Gate
from segue.platforms.base import Inbound, InboundKind
from segue.store import owners, pairings
from segue.store.outbox import OutgoingState
from segue.testing.platform import Shape, Trouble
from tests.gateway.test_commands import message_with
from tests.harness.house import TELEGRAM, House


async def test_a_code_pairs_only_its_sender(house: House):
    chat = await house.driver.chat(Shape.DM, [house.eve])
    async with house.gateway():
        code = await pairings.begin(house.store, ME)
        await house.driver.say(house.eve, chat, "let me in")
        await house.driver.say(house.eve, chat, code.lower())
        await house.driver.until(lambda s: any("You are paired" in t for t in s.texts), chat=chat)
        await house.driver.say(house.eve, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
    assert await owners.who(house.store, TELEGRAM, house.eve)
    assert len(house.model.prompts) == 1


async def test_a_deep_link_pairs_its_sender(house: House):
    chat = await house.driver.chat(Shape.DM, [house.eve])
    async with house.gateway():
        code = await pairings.begin(house.store, ME)
        await house.driver.command(house.eve, chat, f"/start {code}")
        await house.driver.until(lambda s: any("You are paired" in t for t in s.texts), chat=chat)


async def test_after_too_many_guesses_the_right_code_is_refused_and_void(
    house: House,
):
    chat = await house.driver.chat(Shape.DM, [house.eve])
    own = await house.chat()
    async with house.gateway():
        code = await pairings.begin(house.store, ME)
        for _ in range(MAX_GUESSES + 2):
            await house.driver.say(house.eve, chat, "2345-6789")
        await house.driver.say(house.anna, own, "after")
        await house.driver.message("(1) after", chat=own)
        assert {m.author for m in (await house.driver.look(chat)).messages} == {house.eve}
        await house.driver.say(house.eve, chat, code)
        await house.driver.until(lambda s: texts.TOO_MANY_CODES in s.texts, chat=chat)
    assert await owners.who(house.store, TELEGRAM, house.eve) is None
    assert await pairings.open_codes(house.store) == 0


async def test_guesses_by_unknown_senders_do_not_block_the_right_code(house: House):
    gate = Gate(house.store, lambda: 0.0)
    code = await pairings.begin(house.store, ME)
    for n in range(30 * MAX_GUESSES):
        assert not await gate.pair("bot", said(f"stranger {n % 30}", "2345-6789", n))
    assert await gate.pair("bot", said("me", code, 1000))
    assert await owners.who(house.store, TELEGRAM, "me")


async def test_after_too_many_guesses_a_sender_can_try_again_once_the_window_is_over(house: House):
    now = 0.0
    gate = Gate(house.store, lambda: now)
    for n in range(MAX_GUESSES):
        await gate.pair("bot", said("me", "2345-6789", n))
    now = GUESS_WINDOW
    assert await gate.pair("bot", said("me", await pairings.begin(house.store, ME), 1000))
    assert await owners.who(house.store, TELEGRAM, "me")


def said(user_id: str, text: str, update: int) -> Inbound:
    return Inbound(
        kind=InboundKind.MESSAGE,
        update_id=f"{update}",
        address=Address(platform=TELEGRAM, chat_id=user_id, chat_type=ChatType.DM),
        sender=Sender(platform=TELEGRAM, user_id=user_id),
        text=text,
    )


async def test_a_code_sent_by_a_paired_user_is_not_treated_as_a_message(house: House):
    chat = await house.chat()
    async with house.gateway():
        code = await pairings.begin(house.store, ME)
        await house.driver.say(house.anna, chat, code)
        await house.driver.until(lambda s: any("You are paired" in t for t in s.texts), chat=chat)
        await house.driver.say(house.anna, chat, "2345-6789")  # a phone number
        await house.driver.message("(1) 2345-6789", chat=chat)
    assert await pairings.open_codes(house.store) == 0
    assert len(house.model.prompts) == 1


async def test_messages_of_a_revoked_user_are_ignored_at_once(house: House):
    chat, own = await house.chat(), await house.driver.chat(Shape.DM, [house.eve])
    await house.pair(house.eve)
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await owners.unlink(house.store, TELEGRAM, house.anna)
        await house.driver.say(house.anna, chat, "still me")
        await house.driver.say(house.eve, own, "after")
        await house.driver.message("(1) after", chat=own)
    assert len(house.model.prompts) == 2


@pytest.mark.parametrize("shape", [Shape.DM, Shape.GROUP])
async def test_the_first_conversation_starts_with_an_introduction(house: House, shape: Shape):
    await owners.ensure(house.store, "friend")
    from segue.core.address import Sender

    await owners.link(house.store, Sender(platform=TELEGRAM, user_id=house.eve), "friend")
    chat = await house.driver.chat(shape, [house.eve])
    other = await house.driver.chat(Shape.NO_THREADS, [house.eve])
    async with house.gateway():
        await house.driver.say(house.eve, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.say(house.eve, other, "hello again")
        await house.driver.message("(1) hello again", chat=other)
        shown = [*(await house.driver.look(chat)).texts, *(await house.driver.look(other)).texts]
    assert sum("I am Segue" in text for text in shown) == 1


async def test_the_chat_that_sent_the_first_code_becomes_the_home_channel(house: House):
    chat = await house.driver.chat(Shape.DM, [house.eve])
    other = await house.driver.chat(Shape.DM, [house.eve])
    async with house.gateway():
        for place in (chat, other):
            code = await pairings.begin(house.store, ME)
            await house.driver.say(house.eve, place, code)
            await house.driver.until(lambda s: any("paired" in t for t in s.texts), chat=place)
    (home,) = await owners.homes(house.store, ME)
    assert home.address.chat_id == chat


async def test_a_group_does_not_become_the_home_channel_automatically(house: House):
    chat = await house.driver.chat(Shape.GROUP, [house.eve, house.anna])
    async with house.gateway():
        code = await pairings.begin(house.store, ME)
        await house.driver.say(house.eve, chat, code)
        await house.driver.until(lambda s: any("paired" in t for t in s.texts), chat=chat)
    assert await owners.homes(house.store, ME) == ()


async def test_a_chat_in_which_the_bot_cannot_write_pairs_and_does_not_become_the_home(
    house: House,
):
    seen = await house.chat()
    chat = await house.driver.chat(Shape.DM, [house.eve], name="Anna and Eve")
    async with house.gateway():
        await house.driver.say(house.anna, seen, "hello")
        await house.driver.message("(1) hello", chat=seen)
        await house.driver.fail("send", Trouble.FORBIDDEN, chat=chat)
        code = await pairings.begin(house.store, ME)
        await house.driver.say(house.eve, chat, code)
        told = await message_with(house, seen, "where you sent the code, so it is not your home")
        assert "I cannot write in the telegram chat" in told.text
        await house.idle()
    assert await owners.homes(house.store, ME) == ()
    assert await owners.who(house.store, TELEGRAM, house.eve)
    reply = await pairings.reply(house.store, code)
    assert reply is not None
    assert reply.state is OutgoingState.FAILED


async def test_a_home_whose_reply_fails_after_a_crash_is_taken_back(house: House):
    chat = await house.driver.chat(Shape.DM, [house.eve])
    code = await pairings.begin(house.store, ME)
    at = Address(platform=TELEGRAM, chat_id=chat, chat_type=ChatType.DM)
    sender = Sender(platform=TELEGRAM, user_id=house.eve)
    inbound = replace(said(house.eve, code, 1), address=at, sender=sender)
    assert await Gate(house.store).pair("bot", inbound)  # and then the gateway is killed
    [home] = await owners.homes(house.store, ME)
    assert home.address == at
    await house.driver.fail("send", Trouble.FORBIDDEN, chat=chat)
    async with house.gateway():
        await house.idle()
    assert await owners.homes(house.store, ME) == ()
