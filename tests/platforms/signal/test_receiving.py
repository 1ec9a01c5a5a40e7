"""What users do on Signal, and what the adapter makes of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from segue.platforms.base import Inbound, InboundKind
from segue.platforms.signal.parser import Parser
from segue.testing.contract.rig import home_of, listening, part
from segue.testing.signal import ME, NUMBER, Kind, Peer, Settings
from tests.platforms.signal.rig import Place, Shape, SignalRig, plugged_in
from tests.platforms.signal.specimens import (
    DATA,
    DESTINATION,
    GROUP,
    IGNORED,
    IN_GROUP,
    UNREADABLE,
    event,
)

Do = Callable[[SignalRig, Place], Awaitable[object]]


def heard(runner: asyncio.Runner, rig: SignalRig, shape: Shape, do: Do) -> Inbound:
    """The first Inbound after what is done in a chat of that shape."""

    async def listen() -> Inbound:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            await do(rig, at)
            return await ear.next()

    return runner.run(listen())


def parsed(message: dict[str, Any], kind: str = "dataMessage", **more: Any) -> Inbound | None:
    parser = Parser({})
    parser.account = NUMBER
    return parser.parse(json.dumps(event(kind, message, **more).update).encode())


def test_a_mention_or_the_name_addresses_the_agent_in_a_group(
    rig: SignalRig, runner: asyncio.Runner
):
    async def listen() -> list[Inbound]:
        at = await rig.place(Shape.GROUP)
        bob = await rig.driver.user("Bob")
        async with listening(rig.adapter) as ear:
            await rig.driver.say(rig.anna, at.chat, "status", mention=ME.id)
            await rig.say(at, "@Segue, /status")
            await rig.driver.say(rig.anna, at.chat, "status", mention=bob)
            return [await ear.next() for _ in range(3)]

    found = runner.run(listen())
    assert [(it.text, it.addressed) for it in found] == [
        ("status", True),
        ("/status", True),
        ("@+49151000000029 status", False),
    ]
    assert found[0].readers == "the members of Group"


def test_a_second_edit_is_one_of_the_first_version(rig: SignalRig, runner: asyncio.Runner):
    async def listen() -> list[Inbound]:
        at = await rig.place(Shape.DM)
        async with listening(rig.adapter) as ear:
            said = await rig.say(at, "one")
            for text in ("two", "three"):
                await rig.edit(said, text)
            return [await ear.next() for _ in range(3)]

    first, second, third = runner.run(listen())
    assert (third.kind, third.text) == (InboundKind.EDIT, "three")
    assert first.message_id == second.message_id == third.message_id


@pytest.mark.parametrize("shape", Shape)
def test_a_reaction_names_our_message_also_after_an_edit(
    rig: SignalRig, runner: asyncio.Runner, shape: Shape
):
    async def listen() -> tuple[str, Inbound]:
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            receipt = await rig.adapter.send(home, part("Shall I?"), key="1")
            await rig.adapter.edit(home, receipt, part("Shall I now?"))
            hers = await rig.say(at, "hm")
            await ear.next()
            anna = ME.id if shape is Shape.SELF else rig.anna
            if shape is not Shape.SELF:  # there, all messages are the account's
                await rig.driver.react(anna, at.chat, hers, "👍")
            await rig.driver.react(anna, at.chat, receipt, "👎", remove=True)
            await rig.driver.react(anna, at.chat, receipt, "👍")
            return receipt, await ear.next()

    receipt, reaction = runner.run(listen())
    assert (reaction.kind, reaction.text) == (InboundKind.REACTION, "👍")
    assert (reaction.message_id, reaction.addressed) == (receipt, True)


def test_what_the_account_writes_to_others_and_what_is_no_message_is_ignored(
    rig: SignalRig, runner: asyncio.Runner
):
    async def do(rig: SignalRig, at: Place) -> None:
        await rig.driver.say(ME.id, at.chat, "/approve 1")
        await rig.inject(json.dumps(it) for it in IGNORED)
        await rig.driver.delete(at.chat, await rig.say(at, ""))
        await rig.say(at, "hello")

    assert heard(runner, rig, Shape.DM, do).text == "hello"


def test_an_unreadable_message_is_logged_with_the_way_out(
    rig: SignalRig, runner: asyncio.Runner, caplog: pytest.LogCaptureFixture
):
    async def do(rig: SignalRig, at: Place) -> None:
        await rig.inject([json.dumps(UNREADABLE)])
        await rig.say(at, "hello")

    with caplog.at_level(logging.WARNING):
        assert heard(runner, rig, Shape.DM, do).text == "hello"
    assert "reason=UntrustedIdentityException: type `segue doctor`" in caplog.text


def test_only_a_recorded_message_of_an_owner_is_marked_as_read(
    rig: SignalRig, runner: asyncio.Runner
):
    async def listen() -> list[bool]:
        at = await rig.place(Shape.DM)
        async with listening(rig.adapter) as ear:
            for text in ("of an owner", "of a stranger"):
                await rig.say(at, text)
            rig.adapter.acknowledge(await ear.next())
            assert not any(m.read for m in (await rig.driver.look()).messages)
            await ear.next()
            await rig.say(at, "next")
            await ear.next()
            await rig.driver.until(lambda shown: any(m.read for m in shown.messages))
        return [m.read for m in (await rig.driver.look()).messages]

    assert runner.run(listen()) == [True, False, False]


def test_a_daemon_that_always_receives_loses_what_is_written_meanwhile(
    peer: Peer, runner: asyncio.Runner
):
    """The document says so: only `--receive-mode on-connection` keeps it."""

    async def listen() -> tuple[str, bool]:
        async with plugged_in(peer, Settings(on_start=True)) as rig:
            at = await rig.place(Shape.DM)
            await rig.adapter.close()
            await rig.driver.down()
            await rig.driver.up()
            lost = await rig.say(at, "lost")
            await rig.adapter.connect()
            async with listening(rig.adapter) as ear:
                await rig.say(at, "heard")
                text = (await ear.next()).text
            shown = await rig.driver.look()
            return text, next(m.read for m in shown.messages if m.id == lost)

    assert runner.run(listen()) == ("heard", False)


def test_what_is_no_text_is_described():
    contact = {"name": {"given": "Bob", "family": "Bo"}, "phone": [{"value": "+49"}]}
    poll = {"question": "When?", "allowMultiple": False, "options": ["now", "later"]}
    none = {**DATA, "message": None}
    texts = [
        parsed({**none, "sticker": {"packId": "00", "stickerId": 1}}),
        parsed({**none, "contacts": [contact]}),
        parsed({**none, "pollCreate": poll}),
    ]
    assert [it and it.text for it in texts] == [
        "[A sticker]",
        "[A contact: Bob Bo, +49]",
        "[A poll: When?\n- now\n- later]",
    ]


def test_a_note_to_self_is_one_and_a_group_message_of_the_phone_must_name_the_agent():
    note = parsed({"sentMessage": {**DESTINATION, **DATA}}, "syncMessage", by=ME.id)
    assert note is not None
    assert (note.chat_name, note.address.chat_id, note.press_id) == ("Note to Self", ME.id, "")
    nobody = dict.fromkeys(DESTINATION)
    sent = {**nobody, **DATA, "groupInfo": IN_GROUP}
    group = parsed({"sentMessage": sent}, "syncMessage", by=ME.id)
    assert group is not None
    assert (group.address.chat_id, group.addressed) == (GROUP, False)
    own = {"id": 1, "author": NUMBER, "authorNumber": NUMBER, "authorUuid": ME.id, "text": "I"}
    reply = parsed({"sentMessage": {**sent, "quote": own}}, "syncMessage", by=ME.id)
    assert reply is not None
    assert not reply.addressed, "the owner may have written what is quoted"


def test_kinds_of_chats_are_those_of_the_fake():
    assert {*Shape} == {str(it) for it in Kind}
