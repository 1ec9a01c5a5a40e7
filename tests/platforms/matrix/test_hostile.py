"""What others write to make the bot deaf, or to make it write in the clear."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import quote

import pytest

from segue.core.address import Sender
from segue.platforms.base import Inbound
from segue.platforms.matrix import events
from segue.platforms.matrix.events import RoomEvent
from segue.testing.contract.rig import Place, home_of, reading, received
from segue.testing.peers import Trouble
from tests.fakes.matrix import MatrixUser
from tests.platforms.matrix.test_rooms import invite
from tests.rigs.matrix.contract import AnnaOnMatrix, Shape

pytestmark = pytest.mark.real

LONG = "x" * 20_000
LONG_ROOM = f"!{LONG}:segue.test"
LONG_EVENT = f"${LONG}"


async def stranger(rig: AnnaOnMatrix) -> MatrixUser:
    return rig.driver.users[await rig.driver.user("Eve")]


async def shared_room(rig: AnnaOnMatrix, eve: MatrixUser) -> Place:
    """A room of the stranger, to which the owner has invited the bot."""
    given = {"preset": "private_chat", "invite": [rig.anna]}
    room = (await eve.call("POST", "/createRoom", given))["room_id"]
    await rig.user.call("POST", f"/join/{quote(room)}", {})
    await rig.user.call("POST", f"/rooms/{quote(room)}/invite", {"user_id": rig.driver.bot.id})
    rig.driver.rooms[room] = rig.user
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, Place(room))
    return Place(room)


async def assert_hears_the_owner(rig: AnnaOnMatrix, at: Place) -> None:
    """The adapter, and another one that takes over from it, hear what the owner writes."""
    await rig.say(at, "Still there?")
    assert (await received(rig.adapter, "Still there?")).text == "Still there?"
    restarted = rig.another()
    await restarted.connect()
    await rig.say(at, "After a restart?")
    assert (await received(restarted, "After a restart?")).text == "After a restart?"
    await restarted.close()


async def test_an_invitation_to_a_room_with_a_long_predecessor_stops_nothing(rig: AnnaOnMatrix):
    eve = await stranger(rig)
    at = await rig.place(Shape.DM)
    claim = {"predecessor": {"room_id": LONG_ROOM, "event_id": LONG_EVENT}}
    await invite(eve, rig, creation_content=claim, room_version="10")
    await assert_hears_the_owner(rig, at)


RELATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "reply": ("m.room.message", {"m.in_reply_to": {"event_id": LONG_EVENT}}),
    "thread": ("m.room.message", {"rel_type": "m.thread", "event_id": LONG_EVENT}),
    "edit": ("m.room.message", {"rel_type": "m.replace", "event_id": LONG_EVENT}),
    "reaction": ("m.reaction", {"rel_type": "m.annotation", "event_id": LONG_EVENT, "key": "👍"}),
}


@pytest.mark.parametrize("is_owner", [False, True], ids=["stranger", "owner"])
@pytest.mark.parametrize("relation", RELATIONS)
async def test_a_message_about_an_event_with_a_long_id_stops_nothing(
    rig: AnnaOnMatrix, relation: str, is_owner: bool
):
    kind, about = RELATIONS[relation]
    eve = await stranger(rig)
    at = await shared_room(rig, eve)
    new = {"msgtype": "m.text", "body": "I mean this."}
    content = {"msgtype": "m.text", "body": "This.", "m.new_content": new, "m.relates_to": about}
    sender = rig.anna if is_owner else eve.id
    # Synapse refuses most of them. Other servers, and what is encrypted, need not.
    event = {"type": kind, "sender": sender, "event_id": "$hostile", "content": content}
    rig.driver.proxy.deliver(at.chat, [event])
    await assert_hears_the_owner(rig, at)


@pytest.mark.parametrize("target", [LONG_ROOM, f"#{LONG}:segue.test", LONG, "", "/../../x"])
async def test_a_tombstone_with_a_malformed_replacement_stops_nothing(
    rig: AnnaOnMatrix, target: str
):
    eve = await stranger(rig)
    at = await shared_room(rig, eve)
    await rig.say(at, "Before.")
    await received(rig.adapter, "Before.")
    tombstone = {
        "type": "m.room.tombstone",
        "state_key": "",
        "sender": eve.id,
        "event_id": "$hostile",
        "content": {"body": "Moved.", "replacement_room": target},
    }
    rig.driver.proxy.deliver(at.chat, [tombstone])
    await assert_hears_the_owner(rig, at)


async def test_a_verification_with_long_names_stops_nothing(rig: AnnaOnMatrix):
    at = await rig.place(Shape.DM)
    bot = rig.driver.bot.account
    for user in (await stranger(rig), rig.user):
        for kind in ("request", "start", "key", "mac", "cancel", "done"):
            content = {
                "transaction_id": LONG[:5000],
                "from_device": LONG,
                "method": "m.sas.v1",
                "methods": ["m.sas.v1", LONG],
                "timestamp": 1,
            }
            where = f"/sendToDevice/m.key.verification.{kind}/{secrets.token_hex(8)}"
            given = {"messages": {bot.user_id: {bot.device_id: content}}}
            await user.call("PUT", where, given)
    await assert_hears_the_owner(rig, at)


async def test_a_file_with_a_long_name_on_its_server_is_not_asked_for(rig: AnnaOnMatrix):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        for url in (f"mxc://segue.test/{LONG}", f"mxc://{LONG}/x"):
            content = {"msgtype": "m.image", "body": "a.png", "url": url}
            await rig.user.send(at.chat, content)
            [attachment] = (await reader.next()).attachments
            with pytest.raises(Exception, match="no file") as caught:
                await rig.adapter.fetch(attachment)
            assert not getattr(caught.value, "retry", True)


async def heard_before(rig: AnnaOnMatrix, at: Place) -> str:
    """A message that another adapter does not hear, because this one has confirmed it."""
    async with reading(rig.adapter) as reader:
        first = await rig.say(at, "First.")
        await reader.next()
        await rig.say(at, "Second.")
        await reader.next()
    return first


@pytest.mark.parametrize("is_paired", [False, True])
async def test_what_a_user_refers_to_is_looked_up_only_if_the_user_is_paired(
    rig: AnnaOnMatrix, is_paired: bool
):
    async def check(sender: Sender, _: str) -> bool:
        return is_paired and sender.user_id == rig.anna

    at = await rig.place(Shape.DM)
    first = await heard_before(rig, at)
    fresh = rig.another()
    await fresh.connect()
    fresh.remember({}, wanted=check)
    before = rig.driver.proxy.calls["event"]
    await rig.reply(at, first, "What about it?")
    heard = await received(fresh, "What about it?")
    assert rig.driver.proxy.calls["event"] - before == is_paired
    assert (heard.quote is not None) == is_paired
    await fresh.close()


async def test_a_reply_whose_target_cannot_be_had_is_read_without_it(rig: AnnaOnMatrix):
    at = await rig.place(Shape.DM)
    first = await heard_before(rig, at)
    fresh = rig.another()
    await fresh.connect()
    await rig.driver.fail("event", Trouble.BROKEN, seconds=0.0, times=1_000)
    await rig.reply(at, first, "What about it?")
    assert (await received(fresh, "What about it?")).quote is None
    await fresh.close()


async def test_the_owner_is_notified_of_a_message_that_is_set_aside(
    rig: AnnaOnMatrix, monkeypatch: pytest.MonkeyPatch
):
    parse = events.parse

    def broken(event: RoomEvent, *more: Any) -> Inbound | None:
        if event.content.body == "poison":
            raise ZeroDivisionError
        return parse(event, *more)

    monkeypatch.setattr(events, "parse", broken)
    at = await rig.place(Shape.ENCRYPTED_DM)
    await rig.say(at, "poison")
    await rig.say(at, "Still there?")
    await received(rig.adapter, "Still there?")
    assert sum("could not read" in it.text for it in await rig.user.look(at.chat)) == 1
