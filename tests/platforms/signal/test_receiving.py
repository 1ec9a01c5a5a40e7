"""What users do on Signal, and what the adapter makes of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from segue.platforms.base import Inbound, InboundKind
from segue.platforms.errors import Lost
from segue.platforms.signal.client import EventStream
from segue.platforms.signal.updates import Parser
from segue.testing.contract.rig import part, reading
from tests.fakes.signal import ME, NUMBER, Settings
from tests.rigs.signal.contract import AnnaOnSignal, Shape
from tests.rigs.signal.specimens import (
    DATA,
    DESTINATION,
    GROUP,
    IGNORED,
    IN_GROUP,
    UNREADABLE,
    event,
)


def parsed(message: dict[str, Any], kind: str = "dataMessage", **more: Any) -> Inbound:
    parser = Parser({})
    parser.account = NUMBER
    found = parser.parse(json.dumps(event(kind, message, **more).update).encode())
    assert found is not None
    return found


async def test_a_mention_or_the_name_addresses_the_agent_in_a_group(rig: AnnaOnSignal):
    async with rig.talking(Shape.GROUP) as (at, reader, _):
        bob = await rig.driver.user("Bob")
        await rig.say(at, "status", mention=ME.id)
        await rig.say(at, "@Segue, /status")
        await rig.say(at, "status", mention=bob)
        found = [await reader.next() for _ in range(3)]
    assert [(it.text, it.addressed) for it in found] == [
        ("status", True),
        ("/status", True),
        ("@+49151000000029 status", False),
    ]
    assert found[0].readers == "the members of Group"
    inside = [{"name": NUMBER, "number": NUMBER, "uuid": ME.id, "start": 3, "length": 1}]
    data = {**DATA, "message": "👍 \ufffc?", "mentions": inside, "groupInfo": IN_GROUP}
    assert (parsed(data).text, parsed(data).addressed) == ("👍 @segue ?", True)
    other = [{"name": "A www.b.c", "number": "+1", "uuid": "x", "start": 3, "length": 1}]
    assert parsed({**data, "mentions": other}).text == "👍 @A b.c?"


@pytest.mark.parametrize("single", [True, False])
async def test_an_event_without_an_account_is_for_the_only_one(rig: AnnaOnSignal, single: bool):
    await rig.driver.settings(Settings(single=single, names_account=False))
    async with rig.talking() as (at, reader, _):
        await rig.say(at, "status")
        assert (await reader.next()).text == "status"


def test_an_event_without_an_account_is_dropped_if_the_daemon_has_several():
    parser = Parser({})
    parser.account = NUMBER
    update = event("dataMessage", DATA).update
    del update["account"]
    assert parser.parse(json.dumps(update).encode()) is None


async def test_a_second_edit_is_one_of_the_first_version(rig: AnnaOnSignal):
    async with rig.talking() as (at, reader, _):
        said = await rig.say(at, "one")
        for text in ("two", "three"):
            await rig.edit(said, text)
        first, second, third = [await reader.next() for _ in range(3)]
    assert (third.kind, third.text) == (InboundKind.EDIT, "three")
    assert first.message_id == second.message_id == third.message_id


@pytest.mark.parametrize("shape", Shape)
async def test_a_reaction_names_our_message_also_after_an_edit(rig: AnnaOnSignal, shape: Shape):
    async with rig.talking(shape) as (at, reader, home):
        receipt = await rig.adapter.send(home, part("Shall I?"), key="1")
        await rig.adapter.edit(home, receipt, part("Shall I now?"))
        hers = await rig.say(at, "hm")
        await reader.next()
        if shape is not Shape.SELF:  # there, all messages are the account's
            await rig.driver.react(rig.anna, at.chat, hers, "👍")
        await rig.driver.react(rig.anna, at.chat, receipt, "👎", remove=True)
        await rig.driver.react(rig.anna, at.chat, receipt, "👍")
        reaction = await reader.next()
    assert (reaction.kind, reaction.text) == (InboundKind.REACTION, "👍")
    assert (reaction.message_id, reaction.addressed) == (receipt, True)


async def test_what_the_account_writes_to_others_and_what_is_no_message_is_ignored(
    rig: AnnaOnSignal, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        async with rig.talking() as (at, reader, _):
            await rig.driver.say(ME.id, at.chat, "/approve 1")
            await rig.inject(json.dumps(it) for it in (*IGNORED, UNREADABLE))
            await rig.say(at, "hello")
            assert (await reader.next()).text == "hello"
    [warning] = caplog.messages
    assert "reason=UntrustedIdentityException: type `segue doctor`" in warning, "the way out"


async def test_only_a_recorded_message_of_an_owner_is_marked_as_read(rig: AnnaOnSignal):
    async with rig.talking() as (at, reader, _):
        for text in ("of an owner", "of a stranger"):
            await rig.say(at, text)
        rig.adapter.acknowledge(await reader.next())
        assert not any(m.read for m in (await rig.driver.look()).messages)
        await reader.next()
        await rig.say(at, "next")
        await reader.next()
        shown = await rig.driver.until(lambda shown: any(m.read for m in shown.messages))
    assert [m.text for m in shown.messages if m.read] == ["of an owner"]


async def test_a_daemon_that_always_receives_loses_what_is_written_meanwhile(rig: AnnaOnSignal):
    """The document says so: only `--receive-mode on-connection` keeps it."""
    await rig.driver.settings(Settings(on_start=True))
    at = await rig.place(Shape.DM)
    await rig.adapter.close()
    await rig.driver.down()
    await rig.driver.up()
    await rig.say(at, "lost")
    await rig.adapter.connect()
    async with reading(rig.adapter) as reader:
        await rig.say(at, "heard")
        assert (await reader.next()).text == "heard"
    assert not any(m.read for m in (await rig.driver.look()).messages)


def test_what_is_no_text_is_described():
    contact = {"name": {"given": "Bob", "family": "Bo"}, "phone": [{"value": "+49"}]}
    poll = {"question": "When?", "allowMultiple": False, "options": ["now", "later"]}
    sticker = {"packId": "00", "stickerId": 1}
    kinds = {"sticker": sticker, "contacts": [contact], "pollCreate": poll}
    texts = [parsed({**DATA, "message": None, kind: it}).text for kind, it in kinds.items()]
    poll_text = "[A poll: When?\n- now\n- later]"
    assert texts == ["[A sticker]", "[A contact: Bob Bo, +49]", poll_text]


def test_a_note_to_self_is_one_and_a_group_message_of_the_phone_must_name_the_agent():
    note = parsed({"sentMessage": {**DESTINATION, **DATA}}, "syncMessage", by=ME.id)
    assert (note.chat_name, note.address.chat_id, note.press_id) == ("Note to Self", ME.id, "")
    sent = {**dict.fromkeys(DESTINATION), **DATA, "groupInfo": IN_GROUP}
    group = parsed({"sentMessage": sent}, "syncMessage", by=ME.id)
    assert (group.address.chat_id, group.addressed) == (GROUP, False)
    own = {"id": 1, "author": NUMBER, "authorNumber": NUMBER, "authorUuid": ME.id, "text": "I"}
    reply = parsed({"sentMessage": {**sent, "quote": own}}, "syncMessage", by=ME.id)
    assert not reply.addressed, "the owner may have written what is quoted"


async def test_the_stream_keeps_the_event_of_a_cancelled_receiver_and_connects_again():
    arrived = asyncio.Queue[bytes]()

    async def stream() -> AsyncGenerator[bytes]:
        while data := await arrived.get():
            yield data
        raise Lost("gone", arrived=False)

    updates = EventStream(stream)
    await updates.open(0)
    waiting = asyncio.ensure_future(updates.first())
    await asyncio.wait([waiting], timeout=0)
    waiting.cancel()
    arrived.put_nowait(b"one")
    await updates.open(0)
    assert [await updates.first() for _ in range(2)] == [b"one", b"one"]
    for data in (b"two", b"", b"three"):
        arrived.put_nowait(data)
    updates.recorded()
    assert await updates.first() == b"two"
    updates.recorded()
    with pytest.raises(Lost, match="gone"):
        await updates.first()
    await updates.open(1)
    assert await updates.first() == b"three"
    updates.recorded()
    waiting = asyncio.ensure_future(updates.first())
    await asyncio.wait([waiting], timeout=0)
    await updates.close()
    updates.recorded()
    with pytest.raises(Lost, match="it was closed"):
        await waiting
