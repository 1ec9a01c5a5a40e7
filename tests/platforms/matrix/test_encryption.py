"""Devices that are verified or not, keys that are missing, and files that are encrypted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nio.crypto import Sas

from segue.platforms.base import Upload
from segue.platforms.matrix import state
from segue.testing.contract.base import PHOTO
from segue.testing.contract.rig import failure, home_of, listening, one_attachment, part
from tests.platforms.matrix.rig import MatrixRig, Shape
from tests.platforms.matrix.sas import EmojiVerification

pytestmark = pytest.mark.real


async def pending(folder: Path) -> tuple[Path, state.PendingVerification]:
    async with asyncio.timeout(15):
        while (found := state.find_pending(folder)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


async def test_an_encrypted_file_goes_both_ways(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, at)
        attachment = await one_attachment(rig, ear, at, PHOTO)
        assert await rig.adapter.fetch(attachment) == PHOTO.content
        file = Upload(PHOTO.name, PHOTO.media_type, PHOTO.content)
        await rig.adapter.send_file(home, file, part("Look."), key="1")
        (shown,) = [it for it in await rig.user.look(at.chat) if it.text == "Look."]
        assert await rig.user.fetch(shown.content["file"]) == PHOTO.content


async def test_the_owner_verifies_the_bot_by_emoji(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    await rig.adapter.close()
    strict = rig.another(trust="verified")
    await strict.connect()
    try:
        async with listening(strict) as ear:
            home = await home_of(rig, ear, at)
            refused = await failure(strict.send(home, part("Secret."), key="1"))
            assert "`segue verify`" in refused.reason
            assert not refused.retry
            hearing = asyncio.create_task(ear.next())  # the adapter receives
            client = EmojiVerification(rig.user, rig.bot.user_id, rig.bot.device_id)
            numbers = await client.compare()
            device, shown = await pending(rig._folder)
            assert shown.device_id == rig.user.account.device_id
            assert list(shown.emoji) == [Sas.emoji[number] for number in numbers]
            state.confirm(device, shown)
            await client.confirm()
            async with asyncio.timeout(15):
                while state.find_pending(rig._folder):  # noqa: ASYNC110 - it waits for a file
                    await asyncio.sleep(0.05)
            await strict.send(home, part("Secret."), key="1")
            assert await rig.seen("Secret.")
            await rig.say(at, "Thanks.")
            assert (await hearing).text == "Thanks."
    finally:
        await strict.close()


async def test_only_the_owner_can_verify(rig: MatrixRig):
    rig.anna = "@other:segue.test"
    await rig.adapter.close()
    strict = rig.another()
    await strict.connect()
    try:
        async with listening(strict) as ear:
            hearing = asyncio.create_task(ear.next())
            client = EmojiVerification(rig.user, rig.bot.user_id, rig.bot.device_id)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await client.compare()
            hearing.cancel()
            await asyncio.wait([hearing])
    finally:
        await strict.close()


async def test_a_message_whose_key_is_missing_is_reported_to_the_owner_once(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    rig.proxy.loses_keys = True
    async with listening(rig.adapter) as ear:
        hearing = asyncio.create_task(ear.next())
        for text in ("lost", "lost too"):
            await rig.user.say(at.chat, text)
        shown = await rig.user.until(at.chat, lambda it: any("its key" in m.text for m in it))
        assert sum("its key" in message.text for message in shown) == 1
        rig.proxy.loses_keys = False
        assert rig.user.nio.olm is not None
        rig.user.nio.olm.outbound_group_sessions.clear()  # her client makes a new key
        await rig.user.say(at.chat, "again")
        assert (await hearing).text == "again"


async def test_a_room_that_was_encrypted_is_never_written_to_in_the_clear(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, at)
    room = await rig.adapter.client.room(at.chat)  # type: ignore[attr-defined]
    room.encrypted = False  # as a server would say that wants to read along
    await rig.adapter.send(home, part("Secret."), key="1")
    events = (await rig.user.call("GET", f"/rooms/{at.chat}/messages?dir=b&limit=3"))["chunk"]
    assert "Secret." not in str(events)
