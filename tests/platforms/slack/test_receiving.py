"""What is heard on Slack: acknowledged when it is recorded, over connections that come and go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from datetime import UTC, datetime

import pytest

from segue.core.errors import ConnectFailed
from segue.platforms import backlog
from segue.platforms.base import Adapter, Button, Inbound, InboundKind
from segue.platforms.slack import socket, updates
from segue.platforms.slack.updates import MENTIONS, address
from segue.system import backoff
from segue.testing.contract.history import only
from segue.testing.contract.rig import Place, home_of, part, reading
from tests.fakes.slack import BOT, COMMAND, OTHER_TEAM, Kind, Settings, Trouble
from tests.rigs.slack.contract import LOST, AnnaOnSlack, Shape

BRISK = Settings(ack_seconds=0.05, retry_seconds=(0.0, 0.05))


async def settle(rig: AnnaOnSlack, following: Awaitable[object]) -> None:
    """Ask for the next update, so that the last one is recorded, and stop listening."""
    asked = asyncio.ensure_future(following)
    await rig.driver.until(lambda shown: shown.unconfirmed == 0)
    asked.cancel()
    await asyncio.wait([asked])


async def test_an_event_is_acknowledged_when_it_is_recorded(rig: AnnaOnSlack):
    at = await rig.place(Shape.DM)
    async with contextlib.aclosing(rig.adapter.receive()) as coming:
        await rig.say(at, "hello")
        while (heard := await anext(coming)) is None:
            pass
        assert heard.text == "hello"
        assert (await rig.driver.look()).unconfirmed == 1
        await settle(rig, anext(coming))


async def test_an_event_that_is_recorded_late_comes_again_and_is_the_same(rig: AnnaOnSlack):
    await rig.driver.settings(BRISK)
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "hello")
        first = await reader.next()
        await rig.driver.until(lambda shown: bool(shown.failed))
        await rig.say(at, "and on")
        heard = [await reader.next()]
        while heard[-1].text == "hello":
            heard.append(await reader.next())
    assert {it.update_id for it in heard[:-1]} <= {first.update_id}
    assert heard[-1].text == "and on"


async def test_a_command_is_acknowledged_in_time_even_if_it_is_not_recorded(
    rig: AnnaOnSlack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(socket, "ACK_SECONDS", 0.05)
    at = await rig.place(Shape.CHANNEL)
    async with reading(rig.adapter) as reader:
        await rig.driver.command(rig.anna, at.chat, COMMAND, "status")
        assert (await reader.next()).text == "/status"
        await rig.driver.until(lambda shown: shown.unconfirmed == 0)
        await rig.say(at, "and on")
        assert (await reader.next()).text == "and on"
    assert (await rig.driver.look()).failed == ()


async def test_the_names_of_the_sender_and_of_the_channel_are_asked_for_once(rig: AnnaOnSlack):
    at = await rig.place(Shape.PRIVATE)
    async with reading(rig.adapter) as reader:
        for _ in range(3):
            await rig.say(at, "hello")
        heard = [await reader.next() for _ in range(3)][-1]
    assert heard.sender.name == "Anna"
    assert heard.chat_name.startswith("#")
    assert heard.readers == f"the members of {heard.chat_name}"
    calls = (await rig.driver.look()).calls
    assert calls["users.info"] == calls["conversations.info"] == 1


@pytest.mark.parametrize("trouble", [Trouble.BUSY, Trouble.HANG])
async def test_an_update_does_not_wait_for_a_name(
    rig: AnnaOnSlack, monkeypatch: pytest.MonkeyPatch, trouble: Trouble
):
    at = await rig.place(Shape.CHANNEL)
    await rig.driver.fail("users.info", trouble, seconds=0.0)
    async with reading(rig.adapter) as reader:
        with monkeypatch.context() as impatient:
            impatient.setattr(updates, "NAME_SECONDS", 0.05)
            await rig.say(at, "hello")
            assert (await reader.next()).sender.name == ""
        await rig.say(at, "and on")
        assert (await reader.next()).sender.name == "Anna"


async def test_strangers_cause_no_calls_for_names(rig: AnnaOnSlack):
    at = await rig.place(Shape.CHANNEL)
    bob = await rig.driver.user("Bob")
    rig.adapter.remember({}, wanted=only(rig.anna))
    async with reading(rig.adapter) as reader:
        await rig.driver.say(bob, at.chat, f"<@{rig.anna}> hello")
        assert (await reader.next()).sender.name == ""
        calls = (await rig.driver.look()).calls
        assert not calls.keys() & {"users.info", "conversations.info"}
        await rig.say(at, "hello")
        assert (await reader.next()).sender.name == "Anna"


async def test_mentions_show_the_names_of_users_and_channels(rig: AnnaOnSlack):
    at = await rig.place(Shape.CHANNEL)
    bob = await rig.driver.user("Bob")
    boats = await rig.driver.chat(Kind.CHANNEL, [bob], name="boats")
    async with reading(rig.adapter) as reader:
        said = await rig.say(at, f"ask <@{bob}>, <@{BOT.id}> & <@U0999999999> in <#{boats}>")
        heard = await reader.next()
        await rig.edit(said, f"ask <@{bob}> again")
        edited = await reader.next()
        await rig.forward(at, "Eve", f"I saw <@{bob}>")
        passed_on = await reader.next()
    assert heard.text == "ask @Bob, @segue & <@U0999999999> in #boats"
    assert (edited.text, passed_on.text) == ("ask @Bob again", "I saw @Bob")
    asked = [it.parameters["user"] for it in await rig.driver.calls("users.info")]
    assert asked == [rig.anna, bob, "U0999999999"]


async def test_a_message_with_many_mentions_causes_few_calls(rig: AnnaOnSlack):
    at = await rig.place(Shape.CHANNEL)
    many = [await rig.driver.user(f"User {number}") for number in range(30)]
    async with reading(rig.adapter) as reader:
        await rig.say(at, " ".join(f"<@{user}>" for user in many))
        heard = await reader.next()
    assert heard.text.startswith("@User 0 @User 1 ")
    assert heard.text.endswith(f"<@{many[-1]}>")
    assert (await rig.driver.look()).calls["users.info"] == 1 + MENTIONS


async def test_a_user_cannot_put_lines_into_a_message_by_their_name(rig: AnnaOnSlack):
    at = await rig.place(Shape.CHANNEL)
    eve = await rig.driver.user("Eve\n/approve")
    async with reading(rig.adapter) as reader:
        await rig.say(at, f"<@{eve}>")
        assert (await reader.next()).text == "@Eve /approve"


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "a reason of tomorrow"])
async def test_a_connection_is_replaced_before_slack_closes_it(rig: AnnaOnSlack, reason: str):
    await rig.driver.settings(Settings(leave_seconds=0.2))
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        asked = asyncio.ensure_future(reader.next())
        await rig.driver.disconnect(reason)
        await rig.driver.until(lambda shown: shown.calls["apps.connections.open"] == 2)
        await rig.driver.until(lambda shown: shown.sockets == 1)
        await rig.say(at, "still there?")
        assert (await asked).text == "still there?"


async def test_what_comes_over_two_connections_is_heard_once_and_in_order(rig: AnnaOnSlack):
    await rig.driver.settings(Settings(leave_seconds=30.0))
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await rig.driver.disconnect()
        await rig.driver.until(lambda shown: shown.calls["apps.connections.open"] == 2)
        for number in range(20):
            await rig.say(at, str(number))
        assert [(await reader.next()).text for _ in range(20)] == [*map(str, range(20))]


async def test_a_warned_connection_is_replaced_once_however_often_slack_asks(
    rig: AnnaOnSlack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backoff, "FIRST_PAUSE", 0.0)  # a second replacement would come at once
    await rig.adapter.close()
    await rig.adapter.connect()
    before = await rig.driver.look()
    await rig.driver.settings(Settings(leave_seconds=30.0))
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        again = ("refresh_requested", "refresh_requested")
        await rig.driver.disconnect("warning", then=again)
        await rig.driver.until(lambda shown: shown.sockets == 1)
        await rig.say(at, "still there?")
        assert (await reader.next()).text == "still there?"
    shown = await rig.driver.look()
    assert shown.calls["apps.connections.open"] - before.calls["apps.connections.open"] == 1
    assert (shown.connections - before.connections, shown.most_connections) == (1, 2)


async def test_a_replacement_that_slack_refuses_is_tried_again_while_the_old_one_is_open(
    rig: AnnaOnSlack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backoff, "FIRST_PAUSE", 0.01)
    await rig.adapter.close()
    await rig.adapter.connect()
    await rig.driver.settings(Settings(leave_seconds=30.0, most_sockets=1))
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        asked = asyncio.ensure_future(reader.next())
        await rig.driver.disconnect("warning")
        await rig.driver.until(lambda shown: shown.calls["apps.connections.open"] >= 4)
        await rig.driver.settings(Settings(leave_seconds=30.0))
        await rig.driver.until(lambda shown: shown.sockets == 1)
        await rig.say(at, "still there?")
        assert (await asked).text == "still there?"
    assert (await rig.driver.look()).most_connections == 2


async def test_no_more_than_one_old_connection_is_kept(
    rig: AnnaOnSlack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backoff, "FIRST_PAUSE", 0.01)
    await rig.adapter.close()
    await rig.adapter.connect()
    await rig.driver.settings(Settings(leave_seconds=30.0))
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        for number in range(3, 8):
            await rig.driver.disconnect("warning")
            await rig.driver.disconnect("refresh_requested")
            await rig.driver.until(lambda it: it.sockets == 1)
            assert (await rig.driver.look()).calls["apps.connections.open"] == number
            await rig.say(at, str(number))
            assert (await reader.next()).text == str(number)
    assert (await rig.driver.look()).most_connections == 2


async def test_too_many_connections_are_reported_by_name(rig: AnnaOnSlack):
    await rig.adapter.close()
    await rig.driver.settings(Settings(most_sockets=0))
    with pytest.raises(ConnectFailed, match="more connections than Slack allows"):
        await rig.adapter.connect()
    await rig.driver.settings(Settings())
    await rig.adapter.connect()


async def heard_by(adapter: Adapter, count: int) -> list[Inbound]:
    async with reading(adapter) as reader:
        return [await reader.next() for _ in range(count)]


@pytest.mark.parametrize("shape", [Shape.CHANNEL, Shape.DM])
async def test_what_was_written_while_the_adapter_was_away_is_read_in_order(
    rig: AnnaOnSlack, shape: Shape
):
    at = await rig.place(shape)
    async with reading(rig.adapter) as reader:
        await rig.say(at, f"<@{BOT.id}> before")
        home = (await reader.next()).address
        thread = await rig.adapter.create_handoff_thread(home, "Boats", key="1")
        assert thread is not None
        await settle(rig, reader.next())
    await rig.driver.settings(LOST)
    await rig.driver.down()
    for text in ("one", "two"):
        for place in (at, Place(at.chat, thread.thread_id)):
            await rig.say(place, text)
    await rig.driver.up()
    await rig.adapter.connect()
    missed = [(it.text, it.address) for it in await heard_by(rig.adapter, 4)]
    assert [it for it in missed if it[1] == home] == [("one", home), ("two", home)]
    assert [it for it in missed if it[1] == thread] == [("one", thread), ("two", thread)]


async def test_a_new_process_reads_what_was_written_after_the_last_recorded_message(
    rig: AnnaOnSlack,
):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "recorded")
        first = await reader.next()
        await rig.driver.command(rig.anna, at.chat, COMMAND, "status")
        command = await reader.next()
        await settle(rig, reader.next())
    await rig.adapter.close()
    await rig.driver.settings(LOST)
    await rig.say(at, "missed")
    for last, count in ((first.update_id, 1), (command.update_id, 2), ("", 2)):
        restarted = rig.another()
        await restarted.connect()
        restarted.remember({first.address: last})
        *before, missed = await heard_by(restarted, count)
        assert (missed.text, before) == ("missed", [first][: count - 1])
        await restarted.close()


async def away(rig: AnnaOnSlack, shape: Shape = Shape.CHANNEL) -> tuple[Place, Inbound]:
    """A chat, and the last update in it that is recorded. The adapter is away."""
    at = await rig.place(shape)
    async with reading(rig.adapter) as reader:
        await rig.say(at, f"<@{BOT.id}> before")
        last = await reader.next()
        await settle(rig, reader.next())
    await rig.adapter.close()
    await rig.driver.settings(LOST)
    return at, last


async def back(rig: AnnaOnSlack, last: Inbound) -> Adapter:
    """The adapter of a new process, which wants what Anna writes."""
    adapter = await rig.restarted()
    adapter.remember({last.address: last.update_id}, wanted=only(rig.anna))
    return adapter


async def test_a_mention_that_is_followed_by_a_thousand_messages_of_others_is_heard(
    rig: AnnaOnSlack,
):
    at, last = await away(rig)
    await rig.say(at, f"<@{BOT.id}> where are you?")
    await rig.others(at, 1_100)
    [found] = await heard_by(await back(rig, last), 1)
    assert found.text == "where are you?"
    calls = (await rig.driver.look()).calls
    assert calls["conversations.history"] <= 8
    assert calls["users.info"] == 2, "Anna's, in two processes, and nobody else's"


async def test_an_app_with_small_pages_reads_all_of_them(rig: AnnaOnSlack):
    at, last = await away(rig)
    await rig.driver.settings(Settings(retry_seconds=(), page=15))
    for number in range(20):
        await rig.say(at, str(number))
        await rig.others(at, 2)
    found = await heard_by(await back(rig, last), 20)
    assert [it.text for it in found] == [*map(str, range(20))]


async def test_what_a_slow_app_cannot_read_in_time_is_reported(
    rig: AnnaOnSlack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backlog, "SECONDS", 50.0)  # it would have to wait for a minute
    at, last = await away(rig)
    await rig.driver.settings(Settings(retry_seconds=(), page=15, page_seconds=60.0))
    for number in range(20):
        await rig.say(at, str(number))
    gap, *found = await heard_by(await back(rig, last), 16)
    assert (gap.kind, gap.address) == (InboundKind.GAP, last.address)
    assert [it.text for it in found] == [*map(str, range(5, 20))]


async def test_an_assistant_thread_that_began_meanwhile_is_read(rig: AnnaOnSlack):
    at, last = await away(rig, Shape.DM)
    thread = await rig.driver.assist(rig.anna)
    await rig.say(Place(at.chat, thread), "in a new thread")
    [found] = await heard_by(await back(rig, last), 1)
    assert (found.text, found.address) == ("in a new thread", address(at.chat, thread))


async def test_an_old_thread_of_a_direct_message_is_read_although_nothing_is_recorded_there(
    rig: AnnaOnSlack,
):
    at = await rig.place(Shape.DM)
    thread = await rig.driver.assist(rig.anna)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "recorded")
        last = await reader.next()
        await settle(rig, reader.next())
    await rig.adapter.close()
    await rig.driver.settings(LOST)
    await rig.say(Place(at.chat, thread), "in an old thread")
    [found] = await heard_by(await back(rig, last), 1)
    assert (found.text, found.address) == ("in an old thread", address(at.chat, thread))


async def test_threads_that_began_meanwhile_are_read_if_the_owner_began_them(rig: AnnaOnSlack):
    at, last = await away(rig)
    bob = await rig.driver.user("Bob")
    theirs = await rig.driver.say(bob, at.chat, "a thread of others")
    await rig.driver.say(bob, at.chat, "a reply of others", thread=theirs)
    root = await rig.say(at, "a thread of mine")
    await rig.say(Place(at.chat, root), f"<@{BOT.id}> look here")
    found = await heard_by(await back(rig, last), 2)
    assert [it.text for it in found] == ["a thread of mine", "look here"]
    assert found[1].address == address(at.chat, root)
    assert (await rig.driver.look()).calls["conversations.replies"] == 1


async def test_threads_of_a_direct_message_are_found_again_after_a_restart_in_the_middle(
    rig: AnnaOnSlack,
):
    at, last = await away(rig, Shape.DM)
    contact = datetime.now(UTC)
    thread = await rig.driver.assist(rig.anna)
    await rig.say(Place(at.chat, thread), "in a new thread")
    await rig.say(at, "later")
    recorded = {last.address: last.update_id}
    adapter = await rig.restarted()
    adapter.remember(recorded, contact=contact, wanted=only(rig.anna))
    [later] = await heard_by(adapter, 1)
    assert later.text == "later"
    recorded[later.address] = later.update_id
    adapter = await rig.restarted()
    adapter.remember(recorded, contact=contact, wanted=only(rig.anna))
    [found] = await heard_by(adapter, 1)
    assert (found.text, found.address) == ("in a new thread", address(at.chat, thread))


async def test_without_the_scopes_the_history_is_not_read(rig: AnnaOnSlack):
    few = tuple(it for it in Settings().scopes if not it.endswith(":history"))
    await rig.driver.settings(Settings(scopes=few))
    at = await rig.place(Shape.DM)
    await rig.adapter.connect()
    rig.adapter.remember({address(at.chat): ""})
    async with reading(rig.adapter) as reader:
        await rig.say(at, "new")
        assert (await reader.next()).text == "new"
    assert "conversations.history" not in (await rig.driver.look()).calls


async def test_socket_mode_that_is_turned_off_ends_the_connection(rig: AnnaOnSlack):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        asked = asyncio.ensure_future(reader.next())
        await rig.driver.settings(Settings(app_scopes=(), leave_seconds=0.0))
        await rig.driver.disconnect("link_disabled")
        with pytest.raises(ConnectFailed, match="Socket Mode is off"):
            await asked
    with pytest.raises(ConnectFailed, match="app-level token"):
        await rig.adapter.connect()
    await rig.driver.settings(Settings())


async def test_the_preview_of_a_link_changes_nothing(rig: AnnaOnSlack):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        said = await rig.say(at, "https://example.com")
        first = await reader.next()
        await rig.driver.unfurl(at.chat, said)
        again = await reader.next()
        assert (again.text, again.message_id) == (first.text, first.message_id)


async def test_a_member_of_another_workspace_with_the_owners_id_is_ignored(rig: AnnaOnSlack):
    at = await rig.place(Shape.CHANNEL)
    await rig.driver.share_channel(at.chat)
    buttons = [Button("Yes", "y")]
    async with reading(rig.adapter) as reader:
        question = await rig.adapter.send(address(at.chat), part("?"), key="1", buttons=buttons)
        theirs = await rig.driver.say(rig.anna, at.chat, "their words", team=OTHER_TEAM)
        await rig.driver.edit(at.chat, theirs, "their new words")
        await rig.driver.press(rig.anna, at.chat, question, "Yes", team=OTHER_TEAM)
        await rig.driver.delete(at.chat, theirs)
        for joined in (False, True):  # Slack does not say whose id the inviter's is
            await rig.driver.rights(rig.anna, at.chat, joined=joined)
        mine = await rig.say(at, "my words")
        await rig.edit(mine, "my new words")
        await rig.driver.press(rig.anna, at.chat, question, "Yes")
        await rig.delete(mine)
        heard = [await reader.next() for _ in range(4)]
    assert [(it.kind, it.text) for it in heard] == [
        (InboundKind.MESSAGE, "my words"),
        (InboundKind.EDIT, "my new words"),
        (InboundKind.BUTTON, "y"),
        (InboundKind.DELETED, ""),
    ]


async def test_what_another_workspace_wrote_during_an_absence_is_ignored(rig: AnnaOnSlack):
    at, last = await away(rig)
    await rig.driver.share_channel(at.chat)
    theirs = await rig.driver.say(rig.anna, at.chat, "their words", team=OTHER_TEAM)
    await rig.driver.say(rig.anna, at.chat, "their reply", thread=theirs, team=OTHER_TEAM)
    await rig.say(at, "my words")
    [found] = await heard_by(await back(rig, last), 1)
    assert found.text == "my words"
    assert "conversations.replies" not in (await rig.driver.look()).calls


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_missed_message_without_a_workspace_counts_only_if_its_channel_is_not_shared(
    rig: AnnaOnSlack, *, is_shared: bool
):
    at, last = await away(rig)
    if is_shared:
        await rig.driver.share_channel(at.chat)
    await rig.driver.say(rig.anna, at.chat, "from somewhere", team="")
    await rig.say(at, "my words")
    found = await heard_by(await back(rig, last), 1 if is_shared else 2)
    assert [it.text for it in found] == ["from somewhere", "my words"][is_shared:]


async def test_a_missed_message_without_a_workspace_is_ignored_if_the_app_may_not_ask(
    rig: AnnaOnSlack,
):
    at, last = await away(rig)
    few = tuple(it for it in Settings().scopes if it != "channels:read")
    await rig.driver.settings(Settings(scopes=few, retry_seconds=()))
    await rig.driver.say(rig.anna, at.chat, "from somewhere", team="")
    await rig.say(at, "my words")
    [found] = await heard_by(await back(rig, last), 1)
    assert found.text == "my words"
