"""The contract suite that every adapter must pass.

An adapter plugs in with a subclass that has the fixtures `rig` and `shape`. `tests.platforms.rig`
defines the rig, and test_testing_platform.py is the simplest example. The suite also tests features
that a platform lacks: the adapter must declare that. RemoteContract is for all platforms except
those whose server is part of Segue.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from segue.core.address import Address
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.base import (
    BUTTON_LIMIT,
    Adapter,
    Attachment,
    Button,
    InboundKind,
    MenuEntry,
    Part,
    Quote,
    Receipt,
    Upload,
)
from segue.testing.platform import Trouble
from tests.platforms.malformed import broken
from tests.platforms.rig import (
    BOUND,
    Act,
    Ear,
    File,
    Lack,
    Place,
    RemoteRig,
    Rig,
    home_of,
    listening,
    one_attachment,
)

ODD_TEXTS = (
    "Grüße, 世界! Ελληνικά, עברית, العربية",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 e\u0301 \U0001f9d1\u200d\U0001f680",
    "<b>not bold</b> & *not* _this_ either [x](y) `z` \\ \\n {0} %s $HOME",
    "two\nlines\n\nand a\ttab",
    "/not a command",
    "@everyone <!channel> <@U1>",
)
BUSY_SECONDS = 7.0
MALFORMED = (1_000, 10_000)
"""The number of updates in `make test`, and in a fuzz run."""
LOST = (
    Trouble.BROKEN,
    Trouble.DROP_BEFORE,
    Trouble.DROP_AFTER,
    Trouble.GARBLED,
    Trouble.HANG,
    Trouble.HANG_AFTER,
)
"""After these faults the adapter cannot know whether the call took effect."""
FAILURES = [
    *itertools.product((Act.SEND, Act.FETCH), (Trouble.BUSY, Trouble.FORBIDDEN, *LOST)),
    *itertools.product(
        (Act.EDIT, Act.TYPING, Act.OPEN_THREAD),
        (Trouble.BUSY, Trouble.FORBIDDEN, Trouble.BROKEN, Trouble.DROP_AFTER, Trouble.GARBLED),
    ),
]
"""Hanging calls and dropped requests behave the same for all calls, so SEND and FETCH suffice."""
TOOK_EFFECT = frozenset({Trouble.DROP_AFTER, Trouble.GARBLED, Trouble.HANG_AFTER})
PHOTO = File("photo.png", "image/png", bytes(range(256)) * 40)


def part(text: str) -> Part:
    return Part(text=text, plain=text)


async def failure(doing: Awaitable[object]) -> DeliveryFailed:
    """Return the error that the operation fails with."""
    with pytest.raises(DeliveryFailed) as caught:
        await doing
    return caught.value


class AdapterContract:
    @pytest.fixture
    def rig(self) -> Rig:
        raise NotImplementedError

    @pytest.fixture
    def shape(self) -> str:
        raise NotImplementedError

    # An opened address is the address of its inbound messages

    async def test_a_reply_in_the_thread_that_was_opened_has_its_address(
        self, rig: Rig, shape: str
    ) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1")
            if not rig.has_threads(shape):
                assert thread is None
                return
            assert thread is not None
            assert thread != home
            await rig.adapter.send(thread, part("I am here."), key="2")
            [seen] = await rig.seen("I am here.")
            assert seen.place != at
            await rig.say(seen.place, "Good.")
            assert (await ear.next()).address == thread
            assert Address.parse(thread.key) == thread

    async def test_all_that_happens_in_a_thread_has_its_address(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            buttons = [Button("Yes", "y")] if rig.adapter.capabilities.buttons else []
            await rig.adapter.send(thread, part("Well?"), key="2", buttons=buttons)
            [seen] = await rig.seen("Well?")
            said = await rig.say(seen.place, "Good.", [] if Lack.FILES in rig.lacks else [PHOTO])
            edits = [] if Lack.EDITS in rig.lacks else ["Better."]
            for text in edits:
                await rig.edit(said, text)
            await rig.command(seen.place, "/status")
            for _ in buttons:
                await rig.press(seen.id, "Yes")
            heard = [await ear.next() for _ in range(2 + len(edits) + len(buttons))]
            assert {inbound.address for inbound in heard} == {thread}

    async def test_a_plain_message_in_the_home_has_the_address_of_the_home(
        self, rig: Rig, shape: str
    ) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            await rig.adapter.create_handoff_thread(home, "Moving in", key="1")
            await rig.say(at, "Still here.")
            assert (await ear.next()).address == home
            await rig.adapter.send(home, part("So am I."), key="2")
            [seen] = await rig.seen("So am I.")
            assert seen.place == at

    async def test_two_threads_and_two_chats_are_different_addresses(
        self, rig: Rig, shape: str
    ) -> None:
        async with listening(rig.adapter) as ear:
            homes = [await home_of(rig, ear, await rig.place(shape)) for _ in range(2)]
            opened = [
                await rig.adapter.create_handoff_thread(
                    home, "The same title", key=f"{home.key} {n}"
                )
                for home in homes
                for n in range(2)
            ]
            threads = [thread for thread in opened if thread is not None]
            assert len(threads) == (4 if rig.has_threads(shape) else 0)
            assert len({*homes, *threads}) == len(homes) + len(threads)

    async def test_a_deleted_thread_is_not_silently_the_chat(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1")
            if thread is None:
                assert not rig.has_threads(shape)
                return
            await rig.adapter.send(thread, part("I am here."), key="2")
            [seen] = await rig.seen("I am here.")
            await rig.delete_thread(seen.place)
            failed = await failure(rig.adapter.send(thread, part("For you only."), key="3"))
            assert (failed.retry, failed.arrived) == (False, False)
            assert not await rig.seen("For you only.")

    async def test_titles_of_any_kind_open_a_thread(self, rig: Rig, shape: str) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(shape))
            titles = ("", " \n ", "x" * 10_000, "a\0b\ud800c", *ODD_TEXTS)
            for number, title in enumerate(titles):
                opened = await rig.adapter.create_handoff_thread(home, title, key=f"key {number}")
                assert (opened is not None) == rig.has_threads(shape)

    # Inbound

    async def test_own_messages_and_those_of_other_bots_do_not_come(
        self, rig: Rig, shape: str
    ) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            receipt = await rig.adapter.send(home, part("Mine."), key="1")
            if rig.adapter.capabilities.edits:
                await rig.adapter.edit(home, receipt, part("Mine, changed."))
            await rig.adapter.create_handoff_thread(home, "Mine too", key="2")
            await rig.other_bot_says(at, "I am a bot.")
            await rig.say(at, "I am not.")
            assert (await ear.next()).text == "I am not."

    async def test_where_not_all_is_meant_for_the_bot_it_says_how_to_address_it(
        self, rig: Rig, shape: str
    ) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            await rig.say(at, "hello")
            inbound = await ear.next()
            hint = rig.adapter.how_to_address(inbound.address)
            assert (hint == "") == inbound.addressed

    async def test_a_message_says_who_wrote_what(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            message = await rig.say(at, "hello")
            inbound = await ear.next()
            assert inbound.kind is InboundKind.MESSAGE
            assert (inbound.text, inbound.message_id) == ("hello", message)
            assert (inbound.sender.platform, inbound.sender.user_id) == (
                rig.adapter.platform,
                rig.anna,
            )
            assert inbound.sender.name == rig.name

    @pytest.mark.parametrize("text", ODD_TEXTS)
    async def test_odd_text_comes_in_as_it_was_said(self, rig: Rig, text: str) -> None:
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            await rig.say(at, text)
            assert (await ear.next()).text == text

    async def test_an_edit_names_the_message_and_says_what_it_says_now(self, rig: Rig) -> None:
        if Lack.EDITS in rig.lacks:
            return
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            message = await rig.say(at, "helo")
            await rig.edit(message, "hello")
            first, second = await ear.next(), await ear.next()
            assert (second.kind, second.text) == (InboundKind.EDIT, "hello")
            assert second.message_id == first.message_id == message
            assert second.update_id != first.update_id

    async def test_a_command_comes_with_its_slash(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            await rig.command(at, "/resume my project")
            inbound = await ear.next()
            assert inbound.kind in (InboundKind.COMMAND, InboundKind.MESSAGE)
            assert inbound.text == "/resume my project"

    async def test_forwarded_words_name_their_author_and_are_not_the_senders(
        self, rig: Rig, shape: str
    ) -> None:
        if Lack.QUOTES in rig.lacks:
            return
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            message = await rig.forward(at, "Eve", "/approve")
            forwarded = await ear.next()
            assert forwarded.sender.user_id == rig.anna
            assert (forwarded.forwarded_from, forwarded.text) == ("Eve", "/approve")
            assert forwarded.typed == ""
            if Lack.EDITS not in rig.lacks:
                await rig.edit(message, "/approve session")
                assert (await ear.next()).forwarded_from == "Eve"
            await rig.command(at, "/approve")
            assert (await ear.next()).typed == "/approve"

    async def test_a_reply_brings_the_message_that_it_answers(self, rig: Rig, shape: str) -> None:
        if Lack.QUOTES in rig.lacks:
            return
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            await rig.adapter.send(home, part("Shall I?"), key="1")
            [ours] = await rig.seen("Shall I?")
            await rig.reply(at, ours.id, "yes")
            to_us = await ear.next()
            assert (to_us.typed, to_us.addressed) == ("yes", True)
            assert to_us.quote is not None
            assert (to_us.quote.text, to_us.quote.ours) == ("Shall I?", True)
            hers = await rig.say(at, "/approve")
            await ear.next()
            await rig.reply(at, hers, "what is this?")
            to_her = await ear.next()
            assert to_her.typed == "what is this?"
            assert to_her.quote == Quote(author=rig.name, text="/approve")

    async def test_beginning_a_chat_with_the_bot_comes(self, rig: Rig, shape: str) -> None:
        if Lack.JOINS in rig.lacks:
            return
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            await rig.join(at)
            inbound = await ear.next()
            assert (inbound.kind, inbound.address) == (InboundKind.JOINED, home)
            assert inbound.sender.user_id == rig.anna

    async def test_a_file_can_be_fetched(self, rig: Rig) -> None:
        if Lack.FILES in rig.lacks:
            none = Attachment("1", PHOTO.name, PHOTO.media_type, 1)
            assert not (await failure(rig.adapter.fetch(none))).retry
            return
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            attachment = await one_attachment(rig, ear, at, PHOTO)
            assert (attachment.name, attachment.media_type) == (PHOTO.name, PHOTO.media_type)
            assert attachment.size in (0, len(PHOTO.content))
            assert await rig.adapter.fetch(attachment) == PHOTO.content

    async def test_a_file_that_is_not_there_cannot_be_fetched(self, rig: Rig) -> None:
        if Lack.FILES in rig.lacks:
            return
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            attachment = await one_attachment(rig, ear, at, PHOTO)
            gone = type(attachment)(f"{attachment.id}9", "photo.png", "image/png", 1)
            assert not (await failure(rig.adapter.fetch(gone))).retry

    async def test_an_update_that_is_nothing_to_us_is_a_sign_of_life(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with contextlib.aclosing(rig.adapter.receive()) as received:
            await rig.other_bot_says(at, "I am a bot.")
            if Lack.POLLS not in rig.lacks:
                assert await anext(received) is None

    async def test_the_order_is_kept(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            for number in range(rig.many):
                await rig.say(at, str(number))
            heard = [int((await ear.next()).text) for _ in range(rig.many)]
            assert heard == list(range(rig.many))

    async def test_an_update_that_comes_twice_has_the_same_id(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            await rig.say(at, "once")
            first = await ear.next()
            await rig.repeat()
            if Lack.REPEATS not in rig.lacks:
                assert await ear.next() == first
            await rig.say(at, "once")
            assert (await ear.next()).update_id != first.update_id

    async def test_what_was_not_confirmed_comes_again_and_what_was_does_not(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            await rig.say(at, "recorded")
            recorded = await ear.next()
            asked = asyncio.ensure_future(ear.next())
            await rig.say(at, "on its way when we died")
            unrecorded = await asked
        await rig.adapter.close()
        restarted = rig.another()
        await restarted.connect()
        try:
            async with listening(restarted) as ear:
                assert await ear.next() == unrecorded
                await rig.say(at, "new")
                assert (await ear.next()).text == "new"
        finally:
            await restarted.close()
        assert recorded.text == "recorded"

    async def test_an_update_that_could_not_be_recorded_comes_again(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        await rig.say(at, "first")
        await rig.say(at, "second")
        async with listening(rig.adapter) as ear:
            first = await ear.next()
        await rig.adapter.connect()
        async with listening(rig.adapter) as ear:
            assert await ear.next() == first
            assert (await ear.next()).text == "second"

    async def test_malformed_updates_do_nothing(self, rig: Rig, seed: int) -> None:
        at = await rig.place(rig.usual)
        updates = list(broken(rig.specimens(), MALFORMED[bool(seed)], seed=5 + seed))
        async with listening(rig.adapter) as ear:
            for start in range(0, len(updates), 500):
                await rig.inject(updates[start : start + 500])
            await rig.say(at, "I am well-formed.")
            assert (await ear.next()).text == "I am well-formed."

    # Outbound

    async def test_a_message_is_seen_where_it_was_sent(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            for number, text in enumerate(ODD_TEXTS):
                await rig.adapter.send(home, part(text), key=f"key {number}")
                [seen] = await rig.seen(text)
                assert seen.place == at

    async def test_half_a_character_does_not_stop_a_message(self, rig: Rig) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            await rig.adapter.send(home, part("a\ud800b"), key="1")
            assert await rig.seen("a\ufffdb")

    async def test_text_that_is_empty_or_too_long_is_refused(self, rig: Rig) -> None:
        limit = rig.adapter.capabilities.length
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            for number, text in enumerate(("", " \n", "x" * (limit + 1))):
                failed = await failure(rig.adapter.send(home, part(text), key=f"key {number}"))
                assert (failed.retry, failed.arrived) == (False, False)
                assert failed.reason
            await rig.adapter.send(home, part("y" * limit), key="just so")
            assert await rig.seen("y" * limit)

    async def test_a_hundred_megabytes_are_refused_clearly(self, rig: Rig) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            huge = part("x" * 100_000_000)
            failed = await failure(rig.adapter.send(home, huge, key="1"))
            assert (failed.retry, failed.arrived) == (False, False)
            assert any(figure.isdigit() for figure in failed.reason)
            await rig.adapter.send(home, part("small"), key="2")
            assert await rig.seen("small")

    async def test_a_message_to_nowhere_is_refused(self, rig: Rig) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
        nowhere = dataclasses.replace(home, chat_id=f"{home.chat_id}9")
        failed = await failure(rig.adapter.send(nowhere, part("Anybody?"), key="1"))
        assert (failed.retry, failed.arrived) == (False, False)

    async def test_an_edit_changes_what_the_message_says(self, rig: Rig) -> None:
        buttons = [Button("Yes", "y")] if rig.adapter.capabilities.buttons else []
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            receipt = await rig.adapter.send(home, part("Draft"), key="1", buttons=buttons)
            if not rig.adapter.capabilities.edits:
                failed = await failure(rig.adapter.edit(home, receipt, part("Final")))
                assert (failed.retry, failed.arrived) == (False, False)
                return
            [before] = await rig.seen("Draft")
            for _ in range(2):  # an edit that changes nothing is no error
                await rig.adapter.edit(home, receipt, part("Final"))
            [after] = await rig.seen("Final")
            assert (after.id, after.labels) == (before.id, ())
            assert not await rig.seen("Draft")
            gone = Receipt(f"{receipt}9")
            assert not (await failure(rig.adapter.edit(home, gone, part("No")))).retry

    async def test_a_button_gives_its_data_back(self, rig: Rig) -> None:
        data = ["a:1:once", "ü" * (BUTTON_LIMIT // 2), '"\\/ :%{}', "x" * BUTTON_LIMIT]
        buttons = [Button(f"No {number}", text) for number, text in enumerate(data)]
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            if not rig.adapter.capabilities.buttons:
                failed = await failure(
                    rig.adapter.send(home, part("Well?"), key="1", buttons=buttons)
                )
                assert (failed.retry, failed.arrived) == (False, False)
                return
            for number, button in enumerate(buttons):
                text = f"Well, {number}?"
                await rig.adapter.send(home, part(text), key=text, buttons=[button])
                [seen] = await rig.seen(text)
                assert seen.labels == (button.label,)
                await rig.press(seen.id, button.label)
                inbound = await ear.next()
                assert (inbound.kind, inbound.text) == (InboundKind.BUTTON, button.data)
                assert (inbound.message_id, inbound.sender.user_id) == (seen.id, rig.anna)

    async def test_button_data_that_is_too_long_is_refused(self, rig: Rig) -> None:
        long = [Button("No", "x" * (BUTTON_LIMIT + 1))]
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            failed = await failure(rig.adapter.send(home, part("Well?"), key="1", buttons=long))
            assert (failed.retry, failed.arrived) == (False, False)
            assert not await rig.seen("Well?")

    async def test_typing_is_shown_where_the_answer_will_be(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            if not rig.adapter.capabilities.typing:
                assert not (await failure(rig.adapter.typing(home))).retry
                return
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            await rig.adapter.send(thread, part("I am here."), key="2")
            [seen] = await rig.seen("I am here.")
            await rig.adapter.typing(thread)
            assert await rig.typing(seen.place) == 1

    async def test_a_file_is_seen_where_it_was_sent(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        file = Upload(PHOTO.name, PHOTO.media_type, PHOTO.content)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            if not rig.adapter.capabilities.files:
                failed = await failure(rig.adapter.send_file(home, file, part("Look."), key="1"))
                assert (failed.retry, failed.arrived) == (False, False)
                return
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            await rig.adapter.send(thread, part("I am here."), key="2")
            receipt = await rig.adapter.send_file(thread, file, part("Look."), key="3")
            [here], [seen] = await rig.seen("I am here."), await rig.seen("Look.")
            assert seen.place == here.place
            if rig.adapter.capabilities.edits:
                await rig.adapter.edit(thread, receipt, part("Look again."))
                [after] = await rig.seen("Look again.")
                assert after.id == seen.id
            nowhere = dataclasses.replace(home, chat_id=f"{home.chat_id}9")
            failed = await failure(rig.adapter.send_file(nowhere, file, part("Look."), key="4"))
            assert (failed.retry, failed.arrived) == (False, False)

    async def test_a_preview_is_no_message(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            if not rig.adapter.previews(thread):
                return
            for text in ("I am", "I am writ"):
                await rig.adapter.preview(thread, part(text), key="2")
                assert not await rig.seen(text)
            await rig.adapter.send(thread, part("I am written."), key="2")
            assert len(await rig.seen("I am written.")) == 1

    async def test_a_menu_can_be_offered_again_and_again(self, rig: Rig) -> None:
        menu = [MenuEntry("status", "See how things are"), MenuEntry("two-words", "Do so")]
        for entries in (menu, menu, menu[:1], []):
            await rig.adapter.offer(entries)

    async def test_what_is_missing_is_named_with_a_fix(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
        unconnected = rig.another()
        for adapter, place in itertools.product((rig.adapter, unconnected), (home, None)):
            for finding in await adapter.examine(place):
                assert finding.text
                assert finding.ok == (not finding.fix)
        await unconnected.close()

    # Idempotency keys

    async def test_one_key_sends_one_message(self, rig: Rig) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            receipts = [await rig.adapter.send(home, part("Once."), key="1") for _ in range(3)]
            keyed = rig.adapter.capabilities.keys
            assert len(await rig.seen("Once.")) == len(set(receipts)) == (1 if keyed else 3)
            await rig.adapter.send(home, part("Once."), key="2")
            assert len(await rig.seen("Once.")) == (2 if keyed else 4)

    async def test_one_key_opens_one_thread(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            opened = [
                await rig.adapter.create_handoff_thread(home, "Moving in", key=key)
                for key in ("1", "1", "2")
            ]
            different = (2 if rig.adapter.capabilities.keys else 3) if rig.has_threads(shape) else 0
            assert len(set(opened) - {None}) == await rig.threads(at) == different

    # Connect and close

    async def test_closing_twice_does_no_harm(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        account = rig.adapter.account
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            waiting = asyncio.ensure_future(ear.next())
            await asyncio.wait([waiting], timeout=0)  # it is waiting now
            for _ in range(2):
                async with asyncio.timeout(BOUND):
                    await rig.adapter.close()
            with pytest.raises(ConnectFailed):
                await waiting
        with pytest.raises((ConnectFailed, DeliveryFailed)):
            await rig.adapter.send(home, part("Too late."), key="1")
        assert not await rig.seen("Too late.")
        await rig.adapter.connect()
        assert rig.adapter.account == account
        await rig.adapter.send(home, part("Back."), key="2")
        assert await rig.seen("Back.")

    async def test_before_it_is_connected_an_adapter_says_so(self, rig: Rig) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
        fresh = rig.another()
        with pytest.raises(ConnectFailed):
            await fresh.send(home, part("Hello."), key="1")
        with pytest.raises(ConnectFailed):
            await anext(fresh.receive())
        await fresh.close()


class RemoteContract(AdapterContract):
    """Further rules for a platform on a remote server, which can be unreachable, slow or busy, or
    can refuse our calls.
    """

    @pytest.fixture
    def rig(self) -> RemoteRig:
        raise NotImplementedError

    @pytest.mark.parametrize("trouble", LOST)
    async def test_what_may_have_arrived_is_repeated_safely_under_its_key(
        self, rig: RemoteRig, trouble: Trouble
    ) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(rig.usual))
            await rig.fail(Act.SEND, trouble, seconds=BUSY_SECONDS)
            async with ready_for(trouble, rig) as adapter:
                await failure(adapter.send(home, part("Once."), key="1"))
            await rig.calm()
            arrived = len(await rig.seen("Once."))
            assert arrived == (1 if trouble in TOOK_EFFECT else 0)
            await rig.adapter.send(home, part("Once."), key="1")
            keyed = rig.adapter.capabilities.keys
            assert len(await rig.seen("Once.")) == (1 if keyed else arrived + 1)

    @pytest.mark.parametrize(("act", "trouble"), FAILURES)
    async def test_a_failure_says_whether_to_try_again_and_whether_it_arrived(
        self, rig: RemoteRig, act: Act, trouble: Trouble
    ) -> None:
        if act is Act.OPEN_THREAD and not rig.has_threads(rig.usual):
            return  # no call is made
        async with listening(rig.adapter) as ear:
            do = await doing(rig, act, await rig.place(rig.usual), ear)
            if not able(rig, act):
                assert not (await failure(do(rig.adapter))).retry
                return
            await rig.fail(act, trouble, seconds=BUSY_SECONDS)
            if trouble is Trouble.GARBLED and act is Act.FETCH:
                await do(rig.adapter)  # any bytes are valid content
                return
            async with ready_for(trouble, rig) as adapter:
                failed = await failure(do(adapter))
            assert failed.retry == (trouble is not Trouble.FORBIDDEN)
            assert failed.after == (BUSY_SECONDS if trouble is Trouble.BUSY else None)
            assert failed.arrived == (trouble in LOST)
            assert failed.reason
            await rig.calm()
            await do(rig.adapter)

    async def test_while_the_platform_is_down_nothing_arrives(self, rig: RemoteRig) -> None:
        async with listening(rig.adapter) as ear:
            at = await rig.place(rig.usual)
            sending = await doing(rig, Act.SEND, at, ear)
            fetching = await doing(rig, Act.FETCH, at, ear)
            await rig.down()
            for do in (sending, fetching):
                failed = await failure(do(rig.adapter))
                assert (failed.retry, failed.arrived) == (True, False)
            await rig.up()
            await sending(rig.adapter)
            await fetching(rig.adapter)

    async def test_a_platform_that_was_down_is_connected_to_again(self, rig: RemoteRig) -> None:
        at = await rig.place(rig.usual)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            waiting = asyncio.ensure_future(ear.next())
            await rig.down()
            with pytest.raises(ConnectFailed):
                await waiting
        with pytest.raises(ConnectFailed):
            await rig.adapter.connect()
        await rig.say(at, "Are you there?")
        await rig.up()
        await rig.adapter.connect()
        async with listening(rig.adapter) as ear:
            assert (await ear.next()).text == "Are you there?"
            await rig.adapter.send(home, part("Yes."), key="1")
            assert await rig.seen("Yes.")

    async def test_a_token_that_is_not_valid_is_named(self, rig: RemoteRig) -> None:
        await rig.place(rig.usual)
        denied = rig.denied()
        with pytest.raises(ConnectFailed, match="token"):
            await denied.connect()
        await denied.close()


def able(rig: Rig, act: Act) -> bool:
    """Return whether the platform supports the operation."""
    capabilities = rig.adapter.capabilities
    return {Act.EDIT: capabilities.edits, Act.TYPING: capabilities.typing}.get(act, True)


@contextlib.asynccontextmanager
async def ready_for(trouble: Trouble, rig: RemoteRig) -> AsyncGenerator[Adapter]:
    """Return an adapter for the fault. For a hanging call, that is one with a short timeout."""
    if trouble not in (Trouble.HANG, Trouble.HANG_AFTER):
        yield rig.adapter
        return
    adapter = rig.impatient()
    async with asyncio.timeout(BOUND):
        while True:  # its timeout is so short that connecting may fail too
            with contextlib.suppress(ConnectFailed):
                await adapter.connect()
                break
    try:
        yield adapter
    finally:
        await adapter.close()


async def doing(rig: Rig, act: Act, at: Place, ear: Ear) -> Callable[[Adapter], Awaitable[object]]:
    """Return a function that performs the operation with an adapter, any number of times."""
    home = await home_of(rig, ear, at)
    numbers = itertools.count()
    match act:
        case Act.SEND:
            return lambda adapter: adapter.send(home, part("text"), key=f"key {next(numbers)}")
        case Act.EDIT:
            receipt = await rig.adapter.send(home, part("before"), key="before")
            return lambda adapter: adapter.edit(home, receipt, part(f"after {next(numbers)}"))
        case Act.TYPING:
            return lambda adapter: adapter.typing(home)
        case Act.OPEN_THREAD:
            return lambda adapter: adapter.create_handoff_thread(
                home, "title", key=f"key {next(numbers)}"
            )
        case Act.FETCH:
            attachment = await one_attachment(rig, ear, at, PHOTO)
            return lambda adapter: adapter.fetch(attachment)
