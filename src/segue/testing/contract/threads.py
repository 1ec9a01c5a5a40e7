"""Chats: replies in a thread have the address that the adapter opened, and who can read a chat."""

from __future__ import annotations

import itertools

from segue.core.address import Address, ChatType, audience_growth
from segue.platforms.base import Button
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
    require,
)


class ThreadContract(Contract):
    async def test_a_reply_in_an_opened_thread_has_its_address(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
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
            assert (await reader.next()).address == thread
            assert Address.parse(thread.key) == thread

    async def test_every_update_in_a_thread_has_its_address(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            buttons = [Button("Yes", "y")] if rig.adapter.capabilities.buttons else []
            await rig.adapter.send(thread, part("Well?"), key="2", buttons=buttons)
            [seen] = await rig.seen("Well?")
            files = [] if Feature.FILES in rig.lacks else [PHOTO]
            said = await rig.say(seen.place, "Good.", files)
            edits = [] if Feature.EDITS in rig.lacks else ["Better."]
            for text in edits:
                await rig.edit(said, text)
            await rig.command(seen.place, "/status")
            for _ in buttons:
                await rig.press(seen.id, "Yes")
            found = [await reader.next() for _ in range(2 + len(edits) + len(buttons))]
            assert {inbound.address for inbound in found} == {thread}

    async def test_a_message_outside_threads_has_the_address_of_the_home(
        self, rig: Rig, shape: str
    ) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            await rig.adapter.create_handoff_thread(home, "Moving in", key="1")
            await rig.say(at, "Still here.")
            assert (await reader.next()).address == home
            await rig.adapter.send(home, part("So am I."), key="2")
            [seen] = await rig.seen("So am I.")
            assert seen.place == at

    async def test_two_threads_and_two_chats_have_different_addresses(
        self, rig: Rig, shape: str
    ) -> None:
        async with reading(rig.adapter) as reader:
            homes = [await home_of(rig, reader, await rig.place(shape)) for _ in range(2)]
            threads: list[Address] = []
            for home, number in itertools.product(homes, range(2)):
                key = f"{home.key} {number}"
                opened = await rig.adapter.create_handoff_thread(home, "The same title", key=key)
                if opened is not None:
                    threads.append(opened)
            assert len(threads) == (4 if rig.has_threads(shape) else 0)
            assert len({*homes, *threads}) == len(homes) + len(threads)

    async def test_a_message_to_a_deleted_thread_is_refused(self, rig: Rig, shape: str) -> None:
        require(rig, Feature.THREAD_DELETION)
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
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

    async def test_any_title_opens_a_thread(self, rig: Rig, shape: str) -> None:
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(shape))
            titles = ("", " \n ", "x" * 10_000, "a\0b\ud800c", *ODD_TEXTS)
            for number, title in enumerate(titles):
                opened = await rig.adapter.create_handoff_thread(home, title, key=f"key {number}")
                assert (opened is not None) == rig.has_threads(shape)

    async def test_one_key_opens_one_thread(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            opened = [
                await rig.adapter.create_handoff_thread(home, "Moving in", key=key)
                for key in ("1", "1", "2")
            ]
            expected = 0
            if rig.has_threads(shape):
                expected = 2 if rig.adapter.capabilities.keys else 3
            assert len(set(opened) - {None}) == expected
            assert await rig.threads(at) == expected


class ReadersContract(Contract):
    async def test_a_newcomer_and_an_absent_owner_are_noticed(self, rig: Rig, shape: str) -> None:
        require(rig, Feature.READERS)
        at = await rig.place(shape)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            before = await rig.adapter.audience(home, [rig.anna])
            if before is None:
                assert home.chat_type is ChatType.DM
                return
            assert before.has_owner
            assert audience_growth(before, before) == ""
            await rig.inhabit(at, with_anna=True)
            after = await rig.adapter.audience(home, [rig.anna])
            assert after is not None
            assert after.has_owner
            assert bool(audience_growth(before, after)) is not before.is_public
            await rig.inhabit(at, with_anna=False)
            without = await rig.adapter.audience(home, [rig.anna])
            assert without is not None
            assert not without.has_owner
