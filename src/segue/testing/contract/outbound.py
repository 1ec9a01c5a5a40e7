"""Sending: messages, edits, buttons, files, and what a platform refuses."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from segue.platforms.base import (
    BUTTON_LIMIT,
    Button,
    InboundKind,
    MenuEntry,
    Receipt,
    Upload,
)
from segue.testing.contract.rig import (
    ODD_TEXTS,
    PHOTO,
    Contract,
    Feature,
    Rig,
    failure,
    home_of,
    part,
    reading,
)


class OutboundContract(Contract):
    async def test_a_message_is_seen_where_it_was_sent(self, rig: Rig) -> None:
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            for number, text in enumerate(ODD_TEXTS):
                await rig.adapter.send(home, part(text), key=f"key {number}")
                [seen] = await rig.seen(text)
                assert seen.place == at

    async def test_half_a_character_is_replaced(self, rig: Rig) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            await rig.adapter.send(home, part("a\ud800b"), key="1")
            assert await rig.seen("a\ufffdb")

    async def test_empty_and_too_long_texts_are_refused(self, rig: Rig) -> None:
        limit = rig.adapter.capabilities.length
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            for number, text in enumerate(("", " \n", "x" * (limit + 1))):
                failed = await failure(rig.adapter.send(home, part(text), key=f"key {number}"))
                assert (failed.retry, failed.arrived) == (False, False)
                assert failed.reason
            await rig.adapter.send(home, part("y" * limit), key="longest")
            assert await rig.seen("y" * limit)

    async def test_the_longest_text_with_buttons_is_one_message(self, rig: Rig) -> None:
        able = rig.adapter.capabilities
        if not able.buttons:
            return
        text = "x" * able.longest(buttons=True)
        buttons = [Button("Yes", "y")]
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            await rig.adapter.send(home, part(text), key="1", buttons=buttons)
            [seen] = await rig.seen(text)
            assert seen.labels == ("Yes",)
            failed = await failure(
                rig.adapter.send(home, part(f"{text}x"), key="2", buttons=buttons)
            )
            assert (failed.retry, failed.arrived) == (False, False)

    async def test_a_hundred_megabytes_are_refused_with_the_limit(self, rig: Rig) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            huge = part("x" * 100_000_000)
            failed = await failure(rig.adapter.send(home, huge, key="1"))
            assert (failed.retry, failed.arrived) == (False, False)
            assert any(figure.isdigit() for figure in failed.reason)
            await rig.adapter.send(home, part("small"), key="2")
            assert await rig.seen("small")

    async def test_a_message_to_an_unknown_chat_is_refused(self, rig: Rig) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
        nowhere = dataclasses.replace(home, chat_id=f"{home.chat_id}9")
        failed = await failure(rig.adapter.send(nowhere, part("Hello?"), key="1"))
        assert (failed.retry, failed.arrived) == (False, False)

    async def test_an_edit_replaces_the_text_and_removes_the_buttons(self, rig: Rig) -> None:
        buttons = [Button("Yes", "y")] if rig.adapter.capabilities.buttons else []
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
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
            if Feature.EDIT_CHECKS not in rig.lacks:
                gone = Receipt(f"{receipt}9")
                assert not (await failure(rig.adapter.edit(home, gone, part("No")))).retry

    async def test_a_pressed_button_returns_its_data(self, rig: Rig) -> None:
        data = ["a:1:once", "ü" * (BUTTON_LIMIT // 2), '"\\/ :%{}', "x" * BUTTON_LIMIT]
        buttons = [Button(f"No {number}", text) for number, text in enumerate(data)]
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
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
                inbound = await reader.next()
                assert (inbound.kind, inbound.text) == (InboundKind.BUTTON, button.data)
                assert (inbound.message_id, inbound.sender.user_id) == (seen.id, rig.anna)
                rig.adapter.acknowledge(inbound)

    async def test_button_data_that_is_too_long_is_refused(self, rig: Rig) -> None:
        long = [Button("No", "x" * (BUTTON_LIMIT + 1))]
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            failed = await failure(rig.adapter.send(home, part("Well?"), key="1", buttons=long))
            assert (failed.retry, failed.arrived) == (False, False)
            assert not await rig.seen("Well?")

    async def test_typing_is_shown_in_the_thread(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
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
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            if not rig.adapter.capabilities.files:
                failed = await failure(rig.adapter.send_file(home, file, part("Look."), key="1"))
                assert (failed.retry, failed.arrived) == (False, False)
                return
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            await rig.adapter.send(thread, part("I am here."), key="2")
            receipt = await rig.adapter.send_file(thread, file, part("Look."), key="3")
            [here] = await rig.seen("I am here.")
            [seen] = await rig.seen("Look.")
            assert seen.place == here.place
            if Feature.CAPTION_EDITS in rig.lacks:
                failed = await failure(rig.adapter.edit(thread, receipt, part("Look again.")))
                assert (failed.retry, failed.arrived) == (False, False)
            elif rig.adapter.capabilities.edits:
                await rig.adapter.edit(thread, receipt, part("Look again."))
                [after] = await rig.seen("Look again.")
                assert after.id == seen.id
            nowhere = dataclasses.replace(home, chat_id=f"{home.chat_id}9")
            failed = await failure(rig.adapter.send_file(nowhere, file, part("Look."), key="4"))
            assert (failed.retry, failed.arrived) == (False, False)

    async def test_a_preview_is_not_a_message(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            if not rig.adapter.previews(thread):
                pytest.skip("no previews in this chat")
            for text in ("I am", "I am writ"):
                await rig.adapter.preview(thread, part(text), key="2")
                assert not await rig.seen(text)
            await rig.adapter.send(thread, part("I am written."), key="2")
            assert len(await rig.seen("I am written.")) == 1

    async def test_a_menu_can_be_offered_repeatedly(self, rig: Rig) -> None:
        menu = [MenuEntry("status", "See how things are"), MenuEntry("two-words", "Do so")]
        for entries in (menu, menu, menu[:1], []):
            await rig.adapter.offer(entries)

    async def test_every_failed_check_has_a_fix(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
        unconnected = rig.another()
        for adapter, place in itertools.product((rig.adapter, unconnected), (home, None)):
            for finding in await adapter.examine(place):
                assert finding.text
                assert finding.ok == (not finding.fix)
        await unconnected.close()

    async def test_a_home_channel_that_is_gone_is_a_vital_finding(
        self, rig: Rig, shape: str
    ) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(shape))
        always = await rig.adapter.examine(None)
        if all(finding in always for finding in await rig.adapter.examine(home)):
            return  # the platform does not say whether there is such a chat
        gone = dataclasses.replace(home, chat_id=f"{home.chat_id}9", thread_id=None)
        found = await rig.adapter.examine(gone)
        assert any(finding.vital and not finding.ok for finding in found)

    async def test_a_chat_that_is_found_by_its_id_has_the_address_of_its_messages(
        self, rig: Rig, shape: str
    ) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(shape))
        found = await rig.adapter.find_chat(home.chat_id)
        assert found is None or found.address == dataclasses.replace(home, thread_id=None)
        assert await rig.adapter.find_chat(f"{home.chat_id}9") is None

    async def test_a_user_who_wrote_is_not_taken_for_unknown(self, rig: Rig) -> None:
        async with reading(rig.adapter) as reader:
            await home_of(rig, reader, await rig.place(rig.usual))
        unconnected = rig.another()
        assert await unconnected.find_user(rig.anna) is not False
        await unconnected.close()

    async def test_one_key_sends_one_message(self, rig: Rig) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            receipts = [await rig.adapter.send(home, part("Once."), key="1") for _ in range(3)]
            keyed = rig.adapter.capabilities.keys
            assert len(await rig.seen("Once.")) == len(set(receipts)) == (1 if keyed else 3)
            await rig.adapter.send(home, part("Once."), key="2")
            assert len(await rig.seen("Once.")) == (2 if keyed else 4)

    async def test_keys_that_differ_only_at_the_end_send_different_messages(self, rig: Rig) -> None:
        if not rig.adapter.capabilities.keys:
            pytest.skip("the platform takes no keys")
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            for key in ("a", "a", "b"):
                await rig.adapter.send(home, part("Once."), key=f"{home.key}/?#% {'x' * 150}{key}")
            assert len(await rig.seen("Once.")) == 2
