"""Keys that are missing, events that are malformed, and files that are encrypted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Mapping
from urllib.parse import quote

import pytest

from segue.core.errors import DeliveryFailed
from segue.platforms.base import InboundKind, Upload
from segue.testing.contract.rig import PHOTO, failure, home_of, one_attachment, part, reading
from tests.rigs.matrix.contract import AnnaOnMatrix, Shape

pytestmark = pytest.mark.real


async def test_an_encrypted_file_goes_both_ways(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
        attachment = await one_attachment(rig, reader, at, PHOTO)
        assert await rig.adapter.fetch(attachment) == PHOTO.content
        file = Upload(PHOTO.name, PHOTO.media_type, PHOTO.content)
        await rig.adapter.send_file(home, file, part("Look."), key="1")
        [shown] = [it for it in await rig.user.look(at.chat) if it.text == "Look."]
        assert shown.file is not None
        assert await rig.user.fetch(json.loads(shown.file.id)) == PHOTO.content


async def test_a_message_whose_key_is_missing_is_reported_to_the_owner_once(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ENCRYPTED_DM)
    rig.driver.proxy.loses_keys = True
    async with reading(rig.adapter) as reader:
        receiving = asyncio.create_task(reader.next())
        for text in ("lost", "lost too"):
            await rig.say(at, text)
        shown = await rig.driver.until(lambda it: any("its key" in m for m in it.texts), at.chat)
        assert sum("its key" in text for text in shown.texts) == 1
        rig.driver.proxy.loses_keys = False
        assert rig.user.nio.olm is not None
        rig.user.nio.olm.outbound_group_sessions.clear()  # her client makes a new key
        await rig.say(at, "again")
        assert (await receiving).text == "again"


async def test_a_room_that_was_encrypted_is_never_written_to_in_the_clear(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
    room = await rig.adapter.client.room(at.chat)
    room.encrypted = False  # as a server would say that wants to read along
    await rig.adapter.send(home, part("Secret."), key="1")
    assert "Secret." not in str(await rig.driver.bot.events(at.chat))


GOOD = "m.megolm.v1.aes-sha2"
ODD = {
    "odd fields": {"algorithm": GOOD, "body": 5, "name": [], "m.relates_to": "x", "info": 1},
    "odd rotation": {"algorithm": GOOD, "rotation_period_ms": "x", "rotation_period_msgs": {}},
    "empty": {},
    "no text": {"algorithm": 5},
    "unknown": {"algorithm": "m.other"},
}


@pytest.mark.parametrize("is_known", [False, True], ids=["before", "while it is known"])
@pytest.mark.parametrize("shape", ODD)
async def test_an_odd_encryption_event_never_leads_to_a_message_in_the_clear(
    rig: AnnaOnMatrix, shape: str, is_known: bool
):
    at = await rig.place(Shape.DM)
    where = f"/rooms/{quote(at.chat)}/state/m.room.encryption/"
    await rig.user.sync()  # her device has keys
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
        if not is_known:
            rig.adapter.client.rooms.clear()
        await rig.driver.bot.call("PUT", where, ODD[shape])
        receiving = asyncio.create_task(reader.next())
        await rig.say(at, "in the clear, which is refused from now on")
        await rig.driver.until(lambda _: rig.adapter.client.warned == {at.chat}, at.chat)
        receiving.cancel()
        await asyncio.wait([receiving])
    rig.user.encrypted.add(at.chat)
    await rig.user.sync()
    if ODD[shape].get("algorithm") == GOOD:
        await rig.adapter.send(home, part("Secret."), key="1")
        assert await rig.seen("Secret.")
    else:
        failed = await failure(rig.adapter.send(home, part("Secret."), key="1"))
        assert not failed.retry
        assert "encrypted" in failed.reason
    photo = Upload(PHOTO.name, PHOTO.media_type, PHOTO.content)
    with contextlib.suppress(DeliveryFailed):
        await rig.adapter.send_file(home, photo, part("Secret."), key="2")
    written = await rig.driver.bot.events(at.chat)
    assert not [it for it in written if "Secret." in str(it)]


async def test_a_member_whose_event_is_odd_is_counted_and_gets_no_keys_after_leaving(
    rig: AnnaOnMatrix,
):
    eve = rig.driver.users[await rig.driver.user("Eve")]
    at = await rig.place(Shape.ENCRYPTED_DM)
    member = f"/rooms/{quote(at.chat)}/state/m.room.member/{quote(eve.id)}"
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
        await rig.driver.bot.call("POST", f"/rooms/{quote(at.chat)}/invite", {"user_id": eve.id})
        await eve.call("PUT", member, {"membership": "join", "topic": 5})
        await rig.say(at, "Who is here?")
        heard = await reader.next()
        assert "3 members" in heard.readers
        await eve.call("PUT", member, {"membership": "leave", "name": []})
        await rig.say(at, "And now?")
        assert (await reader.next()).readers == ""
        room = await rig.adapter.client.room(at.chat)
        assert eve.id not in room.members
        await rig.adapter.send(home, part("Secret."), key="1")


async def test_malformed_events_of_devices_stop_nothing(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)  # the bot knows her device
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
        assert (await reader.next()).text == "Still there?"


async def test_a_gateway_that_takes_over_has_the_keys_that_another_got(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ENCRYPTED_DM)
    standby = rig.another()
    await standby.connect()
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
    await rig.adapter.close()
    await rig.say(at, "Still there?")  # under the same key
    async with reading(standby) as reader:
        heard = [await reader.next(), await reader.next()]
        await standby.send(heard[0].address, part("Yes."), key="1")
    assert [it.text for it in heard] == ["This is home.", "Still there?"]
    assert await rig.seen("Yes.")
    await standby.close()


# What the server could have made up


@pytest.mark.parametrize("shape", [Shape.ENCRYPTED_DM, Shape.ENCRYPTED_ROOM])
async def test_messages_without_encryption_are_not_read_and_the_owner_is_notified_once(
    rig: AnnaOnMatrix, shape: Shape
):
    at = await rig.place(shape)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        receiving = asyncio.create_task(reader.next())
        for text in ("/approve 1", "Segue: /sethome yes", "8N2D-VGKQ"):
            await in_the_clear(rig, at.chat, {"msgtype": "m.text", "body": text})
        await rig.driver.until(lambda it: any(NOTICE in m for m in it.texts), at.chat)
        await rig.say(at, "Segue: it is me")
        assert (await receiving).text == "it is me"
        shown = await rig.driver.look(at.chat)
        assert sum(NOTICE in text for text in shown.texts) == 1


async def test_an_edit_without_encryption_changes_no_encrypted_message(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with reading(rig.adapter) as reader:
        message = await rig.say(at, "delete nothing")
        assert (await reader.next()).text == "delete nothing"
        receiving = asyncio.create_task(reader.next())
        new = {"msgtype": "m.text", "body": "delete everything"}
        relation = {"rel_type": "m.replace", "event_id": message}
        edit = {**new, "m.new_content": new, "m.relates_to": relation}
        await in_the_clear(rig, at.chat, edit)
        await rig.driver.until(lambda it: any(NOTICE in m for m in it.texts), at.chat)
        await rig.edit(message, "delete one")
        assert (await receiving).text == "delete one"


@pytest.mark.parametrize("shape", [Shape.DM, Shape.ENCRYPTED_DM])
async def test_a_reaction_in_an_encrypted_room_is_forgeable(rig: AnnaOnMatrix, shape: Shape):
    at = await rig.place(shape)
    is_encrypted = shape is Shape.ENCRYPTED_DM
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
        assert rig.adapter.trusts_reactions(home) == (not is_encrypted)
        receipt = await rig.adapter.send(home, part("May I?"), key="1")
        await rig.user.react(at.chat, receipt, "👍")
        heard = await reader.next()
    assert (heard.kind, heard.text) == (InboundKind.REACTION, "👍")
    assert heard.forgeable == is_encrypted


NOTICE = "this room is encrypted and the message was not"


async def in_the_clear(rig: AnnaOnMatrix, room: str, content: Mapping[str, object]) -> None:
    """Write in Anna's name what a server can write, too."""
    where = f"/rooms/{quote(room)}/send/m.room.message/{secrets.token_hex(8)}"
    await rig.user.call("PUT", where, content)
