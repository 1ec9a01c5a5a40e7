"""Discord's gateway: which failures begin a new session, how many may begin, and which failures are
final. Hours pass on a clock that jumps."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import pytest

from segue.core.errors import ConnectFailed, SetupNeeded
from segue.testing.clock import JumpingLoop
from segue.testing.contract.connection import kept_connected
from segue.testing.contract.rig import part, reading
from segue.testing.http import bind
from segue.testing.peers import Outage
from tests.fakes.discord import Settings, serving
from tests.rigs.discord.contract import AnnaOnDiscord, Shape

PATIENT = (41.25, 1e9)
"""Heartbeats come from a thread, for which no time passes."""


def run(test: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(test)


@contextlib.asynccontextmanager
async def connected(**settings: Any) -> AsyncGenerator[AnnaOnDiscord]:
    """A rig on a fake in this event loop."""
    async with serving(Settings(heartbeats=PATIENT, **settings)) as peer, peer.driver() as driver:
        rig = AnnaOnDiscord(peer, driver, await driver.user("Anna"))
        await rig.adapter.connect()
        yield rig
        await rig.adapter.close()
        assert await driver.errors() == ()


def refusing() -> socket.socket:
    """A port that refuses connections."""
    return bind()


def silent() -> socket.socket:
    """A port that accepts connections, and says nothing."""
    port = bind()
    port.listen()
    return port


@pytest.mark.parametrize("place", [refusing, silent])
def test_a_session_that_cannot_be_resumed_at_its_own_url_is_replaced_by_a_new_one(place: Any):
    with place() as port:
        run(_cut_off(f"ws://127.0.0.1:{port.getsockname()[1]}"))


async def _cut_off(resume_url: str) -> None:
    async with connected(resume_url=resume_url) as rig:
        at = await rig.place(Shape.DM)
        async with kept_connected(rig.adapter) as link:
            await rig.say(at, "before")
            address = (await link.received("before")).address
            await rig.adapter.send(address, part("I am here."), key="1")
            await rig.driver.cut(4000)
            await rig.say(at, "after")
            await link.received("after")
        assert (await rig.driver.look()).identified == 2


def test_sessions_that_are_invalidated_after_ready_begin_less_and_less_often():
    async def test() -> None:
        async with connected(start_seconds=5.0) as rig:
            await rig.driver.fail_connections(Outage.TOO_MANY)
            async with kept_connected(rig.adapter):
                await asyncio.sleep(30)
                assert 2 < (await rig.driver.look()).identified <= 1 + 6
                await asyncio.sleep(60 * 60)
                assert 30 < (await rig.driver.look()).identified <= 1 + 6 + 90

    run(test())


def test_no_session_begins_when_the_start_limit_is_used_up():
    async def test() -> None:
        day = 24 * 60 * 60
        async with connected(starts=3) as rig:
            at = await rig.place(Shape.DM)
            await rig.driver.fail_connections(Outage.TOO_MANY)
            async with kept_connected(rig.adapter) as link:
                await asyncio.sleep(day / 2)
                assert (await rig.driver.look()).identified == 3
                await rig.driver.recover()
                await asyncio.sleep(day / 4)
                assert (await rig.driver.look()).identified == 3
                await asyncio.sleep(day / 4 + 120)
                assert (await rig.driver.look()).identified == 4
                await rig.say(at, "after")
                await link.received("after")

    run(test())


def test_a_used_up_start_limit_is_named():
    async def test() -> None:
        async with connected(starts=1) as rig:
            await rig.adapter.close()
            with pytest.raises(ConnectFailed, match="more sessions today") as caught:
                await rig.adapter.connect()
            assert caught.value.after == pytest.approx(24 * 60 * 60, abs=60)

    run(test())


def test_two_sessions_of_one_process_begin_five_seconds_apart():
    async def test() -> None:
        async with connected(start_seconds=5.0) as rig:
            at = await rig.place(Shape.DM)
            async with reading(rig.adapter) as reader:
                await rig.driver.cut(4009, forget=True)
                await rig.say(at, "this session is new")
                waiting = asyncio.ensure_future(reader.next())
                await rig.driver.until(lambda shown: shown.connected == 1)
                assert (await rig.driver.look()).identified == 2
                await rig.say(at, "hello")
                assert (await waiting).text == "hello"

    run(test())


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (4004, "the token is not right"),
        (4010, "install a newer one"),
        (4011, "install a newer one"),
        (4012, "install a newer one"),
        (4013, "install a newer one"),
        (4014, "Message Content Intent is off"),
    ],
)
def test_after_a_final_close_code_there_is_no_other_attempt(code: int, says: str):
    async def test() -> None:
        async with connected() as rig:
            async with reading(rig.adapter) as reader:
                await rig.driver.cut(code)
                with pytest.raises(SetupNeeded, match=says):
                    await reader.next()
            await rig.adapter.close()
            await rig.adapter.connect()
            async with kept_connected(rig.adapter):
                before = (await rig.driver.look()).identified
                await rig.driver.cut(code)
                await asyncio.sleep(24 * 60 * 60)
                assert (await rig.driver.look()).identified == before

    run(test())


@pytest.mark.parametrize("code", [1000, 1001, 4000, 4001, 4002, 4003, 4005, 4007, 4008, 4009, 4999])
def test_after_any_other_close_code_the_bot_hears_again(code: int):
    async def test() -> None:
        async with connected() as rig:
            at = await rig.place(Shape.DM)
            async with kept_connected(rig.adapter) as link:
                await rig.driver.cut(code)
                await rig.say(at, "after")
                await link.received("after")

    run(test())
