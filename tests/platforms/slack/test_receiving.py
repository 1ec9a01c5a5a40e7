"""What is heard on Slack: acknowledged when it is recorded, over connections that come and go."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from segue.core.errors import ConnectFailed
from segue.platforms.slack import socket
from segue.testing.contract.rig import home_of, listening
from segue.testing.slack import COMMAND, Settings
from tests.platforms.slack.rig import Shape, SlackRig

BRISK = Settings(ack_seconds=0.05, retry_seconds=(0.0, 0.05))


async def test_an_event_is_acknowledged_when_it_is_recorded(rig: SlackRig):
    at = await rig.place(Shape.DM)
    async with contextlib.aclosing(rig.adapter.receive()) as coming:
        await rig.say(at, "hello")
        while (heard := await anext(coming)) is None:
            pass
        assert heard.text == "hello"
        assert (await rig.driver.look()).unconfirmed == 1
        asked = asyncio.ensure_future(anext(coming))
        await rig.driver.until(lambda shown: shown.unconfirmed == 0)
        asked.cancel()
        await asyncio.wait([asked])


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
