"""Invitations, rooms that are replaced, and what was written while the adapter was away."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from segue.core.address import ChatType
from segue.core.errors import ConnectFailed
from segue.platforms.base import InboundKind
from segue.testing.contract.rig import Place, failure, home_of, listening, part
from segue.testing.synapse import Server
from tests.harness.matrix import MatrixUser, make_room, user
from tests.platforms.matrix.rig import MatrixRig, Shape

pytestmark = pytest.mark.real


async def invite(by: MatrixUser, rig: MatrixRig, **more: Any) -> str:
    """Create a room, and invite the bot."""
    given = {"preset": "private_chat", "invite": [rig.bot.user_id], **more}
    return (await by.call("POST", "/createRoom", given))["room_id"]


async def membership(by: MatrixUser, rig: MatrixRig, room: str) -> str:
    where = f"/rooms/{quote(room)}/state/m.room.member/{quote(rig.bot.user_id)}"
    return (await by.call("GET", where))["membership"]


async def test_only_the_owners_invitations_are_accepted(rig: MatrixRig, server: Server):
    async with user(server, "Eve") as eve, listening(rig.adapter) as ear:
        hers = await invite(eve, rig, is_direct=True)
        ours = await invite(rig.user, rig, is_direct=True)
        said = asyncio.create_task(ear.next())
        first = await said
        assert (first.kind, first.sender.user_id) == (InboundKind.JOINED, rig.anna)
        assert (first.address.chat_id, first.address.chat_type) == (ours, ChatType.DM)
        assert await membership(eve, rig, hers) == "invite"


async def test_what_the_owner_wrote_before_the_bot_came_in_is_read(rig: MatrixRig):
    room = await invite(rig.user, rig, is_direct=True)
    await rig.user.say(room, "hello")
    async with listening(rig.adapter) as ear:
        heard = [await ear.next(), await ear.next()]
    assert {(it.kind, it.text) for it in heard} == {
        (InboundKind.JOINED, ""),
        (InboundKind.MESSAGE, "hello"),
    }


async def test_what_was_there_before_the_first_start_is_skipped(rig: MatrixRig):
    rig.bot = await asyncio.to_thread(rig.server.register, f"another-{secrets.token_hex(4)}")
    room = await make_room(rig.bot, rig.server, rig.user, direct=True)
    await rig.user.say(room, "old")
    fresh = rig.another()
    await fresh.connect()
    try:
        await rig.user.say(room, "new")
        async with listening(fresh) as ear:
            assert (await ear.next()).text == "new"
    finally:
        await fresh.close()


async def test_more_messages_than_a_sync_contains_are_read_after_an_absence(rig: MatrixRig):
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        await home_of(rig, ear, at)
        await rig.say(at, "one more")
        await ear.next()
    await rig.adapter.close()
    for number in range(120):
        await rig.say(at, str(number))
    await rig.adapter.connect()
    async with listening(rig.adapter) as ear:
        heard = [(await ear.next()).text for _ in range(121)]
    assert heard == ["one more", *map(str, range(120))]


async def test_a_device_whose_keys_are_gone_says_what_to_do(rig: MatrixRig, tmp_path: Path):
    rig._folder = tmp_path / "new"
    with pytest.raises(ConnectFailed, match="sign in with a new one"):
        await rig.another().connect()


@pytest.mark.parametrize("shape", [Shape.DM, Shape.ROOM])
async def test_a_room_that_is_upgraded_stays_the_same_place(rig: MatrixRig, shape: Shape):
    direct = shape is Shape.DM
    async with listening(rig.adapter) as ear:
        old = await invite(rig.user, rig, is_direct=direct, room_version="10")
        joined = await ear.next()
        given = {"new_version": "11"}
        where = f"/rooms/{quote(old)}/upgrade"
        new = (await rig.user.call("POST", where, given))["replacement_room"]
        await rig.user.call("POST", f"/rooms/{quote(new)}/invite", {"user_id": rig.bot.user_id})
        moved = await ear.next()
        assert moved.kind is InboundKind.MOVED
        assert moved.address == joined.address
        assert moved.moved_to is not None
        assert (moved.moved_to.chat_id, moved.moved_to.chat_type) == (
            new,
            joined.address.chat_type,
        )
        await rig.user.say(new, "Segue: still there?")
        assert (await ear.next()).address == moved.moved_to


async def test_a_room_that_only_claims_to_replace_another_moves_nothing(rig: MatrixRig):
    async with listening(rig.adapter) as ear:
        old = await invite(rig.user, rig)
        await ear.next()
        claim = {"predecessor": {"room_id": old, "event_id": "$1"}}
        await invite(rig.user, rig, creation_content=claim, room_version="10")
        assert (await ear.next()).kind is InboundKind.JOINED


async def test_a_reply_of_a_client_without_threads_is_in_the_main_timeline(rig: MatrixRig):
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, at)
        thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1")
        assert thread is not None
        receipt = await rig.adapter.send(thread, part("Here."), key="2")
        await rig.reply(at, receipt, "without a thread")
        assert (await ear.next()).address == home
        await rig.reply(Place(at.chat, thread.thread_id), receipt, "in the thread")
        heard = await ear.next()
        assert heard.address == thread
        assert heard.quote is not None
        assert heard.quote.text == "Here."


async def test_a_message_that_is_read_has_a_receipt(rig: MatrixRig):
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        said = await rig.say(at, "read me")
        await ear.next()
        waiting = asyncio.create_task(ear.next())
        async with asyncio.timeout(15):
            while True:
                found = await rig.user.call("GET", "/sync?timeout=0")
                events = found["rooms"]["join"][at.chat]["ephemeral"]["events"]
                receipts = [it["content"] for it in events if it["type"] == "m.receipt"]
                if any(said in it for it in receipts):
                    break
                await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_message_to_a_thread_that_does_not_exist_is_refused(rig: MatrixRig):
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, await rig.place(Shape.DM))
    gone = dataclasses.replace(home, thread_id="$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
    failed = await failure(rig.adapter.send(gone, part("For you only."), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "`segue resume`" in failed.reason
    assert not await rig.seen("For you only.")


async def test_malformed_events_of_devices_stop_nothing(rig: MatrixRig):
    at = await rig.place(Shape.ENCRYPTED_DM)
    async with listening(rig.adapter) as ear:
        await home_of(rig, ear, at)  # the bot knows her device
        mine = rig.user.nio.olm
        assert mine is not None
        own = rig.adapter.client.keys.olm.account.identity_keys["curve25519"]  # type: ignore[attr-defined]
        sender = mine.account.identity_keys["curve25519"]
        for kind in (0, 1, 7):
            for body in ("", "AAAA", "!", "A" * 500):
                content = {
                    "algorithm": "m.olm.v1.curve25519-aes-sha2",
                    "sender_key": sender,
                    "ciphertext": {own: {"type": kind, "body": body}},
                }
                where = f"/sendToDevice/m.room.encrypted/{secrets.token_hex(8)}"
                given = {"messages": {rig.bot.user_id: {rig.bot.device_id: content}}}
                await rig.user.call("PUT", where, given)
        await rig.say(at, "Still there?")
        assert (await ear.next()).text == "Still there?"
