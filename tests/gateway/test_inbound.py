"""Inbound messages: in order, once, bounded, and with files."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import structs

from segue.core.address import Platform, Sender
from segue.core.transcript import Role
from segue.gateway import texts
from segue.gateway.dispatch import MAX_WAITING
from segue.platforms.base import Inbound, InboundKind
from segue.store import inbox
from segue.store.base import Topic, Tx
from segue.testing.platform import PeerAdapter, Rules, Shape, Upload
from segue.turns import hold
from tests.gateway.test_commands import Waiting, message_with
from tests.harness.house import House

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_message_during_a_turn_is_answered_after_it(house: House):
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "one")
        await model.asked.wait()
        await house.driver.say(house.anna, chat, "two")
        model.go.set()
        await house.driver.message("(2) two", chat=chat)
        shown = await house.driver.look(chat)
    assert [t for t in shown.texts if t.startswith("(")] == ["(1) one", "(2) two"]


async def test_a_full_queue_refuses_more_and_answers_the_rest(house: House):
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "first")
        await model.asked.wait()
        for number in range(MAX_WAITING + 2):
            await house.driver.say(house.anna, chat, f"n{number}")
        await house.driver.until(lambda s: list(s.texts).count(texts.BUSY) == 2, chat=chat)
        model.go.set()
        await house.driver.message(f"({MAX_WAITING + 1}) n{MAX_WAITING - 1}", chat=chat)
        await house.idle()
    assert len(model.prompts) == MAX_WAITING + 1


async def test_an_edit_of_a_queued_message_replaces_it(house: House):
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "first")
        await model.asked.wait()
        message = await house.driver.say(house.anna, chat, "delete everything")
        await house.driver.edit(message, "delete nothing")
        await house.idle_but_for(2)
        model.go.set()
        await house.driver.message("(2) delete nothing", chat=chat)


async def test_an_edit_that_comes_too_late_gets_a_notice(house: House):
    chat = await house.chat()
    async with house.gateway():
        message = await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        await house.driver.edit(message, "two")
        await house.driver.message(texts.ANSWERED_ALREADY, chat=chat)
    assert len(house.model.prompts) == 1


async def test_an_edit_of_a_message_that_waits_for_its_session_replaces_it(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
        session = await house.session_at(await house.address(chat))
        async with hold(house.store, session.id, "a job"):
            message = await house.driver.say(house.anna, chat, "remove A")
            await waits(house, "remove A")
            await house.driver.edit(message, "remove B")
            await waits(house, "remove B")
        await house.driver.message("(2) remove B", chat=chat)
        await house.idle()
    assert texts.ANSWERED_ALREADY not in (await house.driver.look(chat)).texts


async def waits(house: House, words: str) -> None:
    """Return when one entry waits, with these words."""
    async with house.store.listen(Topic.INBOX) as wake:
        while True:
            waiting = await inbox.waiting(house.store)
            if len(waiting) == 1 and words in waiting[0].body:
                return
            await wake.wait(0.05)


async def test_an_edit_of_a_message_that_was_answered_long_ago_is_no_new_message(house: House):
    chat = await house.chat()
    async with house.gateway():
        first = await house.driver.say(house.anna, chat, "delete the logs")
        await house.driver.message("(1) delete the logs", chat=chat)
        await house.driver.say(house.anna, chat, "today")
        await house.driver.message("(2) today", chat=chat)
        await house.idle()
        await house.store.write(_forget, "delete the logs")
        await house.driver.edit(first, "delete the logs!")
        await house.driver.message(texts.ANSWERED_ALREADY, chat=chat)
        await house.idle()
    assert not any(text.startswith("(3)") for text in (await house.driver.look(chat)).texts)


def _forget(tx: Tx, words: str) -> None:
    """The entry was pruned, a week after it was answered."""
    tx.change("DELETE FROM inbox WHERE body LIKE :words", words=f"%{words}%")


async def test_an_edit_that_changes_nothing_is_ignored(house: House):
    """Some platforms report a reaction as an edit."""
    chat = await house.chat()
    async with house.gateway():
        message = await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        await house.driver.edit(message, "one")
        await house.driver.edit(message, "two")
        await house.driver.message(texts.ANSWERED_ALREADY, chat=chat)
        await house.driver.edit(message, "two")
        await house.driver.say(house.anna, chat, "three")
        await house.driver.message("(2) three", chat=chat)
        shown = await house.driver.look(chat)
    assert list(shown.texts).count(texts.ANSWERED_ALREADY) == 1


async def test_a_message_that_is_edited_to_address_the_bot_is_answered_once(house: House):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway():
        message = await house.driver.say(house.anna, chat, "what is 2 and 2?")
        await house.driver.edit(message, "@bot what is 2 and 2?")
        await house.driver.message("(1) @bot what is 2 and 2?", chat=chat)
        await house.driver.repeat(1)
        await house.driver.edit(message, "@bot what is 2 and 3?")
        await house.driver.message(texts.ANSWERED_ALREADY, chat=chat)
        await house.idle()
    assert len(house.model.prompts) == 1


async def test_an_edit_that_drops_the_mention_still_replaces_a_queued_message(house: House):
    await house.driver.rules(Rules(mentions=True))
    chat = await house.chat(Shape.GROUP, house.eve)
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "@bot first")
        await model.asked.wait()
        message = await house.driver.say(house.anna, chat, "@bot delete everything")
        await house.driver.edit(message, "never mind")
        await house.idle_but_for(2)
        model.go.set()
        await house.driver.message("(2) never mind", chat=chat)


async def test_an_edit_recorded_before_a_crash_is_not_answered_as_a_message_after_it(house: House):
    chat = await house.chat()
    async with house.gateway():
        message = await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        address = await house.address(chat)
    edit = Inbound(
        kind=InboundKind.EDIT,
        update_id="recorded and not done",
        address=address,
        sender=Sender(platform=address.platform, user_id=house.anna),
        text="two",
        message_id=message,
    )
    await inbox.record(
        house.store, "bot:1", edit.update_id, address, msgspec.json.encode(edit).decode(), message
    )
    async with house.gateway():
        await house.driver.message(texts.ANSWERED_ALREADY, chat=chat)
    assert len(house.model.prompts) == 1


async def test_a_bot_that_is_added_to_a_group_says_what_to_do(house: House):
    chat = await house.chat(Shape.GROUP)
    async with house.gateway():
        await house.driver.join(house.anna, chat)
        await house.driver.message(texts.JOINED, chat=chat)


def test_the_model_sees_a_picture_and_its_tools_can_read_a_file(
    house: House, runner: asyncio.Runner
):
    picture = Upload(name="p.png", media_type="image/png", content=PIXEL)
    file = Upload(name="../../etc/cron.d/notes.txt", media_type="text/plain", content=b"17")

    async def talk() -> None:
        chat = await house.chat()
        async with house.gateway():
            await house.driver.say(house.anna, chat, "look", files=[picture, file])
            await message_with(house, chat, "attached file:")

    runner.run(talk())
    (prompt,) = house.model.prompts
    said = next(m for m in prompt.messages if m.role is Role.USER)
    assert [image.data for image in said.images] == [PIXEL]
    path = Path(said.content.partition("[attached file: ")[2].rstrip("]"))
    assert path.read_bytes() == b"17"
    assert path.is_relative_to(house.settings.gateway_log.parent / "files")
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_stored_is_reported_and_the_message_is_answered(
    house: House, runner: asyncio.Runner
):
    (house.settings.gateway_log.parent / "files").touch()  # in place of the folder
    file = Upload(name="notes.txt", media_type="text/plain", content=b"17")

    async def talk() -> None:
        chat = await house.chat()
        async with house.gateway():
            await house.driver.say(house.anna, chat, "look", files=[file])
            await message_with(house, chat, "'notes.txt' could not be saved: Not a directory")

    runner.run(talk())


async def test_a_message_over_the_size_limit_is_reported_and_the_next_is_answered(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "x" * (9 * 1024 * 1024))
        await message_with(house, chat, "That message has")
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(1) after", chat=chat)


async def test_five_hundred_malformed_updates_are_ignored(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.inject(["{", "null", "[]", '{"kind": "message"}', "\x00"] * 100)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(1) after", chat=chat)


async def test_reordered_and_repeated_updates_are_each_answered_once(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.hold()
        for number in range(5):
            await house.driver.say(house.anna, chat, f"n{number}")
        await house.driver.release(backwards=True)
        await house.driver.until(lambda s: sum(t.startswith("(") for t in s.texts) == 5, chat=chat)
        await house.driver.repeat(5)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(6) after", chat=chat)
    assert len(house.model.prompts) == 6


async def test_a_message_with_invalid_unicode_does_not_stop_the_gateway(house: House):
    chat = await house.chat()
    async with house.gateway() as gateway:
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        address = await house.address(chat)
        sender = Sender(platform=address.platform, user_id=house.anna, name="Anna")
        broken = Inbound(
            kind=InboundKind.MESSAGE,
            update_id="broken",
            address=address,
            sender=sender,
            text="half a \ud83d",
        )
        adapter = PeerAdapter(address.platform, house.peer.url, house.peer.token)
        await adapter.connect()
        await gateway.receiver.receive(adapter, broken)
        await message_with(house, chat, "(2) half a")
        for change in (replace(sender, name="\ud83d"), replace(sender, name="ok")):
            odd = structs.replace(broken, sender=change, update_id=f"odd {change.name == 'ok'}")
            await gateway.receiver.receive(adapter, odd)
        await message_with(house, chat, "(3) half a")
        await message_with(house, chat, "internal error occurred")
        await adapter.close()
    (aside,) = await inbox.troubled(house.store)
    assert "UnicodeEncodeError" in (aside.error or "")


async def test_a_message_that_is_deleted_while_it_waits_is_not_answered(house: House):
    chat = await house.chat(Shape.GROUP, house.eve)
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "first")
        await model.asked.wait()
        gone = await house.driver.say(house.anna, chat, "second")
        await house.driver.say(house.anna, chat, "third")
        await house.idle_but_for(3)
        await house.driver.delete(gone)
        await house.idle_but_for(2)
        model.go.set()
        await house.driver.message("(2) third", chat=chat)
        await house.idle()
    assert len(house.model.prompts) == 2


async def test_deleting_a_message_stops_its_turn(house: House):
    chat = await house.chat(Shape.GROUP, house.eve)
    model = Waiting()
    async with house.gateway(model=model):
        gone = await house.driver.say(house.anna, chat, "first")
        await model.asked.wait()
        await house.driver.say(house.anna, chat, "second")
        await house.idle_but_for(2)
        await house.driver.delete(gone)
        await message_with(house, chat, "Stopped, because the message was deleted.")
        model.go.set()
        await message_with(house, chat, "second")
        await house.idle()
    shown = await house.driver.look(chat)
    assert not [it for it in shown.messages if it.text.startswith("(1)")]


async def test_only_the_author_withdraws_a_message(house: House):
    """On a platform that names messages by their times, a stranger can name any message."""
    chat = await house.chat(Shape.GROUP, house.eve)
    model = Waiting()
    async with house.gateway(model=model) as gateway:
        await house.driver.say(house.anna, chat, "first")
        await model.asked.wait()
        kept = await house.driver.say(house.anna, chat, "second")
        await house.idle_but_for(2)
        deletion = Inbound(
            kind=InboundKind.DELETED,
            update_id="a deletion",
            address=await house.address(chat),
            sender=Sender(platform=Platform.TELEGRAM, user_id=house.eve),
            message_id=kept,
        )
        await gateway.receiver.receive(house.adapter(), deletion)
        assert len(await inbox.waiting(house.store)) == 2
        model.go.set()
        await house.driver.message("(2) second", chat=chat)
