"""What comes in from Discord: events, commands, buttons, and messages that were missed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from segue.core.errors import ConnectFailed, SetupNeeded
from segue.platforms.base import Button, Inbound, InboundKind, MenuEntry, Quote
from segue.platforms.discord import client, updates
from segue.platforms.discord.updates import Channel, Message
from segue.testing.contract.history import only
from segue.testing.contract.rig import part, reading
from tests.fakes.discord import BOT, Kind, Settings
from tests.rigs.discord.contract import AnnaOnDiscord, Shape, home_at
from tests.rigs.discord.specimens import ANNA, FILE, MESSAGE

HERE = Channel(id="1300000000000000003", type=0, name="team")
MENU = [MenuEntry("status", "Show the details"), MenuEntry("resume", "Go on")]
ME = str(BOT)
US = {**ANNA, "id": ME, "username": "segue", "global_name": None, "bot": True}


def heard(**fields: Any) -> Inbound | None:
    """The Inbound for a message with these fields."""
    message = msgspec.convert({**MESSAGE, **fields}, Message)
    return None if updates.is_ignored(message, ME) else updates.said(message, HERE, HERE, ME)


def words(**fields: Any) -> tuple[str, bool]:
    inbound = heard(**fields)
    assert inbound is not None
    return inbound.text, inbound.addressed


# Messages


@pytest.mark.parametrize(
    ("text", "mentions", "expected"),
    [
        ("hello", [], ("hello", False)),
        (f"<@{ME}> hello", [US], ("hello", True)),
        (f"<@!{ME}>, hello", [US], ("hello", True)),
        (f"hello <@{ME}>", [US], ("hello @segue", True)),
        (f"<@{ME}>", [US], ("@segue", True)),
        (f"ask <@{ANNA['id']}>", [ANNA], ("ask @Anna", False)),
        ("ask <@77>", [], ("ask <@77>", False)),
        # An address in the name of another user does not pass for the sender's.
        ("ask <@78>", [ANNA | {"id": "78", "global_name": "A https://b.c"}], ("ask @A b.c", False)),
        (f"<@{ME}> /status", [US], ("/status", True)),
    ],
)
def test_names_are_shown_and_the_bots_own_addresses_it(
    text: str, mentions: list[Any], expected: tuple[str, bool]
):
    assert words(content=text, mentions=mentions) == expected


async def test_mentioned_channels_have_their_names_and_those_of_strangers_cause_no_calls(
    rig: AnnaOnDiscord,
):
    at = await rig.place(Shape.TEXT)
    bob = await rig.driver.user("Bob")
    boats = await rig.driver.chat(Kind.TEXT, [int(rig.anna)])
    rig.adapter.remember({}, wanted=only(rig.anna))
    said = f"see <#{boats}>, <#77> and <#{boats}>"
    async with reading(rig.adapter) as reader:
        await rig.say(at, "hello")
        await reader.next()
        before = (await rig.driver.look()).calls["get_channel"]
        await rig.driver.say(bob, int(at.chat), said)
        assert (await reader.next()).text == said
        assert (await rig.driver.look()).calls["get_channel"] == before
        await rig.say(at, said)
        assert (await reader.next()).text == "see #team, <#77> and #team"


@pytest.mark.parametrize(
    "fields",
    [
        {"author": US},
        {"author": {**ANNA, "bot": True}},
        {"author": {**ANNA, "system": True}},
        {"webhook_id": "1300000000000000009"},
        {"content": ""},
        *({"type": kind} for kind in (1, 6, 7, 18, 20, 21, 23, 46)),
    ],
)
def test_what_no_user_wrote_is_ignored(fields: dict[str, Any]):
    assert heard(**fields) is None


def test_stickers_and_polls_are_told_in_words():
    answers = [{"answer_id": 1, "poll_media": {"text": "Yes"}}, {"poll_media": {"text": "No"}}]
    poll = {"question": {"text": "Sail?"}, "answers": answers, "expiry": None}
    stickers = [{"id": "13", "name": "Wave", "format_type": 1}]
    text, _ = words(content="Well?", poll=poll, sticker_items=stickers)
    assert text == "Well?\n[A sticker: Wave]\n[A poll: Sail?\n- Yes\n- No]"


def test_a_forwarded_message_brings_its_text_and_files_but_no_author():
    snapshot = {"message": {"content": "/approve", "attachments": [FILE], "type": 0}}
    inbound = heard(content="", message_snapshots=[snapshot])
    assert inbound is not None
    assert (inbound.text, inbound.typed, inbound.forwarded_from) == ("/approve", "", "")
    assert [file.name for file in inbound.attachments] == ["a.txt"]


def test_a_reply_to_the_bot_addresses_it():
    inbound = heard(type=19, referenced_message={**MESSAGE, "author": US, "content": "Shall I?"})
    assert inbound is not None
    assert inbound.addressed
    assert inbound.quote == Quote(
        author="segue", text="Shall I?", ours=True, message_id=MESSAGE["id"]
    )
    deleted = heard(type=19, referenced_message=None)
    assert deleted is not None
    assert deleted.quote is None


def test_only_a_fresh_edit_is_one():
    now = datetime(2026, 1, 3, tzinfo=UTC)
    inbound = heard()
    assert inbound is not None
    for age, expected in ((None, None), (timedelta(days=2), None), (timedelta(1), "edit")):
        at = None if age is None else (now - age).isoformat()
        message = msgspec.convert({**MESSAGE, "edited_timestamp": at}, Message)
        edit = updates.edited(message, inbound, now)
        assert (edit and edit.kind) == expected


async def test_a_link_preview_is_not_an_edit(rig: AnnaOnDiscord):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        said = await rig.say(at, "https://example.com")
        await reader.next()
        await rig.driver.unfurl(int(at.chat), int(said))
        await rig.say(at, "done")
        assert (await reader.next()).text == "done"


# Commands and buttons


async def test_commands_are_registered_once_in_direct_messages_and_in_every_server(
    rig: AnnaOnDiscord,
):
    await rig.place(Shape.TEXT)
    for menu, calls in ((MENU, 2), (MENU, 2), (MENU[:1], 4)):
        restarted = rig.another()
        await restarted.connect()
        await restarted.offer(menu)
        await restarted.close()
        shown = await rig.driver.look()
        assert shown.commands == {entry.name: entry.help for entry in menu}
        assert shown.calls["bulk_overwrite_commands"] == calls


async def test_a_server_that_the_bot_joins_gets_the_commands_at_once(rig: AnnaOnDiscord):
    await rig.adapter.offer(MENU)
    guild = await rig.driver.guild("Club")
    chat = await rig.driver.chat(Kind.TEXT, [int(rig.anna)], guild=guild)
    async with reading(rig.adapter) as reader:
        await rig.driver.say(int(rig.anna), chat, "hello")
        await reader.next()
        await rig.driver.until(lambda it: it.calls["bulk_overwrite_commands"] >= 3)
        await rig.driver.slash(int(rig.anna), chat, "/resume boats")
        command = await reader.next()
    assert (command.kind, command.text) == (InboundKind.COMMAND, "/resume boats")
    assert command.readers == "the members of #team"


@pytest.mark.parametrize("shape", [Shape.TEXT, Shape.DM])
async def test_commands_and_buttons_are_acknowledged(rig: AnnaOnDiscord, shape: Shape):
    at = await rig.place(shape)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "hello")
        home = (await reader.next()).address
        await rig.command(at, "/status")
        rig.adapter.acknowledge(await reader.next())
        await rig.adapter.send(home, part("Well?"), key="1", buttons=[Button("Yes", "y")])
        [seen] = await rig.seen("Well?")
        await rig.press(seen.id, "Yes")
        rig.adapter.acknowledge(await reader.next())
        shown = await rig.driver.until(lambda shown: len(shown.answered) == 2)
    [answer] = [it for it in shown.messages if it.only_for is not None]
    assert (answer.text, answer.only_for) == ("/status", int(rig.anna)), "nobody else sees it"


# The connection


@pytest.mark.parametrize("op", [7, 9])
@pytest.mark.parametrize("resumable", [True, False])
async def test_nothing_is_missed_when_discord_asks_to_reconnect(
    rig: AnnaOnDiscord, op: int, resumable: bool
):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "before")
        await reader.next()
        await rig.driver.signal(op, resumable=resumable)
        await rig.say(at, "during")
        assert (await reader.next()).text == "during"
        await rig.say(at, "after")
        assert (await reader.next()).text == "after"


async def test_a_gateway_that_answers_no_heartbeats_is_left_and_the_session_resumed(
    rig: AnnaOnDiscord, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client, "Library", partial(client.Library, heartbeat_timeout=0.3))
    await rig.driver.bot(Settings(heartbeats=(0.2, 60.0)))
    await rig.adapter.close()
    await rig.adapter.connect()
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        back = asyncio.ensure_future(reader.next())
        await rig.driver.silence()
        await rig.driver.until(lambda shown: shown.resumed > 0)
        await rig.driver.silence(on=False)
        await rig.say(at, "Are you back?")
        assert (await back).text == "Are you back?"


@pytest.mark.parametrize(("code", "forget"), [(4000, False), (4009, True), (None, True)])
async def test_what_was_written_without_a_session_is_read_later(
    rig: AnnaOnDiscord, code: int | None, forget: bool
):
    at = await rig.place(Shape.TEXT)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "This is home.")
        home = (await reader.next()).address
        thread = await rig.adapter.create_handoff_thread(home, "Work", key="1")
        assert thread is not None
        await rig.driver.hold()
        await rig.driver.cut(code, forget=forget)
        for text in ("one", "two"):
            await rig.driver.say(int(rig.anna), int(thread.thread_id or 0), text)
        await rig.driver.release()
        assert [(await reader.next()).text for _ in range(2)] == ["one", "two"]


async def test_a_new_process_reads_what_was_written_after_the_last_recorded_message(
    rig: AnnaOnDiscord,
):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "recorded")
        first = await reader.next()
    await rig.adapter.close()
    await rig.say(at, "missed")
    for recorded in ({first.address: first.update_id}, {first.address: f"{first.update_id} 2026"}):
        restarted = rig.another()
        await restarted.connect()
        restarted.remember(recorded)
        async with reading(restarted) as reader:
            assert (await reader.next()).text == "missed"
        await restarted.close()
    await rig.adapter.connect()


async def test_threads_that_began_meanwhile_are_read_if_the_owner_began_them(rig: AnnaOnDiscord):
    at = await rig.place(Shape.TEXT)
    anna = int(rig.anna)
    channel = int(at.chat)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "recorded")
        last = await reader.next()
    await rig.adapter.close()
    bob = await rig.driver.user("Bob")
    roots = [await rig.driver.say(user, channel, "a thread") for user in (bob, anna)]
    for root, user in zip(roots, (bob, anna), strict=True):
        await rig.driver.open_thread(user, channel, "Talk", source=root)
        await rig.driver.say(user, root, f"in a thread of {user}")
    adapter = await rig.restarted()
    adapter.remember({last.address: last.update_id}, wanted=only(rig.anna))
    async with reading(adapter) as reader:
        found = [await reader.next() for _ in range(2)]
    assert [it.text for it in found] == ["a thread", f"in a thread of {anna}"]
    assert found[1].address == replace(last.address, thread_id=str(roots[1]))


async def test_a_chat_with_nothing_recorded_is_read_for_the_last_day(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.DM)
    restarted = rig.another()
    await restarted.connect()
    restarted.remember({home: ""})
    async with reading(restarted) as reader:
        assert (await reader.next()).text == "This is home."
    await restarted.close()


async def test_a_frame_that_is_no_json_does_not_end_the_connection(rig: AnnaOnDiscord):
    at = await rig.place(Shape.DM)
    frames = ["{", "[]", "null", "7", '{"op": 0, "t": ["x"], "d": {}}', json.dumps({"op": "0"})]
    async with reading(rig.adapter) as reader:
        await rig.driver.inject(frames)
        await rig.say(at, "well")
        assert (await reader.next()).text == "well"
    assert (await rig.driver.look()).sessions == 1


async def test_a_missing_intent_is_named(rig: AnnaOnDiscord):
    await rig.adapter.close()
    await rig.driver.bot(Settings(content=False))
    with pytest.raises(SetupNeeded, match="Message Content Intent is off"):
        await rig.adapter.connect()
    await rig.driver.bot(Settings())
    await rig.adapter.connect()


async def test_a_revoked_token_is_named_by_a_connected_adapter(rig: AnnaOnDiscord):
    await rig.driver.bot(Settings(revoked=True))
    with pytest.raises(ConnectFailed, match="the token is not right"):
        async with reading(rig.adapter) as reader:
            await reader.next()
    await rig.driver.bot(Settings())
