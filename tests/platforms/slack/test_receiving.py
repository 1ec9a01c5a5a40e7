"""What is heard on Slack: acknowledged when it is recorded, over connections that come and go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable

import pytest

from segue.core.errors import ConnectFailed
from segue.platforms.base import Adapter, Inbound
from segue.platforms.slack import socket
from segue.platforms.slack.parser import address
from segue.testing.contract.rig import Place, home_of, listening
from segue.testing.slack import BOT, COMMAND, Settings
from tests.platforms.slack.rig import Shape, SlackRig

BRISK = Settings(ack_seconds=0.05, retry_seconds=(0.0, 0.05))


async def settle(rig: SlackRig, following: Awaitable[object]) -> None:
    """Ask for the next update, so that the last one is recorded, and stop listening."""
    asked = asyncio.ensure_future(following)
    await rig.driver.until(lambda shown: shown.unconfirmed == 0)
    asked.cancel()
    await asyncio.wait([asked])


async def test_an_event_is_acknowledged_when_it_is_recorded(rig: SlackRig):
    at = await rig.place(Shape.DM)
    async with contextlib.aclosing(rig.adapter.receive()) as coming:
        await rig.say(at, "hello")
        while (heard := await anext(coming)) is None:
            pass
        assert heard.text == "hello"
        assert (await rig.driver.look()).unconfirmed == 1
        await settle(rig, anext(coming))


async def test_an_event_that_is_recorded_late_comes_again_and_is_the_same(rig: SlackRig):
    await rig.driver.settings(BRISK)
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        await rig.say(at, "hello")
        first = await ear.next()
        await rig.driver.until(lambda shown: bool(shown.failed))
        await rig.say(at, "and on")
        heard = [await ear.next()]
        while heard[-1].text == "hello":
            heard.append(await ear.next())
    assert {it.update_id for it in heard[:-1]} <= {first.update_id}
    assert heard[-1].text == "and on"


async def test_a_command_is_acknowledged_in_time_even_if_it_is_not_recorded(
    rig: SlackRig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(socket, "ACK_SECONDS", 0.05)
    at = await rig.place(Shape.CHANNEL)
    async with listening(rig.adapter) as ear:
        await rig.driver.command(rig.anna, at.chat, COMMAND, "status")
        assert (await ear.next()).text == "/status"
        await rig.driver.until(lambda shown: shown.unconfirmed == 0)
        await rig.say(at, "and on")
        assert (await ear.next()).text == "and on"
    assert (await rig.driver.look()).failed == ()


async def test_the_names_of_the_sender_and_of_the_channel_are_asked_for_once(rig: SlackRig):
    at = await rig.place(Shape.PRIVATE)
    async with listening(rig.adapter) as ear:
        for _ in range(3):
            await rig.say(at, "hello")
        heard = [await ear.next() for _ in range(3)][-1]
    assert heard.sender.name == "Anna"
    assert heard.chat_name.startswith("#")
    assert heard.readers == f"the members of {heard.chat_name}"
    calls = (await rig.driver.look()).calls
    assert calls["users.info"] == calls["conversations.info"] == 1


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_connection_is_replaced_before_slack_closes_it(rig: SlackRig, reason: str):
    await rig.driver.settings(Settings(leave_seconds=0.2))
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        await home_of(rig, ear, at)
        asked = asyncio.ensure_future(ear.next())
        await rig.driver.disconnect(reason)
        await rig.driver.until(lambda shown: shown.calls["apps.connections.open"] == 2)
        await rig.driver.until(lambda shown: shown.sockets == 1)
        await rig.say(at, "still there?")
        assert (await asked).text == "still there?"


async def test_what_comes_over_two_connections_is_heard_once_and_in_order(rig: SlackRig):
    await rig.driver.settings(Settings(leave_seconds=30.0))
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        await rig.driver.disconnect()
        await rig.driver.until(lambda shown: shown.calls["apps.connections.open"] == 2)
        for number in range(20):
            await rig.say(at, str(number))
        assert [(await ear.next()).text for _ in range(20)] == [*map(str, range(20))]


LOST = Settings(retry_seconds=())
"""Slack delivers nothing again, as after six minutes."""


async def heard_by(adapter: Adapter, count: int) -> list[Inbound]:
    async with listening(adapter) as ear:
        return [await ear.next() for _ in range(count)]


@pytest.mark.parametrize("shape", [Shape.CHANNEL, Shape.DM])
async def test_what_was_written_while_the_adapter_was_away_is_read_in_order(
    rig: SlackRig, shape: Shape
):
    at = await rig.place(shape)
    async with listening(rig.adapter) as ear:
        await rig.say(at, f"<@{BOT.id}> before")
        home = (await ear.next()).address
        thread = await rig.adapter.create_handoff_thread(home, "Boats", key="1")
        assert thread is not None
        await settle(rig, ear.next())
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
    rig: SlackRig,
):
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        await rig.say(at, "recorded")
        first = await ear.next()
        await rig.driver.command(rig.anna, at.chat, COMMAND, "status")
        command = await ear.next()
        await settle(rig, ear.next())
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


async def test_without_the_scopes_the_history_is_not_read(rig: SlackRig):
    few = tuple(it for it in Settings().scopes if not it.endswith(":history"))
    await rig.driver.settings(Settings(scopes=few))
    at = await rig.place(Shape.DM)
    await rig.adapter.connect()
    rig.adapter.remember({address(at.chat): ""})
    async with listening(rig.adapter) as ear:
        await rig.say(at, "new")
        assert (await ear.next()).text == "new"
    assert "conversations.history" not in (await rig.driver.look()).calls


async def test_socket_mode_that_is_turned_off_ends_the_connection(rig: SlackRig):
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        await home_of(rig, ear, at)
        asked = asyncio.ensure_future(ear.next())
        await rig.driver.settings(Settings(app_scopes=(), leave_seconds=0.0))
        await rig.driver.disconnect("link_disabled")
        with pytest.raises(ConnectFailed):
            await asked
    with pytest.raises(ConnectFailed, match="app-level token"):
        await rig.adapter.connect()
    await rig.driver.settings(Settings())


async def test_the_preview_of_a_link_changes_nothing(rig: SlackRig):
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        said = await rig.say(at, "https://example.com")
        first = await ear.next()
        await rig.driver.unfurl(at.chat, said)
        again = await ear.next()
        assert (again.text, again.message_id) == (first.text, first.message_id)
