"""Addresses and threads: the address that an adapter opens is the address that it hears."""

from __future__ import annotations

from segue.core.address import Address
from segue.platforms.base import Button
from segue.testing.contract.base import ODD_TEXTS, PHOTO, Contract
from segue.testing.contract.rig import (
    Feature,
    Rig,
    failure,
    home_of,
    listening,
    part,
    require,
)


class ThreadContract(Contract):
    async def test_a_reply_in_an_opened_thread_has_its_address(self, rig: Rig, shape: str) -> None:
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

    async def test_every_update_in_a_thread_has_its_address(self, rig: Rig, shape: str) -> None:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1") or home
            buttons = [Button("Yes", "y")] if rig.adapter.capabilities.buttons else []
            await rig.adapter.send(thread, part("Well?"), key="2", buttons=buttons)
            [seen] = await rig.seen("Well?")
            said = await rig.say(seen.place, "Good.", [] if Feature.FILES in rig.lacks else [PHOTO])
            edits = [] if Feature.EDITS in rig.lacks else ["Better."]
            for text in edits:
                await rig.edit(said, text)
            await rig.command(seen.place, "/status")
            for _ in buttons:
                await rig.press(seen.id, "Yes")
            heard = [await ear.next() for _ in range(2 + len(edits) + len(buttons))]
            assert {inbound.address for inbound in heard} == {thread}

    async def test_a_message_outside_threads_has_the_address_of_the_home(
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

    async def test_two_threads_and_two_chats_have_different_addresses(
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

    async def test_a_message_to_a_deleted_thread_is_refused(self, rig: Rig, shape: str) -> None:
        require(rig, Feature.THREAD_DELETION)
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

    async def test_any_title_opens_a_thread(self, rig: Rig, shape: str) -> None:
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, await rig.place(shape))
            titles = ("", " \n ", "x" * 10_000, "a\0b\ud800c", *ODD_TEXTS)
            for number, title in enumerate(titles):
                opened = await rig.adapter.create_handoff_thread(home, title, key=f"key {number}")
                assert (opened is not None) == rig.has_threads(shape)

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
