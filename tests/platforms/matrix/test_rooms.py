"""Invitations, rooms that are replaced, and what was written while the adapter was away."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any
from urllib.parse import quote

import pytest

from segue.core.address import ChatType
from segue.platforms.base import InboundKind
from segue.platforms.matrix import updates
from segue.testing.contract.history import only
from segue.testing.contract.rig import Place, failure, home_of, part, reading
from tests.fakes.matrix import MatrixPeer, MatrixUser
from tests.rigs.matrix.contract import AnnaOnMatrix, Shape

pytestmark = pytest.mark.real


async def invite(by: MatrixUser, rig: AnnaOnMatrix, **more: Any) -> str:
    """Create a room, and invite the bot."""
    given = {"preset": "private_chat", "invite": [rig.driver.bot.id], **more}
    return (await by.call("POST", "/createRoom", given))["room_id"]


async def test_only_the_owners_invitations_are_accepted(rig: AnnaOnMatrix):
    eve = rig.driver.users[await rig.driver.user("Eve")]
    async with reading(rig.adapter) as reader:
        hers = await invite(eve, rig, is_direct=True)
        ours = await invite(rig.user, rig, is_direct=True)
        first = await reader.next()
        assert (first.kind, first.sender.user_id) == (InboundKind.JOINED, rig.anna)
        assert (first.address.chat_id, first.address.chat_type) == (ours, ChatType.DM)
        where = f"/rooms/{quote(hers)}/state/m.room.member/{quote(rig.driver.bot.id)}"
        assert (await eve.call("GET", where))["membership"] == "invite"


async def test_what_the_owner_wrote_before_the_bot_came_in_is_read(rig: AnnaOnMatrix):
    room = await invite(rig.user, rig, is_direct=True)
    await rig.user.say(room, "hello")
    async with reading(rig.adapter) as reader:
        heard = [await reader.next(), await reader.next()]
    assert {it.text for it in heard} == {"", "hello"}


async def test_a_bot_that_is_renamed_while_it_runs_answers_to_its_new_name(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ROOM)
    bot = rig.driver.bot
    async with reading(rig.adapter) as reader:
        path = f"/profile/{quote(bot.id)}/displayname"
        await bot.call("PUT", path, {"displayname": "Marvin"})
        member = f"/rooms/{quote(at.chat)}/state/m.room.member/{quote(bot.id)}"
        for _ in range(200):  # the server tells its rooms in the background
            if (await rig.user.call("GET", member)).get("displayname") == "Marvin":
                break
            await asyncio.sleep(0.1)
        await rig.say(at, "Marvin: hello")
        heard = await reader.next()
    assert (heard.text, heard.addressed) == ("hello", True)


async def test_what_was_there_before_the_first_start_is_skipped(peer: MatrixPeer):
    async with peer.driver() as driver:
        rig = AnnaOnMatrix(peer, driver, await driver.user("Anna"))
        at = await rig.place(Shape.DM)
        await rig.say(at, "old")
        await rig.adapter.connect()
        await rig.say(at, "new")
        async with reading(rig.adapter) as reader:
            assert (await reader.next()).text == "new"
        await rig.adapter.close()


async def test_more_messages_than_a_sync_contains_are_read_after_an_absence(rig: AnnaOnMatrix):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        await rig.say(at, "one more")
        await reader.next()
    await rig.adapter.close()
    for number in range(120):
        await rig.say(at, str(number))
    await rig.adapter.connect()
    async with reading(rig.adapter) as reader:
        heard = [(await reader.next()).text for _ in range(121)]
    assert heard == ["one more", *map(str, range(120))]


async def test_a_message_of_the_owner_is_heard_however_many_pages_follow_it(
    rig: AnnaOnMatrix, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(updates, "_PAGE", 5)
    at = await rig.place(Shape.DM)
    await rig.adapter.close()
    await rig.say(at, "first")
    await rig.others(at, 160)  # 50 in the sync, and 22 pages
    adapter = await rig.restarted()
    adapter.remember({}, wanted=only(rig.anna))
    async with reading(adapter) as reader:
        assert (await reader.next()).text == "first"


@pytest.mark.parametrize("direct", [True, False], ids=["dm", "room"])
async def test_a_room_that_is_upgraded_stays_the_same_place(rig: AnnaOnMatrix, direct: bool):
    async with reading(rig.adapter) as reader:
        old = await invite(rig.user, rig, is_direct=direct, room_version="10")
        joined = await reader.next()
        where = f"/rooms/{quote(old)}/upgrade"
        new = (await rig.user.call("POST", where, {"new_version": "11"}))["replacement_room"]
        given = {"user_id": rig.driver.bot.id}
        await rig.user.call("POST", f"/rooms/{quote(new)}/invite", given)
        moved = await reader.next()
        assert (moved.kind, moved.address) == (InboundKind.MOVED, joined.address)
        assert moved.moved_to == dataclasses.replace(joined.address, chat_id=new)
        await rig.user.say(new, "Segue: still there?")
        assert (await reader.next()).address == moved.moved_to


async def test_a_room_that_only_claims_to_replace_another_moves_nothing(rig: AnnaOnMatrix):
    async with reading(rig.adapter) as reader:
        old = await invite(rig.user, rig)
        await reader.next()
        claim = {"predecessor": {"room_id": old, "event_id": "$1"}}
        await invite(rig.user, rig, creation_content=claim, room_version="10")
        assert (await reader.next()).kind is InboundKind.JOINED


async def test_a_reply_of_a_client_without_threads_is_in_the_main_timeline(rig: AnnaOnMatrix):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
        thread = await rig.adapter.create_handoff_thread(home, "Moving in", key="1")
        assert thread is not None
        receipt = await rig.adapter.send(thread, part("Draft."), key="2")
        await rig.adapter.edit(thread, receipt, part("Here."))
        await rig.reply(at, receipt, "without a thread")
        assert (await reader.next()).address == home
    fresh = rig.another()  # it has to ask for the message, which was edited
    await fresh.connect()
    async with reading(fresh) as reader:
        await rig.reply(Place(at.chat, thread.thread_id), receipt, "in the thread")
        heard = [await reader.next(), await reader.next()]
        assert heard[-1].address == thread
        assert heard[-1].quote is not None
        assert heard[-1].quote.text == "Here."
    await fresh.close()


async def test_a_message_that_is_read_has_a_receipt(rig: AnnaOnMatrix):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        said = await rig.say(at, "read me")
        rig.adapter.acknowledge(await reader.next())
        async with asyncio.timeout(15):
            receipts = await rig.ephemeral(at.chat, "m.receipt")
            while not any(said in it for it in receipts):
                receipts = await rig.ephemeral(at.chat, "m.receipt")


async def test_a_message_ends_the_typing_indicator(rig: AnnaOnMatrix):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
    await rig.adapter.typing(home)
    assert await rig.typing(at)
    await rig.adapter.send(home, part("Done."), key="1")
    async with asyncio.timeout(15):
        is_shown = await rig.typing(at)
        while is_shown:
            is_shown = await rig.typing(at)


async def test_a_message_to_a_thread_that_does_not_exist_is_refused(rig: AnnaOnMatrix):
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, await rig.place(Shape.DM))
    gone = dataclasses.replace(home, thread_id="$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
    failed = await failure(rig.adapter.send(gone, part("For you only."), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "`segue resume`" in failed.reason
    assert not await rig.seen("For you only.")
