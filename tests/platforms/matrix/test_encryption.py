"""Devices that are verified or not, keys that are missing, and files that are encrypted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace
from nio.crypto import Sas

from segue.platforms.base import Upload
from segue.platforms.matrix import state
from segue.platforms.matrix.adapter import MatrixAdapter
from segue.testing.contract.base import PHOTO
from segue.testing.contract.rig import Ear, Place, failure, home_of, listening, one_attachment, part
from tests.platforms.matrix.rig import MatrixRig, Shape
from tests.platforms.matrix.sas import EmojiVerification

pytestmark = pytest.mark.real


@contextlib.asynccontextmanager
async def strict(rig: MatrixRig, token: str = "") -> AsyncGenerator[tuple[MatrixAdapter, Ear]]:
    """An adapter that trusts no device until it is verified."""
    await rig.adapter.close()
    adapter = rig.another(token, trust="verified")
    await adapter.connect()
    try:
        async with listening(adapter) as ear:
            yield adapter, ear
    finally:
        await adapter.close()


def verification(rig: MatrixRig) -> EmojiVerification:
    bot = rig.driver.bot.account
    return EmojiVerification(rig.user, bot.user_id, bot.device_id)


async def test_an_encrypted_file_goes_both_ways(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, at)
        attachment = await one_attachment(rig, ear, at, PHOTO)
        assert await rig.adapter.fetch(attachment) == PHOTO.content
        file = Upload(PHOTO.name, PHOTO.media_type, PHOTO.content)
        await rig.adapter.send_file(home, file, part("Look."), key="1")
        [shown] = [it for it in await rig.user.look(at.chat) if it.text == "Look."]
        assert shown.file is not None
        assert await rig.user.fetch(json.loads(shown.file.id)) == PHOTO.content


async def test_the_owner_verifies_the_bot_by_emoji(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with strict(rig) as (adapter, ear):
        home = await home_of(rig, ear, at)
        refused = await failure(adapter.send(home, part("Secret."), key="1"))
        assert "`segue verify`" in refused.reason
        assert not refused.retry
        hearing = asyncio.create_task(ear.next())  # the adapter receives
        client = verification(rig)
        numbers = await client.compare()
        found = state.find_pending(rig.driver.folder)
        assert found is not None
        assert list(found[1].emoji) == [Sas.emoji[number] for number in numbers]
        found[0].save(state.FILE, replace(found[1], confirmed=True))
        await client.confirm()
        await rig.say(at, "Thanks.")
        assert (await hearing).text == "Thanks."
        assert state.find_pending(rig.driver.folder) is None
        await adapter.send(home, part("Secret."), key="1")
        assert await rig.seen("Secret.")


async def test_without_the_owners_word_nothing_is_verified(rig: MatrixRig):
    at = await rig.place(Shape.DM)
    await rig.user.sync()  # publishes her keys
    async with strict(rig) as (adapter, ear):
        client, hearing = verification(rig), asyncio.create_task(ear.next())
        await client.compare()
        await rig.say(at, "Wait.")
        await hearing
        await home_of(rig, ear, at)
        assert "mac" not in await client.heard()
        await client.send("cancel", code="m.mismatched_sas", reason="They differ.")
        await home_of(rig, ear, at)
        assert state.find_pending(rig.driver.folder) is None
        assert not adapter.client.keys.is_verified(rig.anna)


async def test_only_the_owner_can_verify(rig: MatrixRig):
    eve = rig.driver.users[await rig.driver.user("Eve")]
    at = Place(await rig.driver.chat([rig.anna, eve.id], encrypted=True))
    async with strict(rig) as (adapter, ear):
        home, bot = await home_of(rig, ear, at), rig.driver.bot.account
        await failure(adapter.send(home, part("Secret."), key="1"))  # it knows her device now
        client = EmojiVerification(eve, bot.user_id, bot.device_id)
        await client.start()
        await home_of(rig, ear, at)  # the adapter has read what came before
        assert "accept" not in await client.heard()


async def test_a_message_whose_key_is_missing_is_reported_to_the_owner_once(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    rig.driver.proxy.loses_keys = True
    async with listening(rig.adapter) as ear:
        hearing = asyncio.create_task(ear.next())
        for text in ("lost", "lost too"):
            await rig.say(at, text)
        shown = await rig.driver.until(lambda it: any("its key" in m for m in it.texts), at.chat)
        assert sum("its key" in text for text in shown.texts) == 1
        rig.driver.proxy.loses_keys = False
        assert rig.user.nio.olm is not None
        rig.user.nio.olm.outbound_group_sessions.clear()  # her client makes a new key
        await rig.say(at, "again")
        assert (await hearing).text == "again"


async def test_a_room_that_was_encrypted_is_never_written_to_in_the_clear(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, at)
    room = await rig.adapter.client.room(at.chat)
    room.encrypted = False  # as a server would say that wants to read along
    await rig.adapter.send(home, part("Secret."), key="1")
    assert "Secret." not in str(await rig.driver.bot.events(at.chat))


async def test_malformed_events_of_devices_stop_nothing(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with listening(rig.adapter) as ear:
        await home_of(rig, ear, at)  # the bot knows her device
        assert rig.user.nio.olm is not None
        sender = rig.user.nio.olm.account.identity_keys["curve25519"]
        own = rig.adapter.client.keys.olm.account.identity_keys["curve25519"]
        bot = rig.driver.bot.account
        for kind in (0, 1, 7):
            for body in ("", "AAAA", "!", "A" * 500):
                content = {
                    "algorithm": "m.olm.v1.curve25519-aes-sha2",
                    "sender_key": sender,
                    "ciphertext": {own: {"type": kind, "body": body}},
                }
                where = f"/sendToDevice/m.room.encrypted/{secrets.token_hex(8)}"
                given = {"messages": {bot.user_id: {bot.device_id: content}}}
                await rig.user.call("PUT", where, given)
        await rig.say(at, "Still there?")
        assert (await ear.next()).text == "Still there?"


async def test_a_gateway_that_takes_over_has_the_keys_that_another_got(rig: MatrixRig):
    at, standby = await rig.place(Shape.ENCRYPTED_DM), rig.another()
    await standby.connect()
    async with listening(rig.adapter) as ear:
        await home_of(rig, ear, at)
    await rig.adapter.close()
    await rig.say(at, "Still there?")  # under the same key
    async with listening(standby) as ear:
        heard = [await ear.next(), await ear.next()]
        await standby.send(heard[0].address, part("Yes."), key="1")
    assert [it.text for it in heard] == ["This is home.", "Still there?"]
    assert await rig.seen("Yes.")
    await standby.close()
