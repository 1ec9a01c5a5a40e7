"""Receiving: authors, order, contents, and repeated delivery."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

import pytest

from segue.platforms.base import Attachment, InboundKind, Quote
from segue.testing.contract.malformed import broken, oversized
from segue.testing.contract.rig import (
    ODD_TEXTS,
    PHOTO,
    Contract,
    Feature,
    ReconnectingReader,
    Rig,
    failure,
    home_of,
    one_attachment,
    part,
    reading,
    received,
    require,
)

MALFORMED = (1_000, 10_000)
"""The number of malformed updates in a normal run, and in a search with a seed."""


class InboundContract(Contract):
    @pytest.fixture
    def seed(self, pytestconfig: pytest.Config) -> int:
        """The random seed of a search, if pytest has an option `--seed`."""
        return cast("int", pytestconfig.getoption("--seed", default=0))

    async def test_messages_of_bots_are_ignored(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            receipt = await rig.adapter.send(home, part("Mine."), key="1")
            if rig.adapter.capabilities.edits:
                await rig.adapter.edit(home, receipt, part("Mine, changed."))
            await rig.adapter.create_handoff_thread(home, "Mine too", key="2")
            if Feature.BOTS not in rig.lacks:
                await rig.other_bot_says(at, "I am a bot.")
            await rig.say(at, "I am not.")
            assert (await reader.next()).text == "I am not."

    async def test_a_chat_whose_messages_are_not_all_for_the_bot_says_how_to_address_it(
        self, rig: Rig, shape: str
    ) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            await rig.say(at, "hello")
            inbound = await reader.next()
            hint = rig.adapter.how_to_address(inbound.address)
            assert (hint == "") == inbound.addressed

    async def test_a_message_has_its_text_and_its_sender(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            message = await rig.say(at, "hello")
            inbound = await reader.next()
            assert inbound.kind is InboundKind.MESSAGE
            assert (inbound.text, inbound.message_id) == ("hello", message)
            assert (inbound.sender.platform, inbound.sender.user_id) == (
                rig.adapter.platform,
                rig.anna,
            )
            assert inbound.sender.name == rig.name

    @pytest.mark.parametrize("text", ODD_TEXTS)
    async def test_any_text_is_received_unchanged(self, rig: Rig, text: str) -> None:
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            await rig.say(at, text)
            assert (await reader.next()).text == text

    async def test_an_edit_has_the_id_and_the_new_text_of_the_message(self, rig: Rig) -> None:
        require(rig, Feature.EDITS)
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            message = await rig.say(at, "helo")
            await rig.edit(message, "hello")
            first = await reader.next()
            second = await reader.next()
            assert (second.kind, second.text) == (InboundKind.EDIT, "hello")
            assert second.message_id == first.message_id == message
            assert second.update_id != first.update_id

    async def test_a_deleted_message_is_named(self, rig: Rig, shape: str) -> None:
        require(rig, Feature.DELETIONS)
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            message = await rig.say(at, "forget it")
            said = await reader.next()
            await rig.delete(message)
            deleted = await reader.next()
            assert (deleted.kind, deleted.message_id) == (InboundKind.DELETED, said.message_id)
            assert deleted.address == said.address
            assert deleted.sender.user_id in ("", said.sender.user_id)
            assert (deleted.text, deleted.attachments) == ("", ())

    async def test_a_command_keeps_its_slash(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            await rig.command(at, "/resume my project")
            inbound = await reader.next()
            assert inbound.kind in (InboundKind.COMMAND, InboundKind.MESSAGE)
            assert inbound.text == "/resume my project"

    async def test_forwarded_text_has_its_author_and_is_not_typed_by_the_sender(
        self, rig: Rig, shape: str
    ) -> None:
        require(rig, Feature.FORWARDS)
        author = "" if Feature.FORWARD_AUTHORS in rig.lacks else "Eve"
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            message = await rig.forward(at, "Eve", "/approve")
            forwarded = await reader.next()
            assert forwarded.sender.user_id == rig.anna
            assert (forwarded.forwarded_from, forwarded.text) == (author, "/approve")
            assert forwarded.typed == ""
            if Feature.EDITS not in rig.lacks:
                await rig.edit(message, "/approve session")
                assert (await reader.next()).forwarded_from == author
            await rig.command(at, "/approve")
            assert (await reader.next()).typed == "/approve"

    async def test_a_reply_quotes_the_message_that_it_answers(self, rig: Rig, shape: str) -> None:
        require(rig, Feature.REPLIES)
        texts = Feature.REPLY_TEXTS not in rig.lacks
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            receipt = await rig.adapter.send(home, part("Shall I?"), key="1")
            [ours] = await rig.seen("Shall I?")
            await rig.reply(at, ours.id, "yes")
            to_us = await reader.next()
            assert (to_us.typed, to_us.addressed) == ("yes", True)
            assert to_us.quote is not None
            assert to_us.quote.text == ("Shall I?" if texts else "")
            assert to_us.quote.ours
            assert to_us.quote.message_id == receipt
            hers = await rig.say(at, "/approve")
            await reader.next()
            await rig.reply(at, hers, "what is this?")
            to_her = await reader.next()
            assert to_her.typed == "what is this?"
            text = "/approve" if texts else ""
            assert to_her.quote == Quote(author=rig.name, text=text, message_id=hers)

    async def test_the_start_of_a_chat_is_received(self, rig: Rig, shape: str) -> None:
        require(rig, Feature.JOINS)
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            await rig.join(at)
            inbound = await reader.next()
            assert (inbound.kind, inbound.address) == (InboundKind.JOINED, home)
            assert inbound.sender.user_id == rig.anna

    async def test_a_file_can_be_fetched(self, rig: Rig) -> None:
        if Feature.FILES in rig.lacks:
            none = Attachment("1", PHOTO.name, PHOTO.media_type, 1)
            assert not (await failure(rig.adapter.fetch(none))).retry
            return
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            attachment = await one_attachment(rig, reader, at, PHOTO)
            assert (attachment.name, attachment.media_type) == (PHOTO.name, PHOTO.media_type)
            assert attachment.size in (0, len(PHOTO.content))
            assert await rig.adapter.fetch(attachment) == PHOTO.content

    async def test_a_missing_file_cannot_be_fetched(self, rig: Rig) -> None:
        require(rig, Feature.FILES)
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            attachment = await one_attachment(rig, reader, at, PHOTO)
            gone = Attachment(f"{attachment.id}9", "photo.png", "image/png", 1)
            assert not (await failure(rig.adapter.fetch(gone))).retry

    async def test_an_ignored_update_is_a_sign_of_life(self, rig: Rig) -> None:
        require(rig, Feature.CONNECTION, Feature.BOTS)
        at = await rig.place(rig.usual)
        async with contextlib.aclosing(rig.adapter.receive()) as received:
            await rig.other_bot_says(at, "I am a bot.")
            assert await anext(received) is None

    async def test_updates_are_received_in_order(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            for number in range(rig.many):
                await rig.say(at, str(number))
            found = [await reader.next() for _ in range(rig.many)]
            assert [int(it.text) for it in found] == list(range(rig.many))

    async def test_a_repeated_update_has_the_same_id(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            await rig.say(at, "once")
            first = await reader.next()
            await rig.repeat()
            if Feature.REPEATS not in rig.lacks:
                assert await reader.next() == first
            await rig.say(at, "once")
            assert (await reader.next()).update_id != first.update_id

    async def test_after_a_restart_only_unconfirmed_updates_are_received_again(
        self, rig: Rig
    ) -> None:
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            await rig.say(at, "recorded")
            assert (await reader.next()).text == "recorded"
            asked = asyncio.ensure_future(reader.next())
            await rig.say(at, "on its way when we died")
            unrecorded = await asked
        await rig.adapter.close()
        restarted = rig.another()
        await restarted.connect()
        try:
            async with reading(restarted) as reader:
                if Feature.REDELIVERY not in rig.lacks:
                    assert await reader.next() == unrecorded
                await rig.say(at, "new")
                assert (await reader.next()).text == "new"
        finally:
            await restarted.close()

    async def test_an_update_that_was_not_recorded_is_received_again(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        await rig.say(at, "first")
        await rig.say(at, "second")
        async with reading(rig.adapter) as reader:
            first = await reader.next()
        await rig.adapter.connect()
        async with reading(rig.adapter) as reader:
            assert await reader.next() == first
            assert (await reader.next()).text == "second"

    async def test_malformed_updates_are_ignored(self, rig: Rig, seed: int) -> None:
        at = await rig.place(rig.usual)
        raw = Feature.RAW_UPDATES not in rig.lacks
        updates = list(broken(rig.specimens(), MALFORMED[bool(seed)], seed=5 + seed, raw=raw))
        async with reading(rig.adapter) as reader:
            for start in range(0, len(updates), 500):
                await rig.inject(updates[start : start + 500])
            await rig.say(at, "I am well-formed.")
            found = await reader.next()
            assert found.text == "I am well-formed.", f"a malformed update was not ignored: {found}"

    @pytest.mark.parametrize("is_owner", [False, True], ids=["stranger", "owner"])
    async def test_an_update_with_long_texts_does_not_stop_the_next(
        self, rig: Rig, is_owner: bool
    ) -> None:
        at = await rig.place(rig.usual)
        stand_ins = {rig.author: rig.anna, rig.scene: at.chat} if is_owner else {}
        async with contextlib.aclosing(ReconnectingReader(rig.adapter)) as reader:
            for number, specimen in enumerate(rig.specimens()):
                await rig.inject(oversized(specimen, stand_ins, rig.serial))
                await rig.say(at, f"And {number}?")
                await reader.until(f"And {number}?")
        restarted = rig.another()
        await rig.adapter.close()
        await restarted.connect()
        try:
            await rig.say(at, "I am short.")
            await received(restarted, "I am short.")
        finally:
            await restarted.close()
