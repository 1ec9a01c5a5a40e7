"""Turns whose caller stops before their end."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import msgspec
import pytest

from segue.agent.models.scripted import Say
from segue.agent.tools.base import Workplace
from segue.agent.tools.shell import shell
from segue.core.events import (
    TextDelta,
    ToolFinished,
)
from segue.core.transcript import ToolCall, Transcript
from tests.agent.loop.scenario import (
    HI,
    WIRES,
    agent,
    call,
    holding,
    never,
    ours,
    rich,
    take,
    tool,
)


async def test_cancelling_the_task_ends_the_tools_and_leaves_no_task():
    running, ended = asyncio.Event(), list[str]()

    async def work() -> str:
        running.set()
        try:
            return await never()
        finally:
            ended.append("ended")

    calls = (call(1, "read"), call(2, "read"))
    turn = asyncio.create_task(take(agent([Say(calls=calls)], tool("read", work))))
    await running.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended == ["ended", "ended"]
    assert ours() == []


async def test_cancelling_twice_still_waits_for_a_tool_that_is_cleaning_up():
    running, cleaning, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> str:
        running.set()
        try:
            return await never()
        finally:
            cleaning.set()
            await cleaned.wait()

    turn = asyncio.create_task(take(agent([call(1, "read")], tool("read", work))))
    await running.wait()
    turn.cancel()
    await cleaning.wait()
    turn.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not turn.done()
    cleaned.set()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ours() == []


async def test_cancelling_the_task_ends_the_commands_processes(tmp_path: Path):
    started, alive = tmp_path / "started", tmp_path / "alive"
    os.mkfifo(started)
    os.mkfifo(alive)
    command = f"exec 3>{alive}; sleep 300 & echo here >{started}; wait"
    arguments = msgspec.json.encode({"command": command}).decode()
    place = Workplace(cwd=tmp_path)
    script = [ToolCall("c1", "shell", arguments)]
    all_gone = asyncio.create_task(asyncio.to_thread(alive.read_bytes))
    turn = asyncio.create_task(take(agent(script, shell({"PATH": os.defpath}), place=place)))
    await asyncio.to_thread(started.read_text)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert await all_gone == b""


@WIRES
async def test_cancelling_the_task_drops_the_connection(wire: str):
    heard = asyncio.Event()
    async with holding(wire, "LATER") as at:
        turn = asyncio.create_task(take(agent(at.model), on=lambda _: heard.set()))
        await heard.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        async with asyncio.timeout(10):
            await at.left.wait()
    assert ours() == []


@WIRES
async def test_closing_the_generator_drops_the_connection(wire: str):
    async with holding(wire, "LATER") as at:
        turn = agent(at.model).turn(Transcript((HI,)), asyncio.Event())
        assert isinstance(await anext(turn), TextDelta)
        await turn.aclose()
        assert ours() == []
        async with asyncio.timeout(10):
            await at.left.wait()


async def test_closing_the_generator_after_any_event_leaves_nothing_behind():
    count = len(await take(rich()))
    for at in range(count + 1):
        turn = rich().turn(Transcript((HI,)), asyncio.Event())
        for _ in range(at):
            await anext(turn)
        await turn.aclose()
        assert ours() == []
    gc.collect()


async def test_closing_the_generator_while_tools_run_ends_them():
    ended: list[str] = []

    async def work() -> str:
        try:
            return await never()
        finally:
            ended.append("ended")

    calls = (call(1, "quick"), call(2, "hang"))
    with_ = agent([Say(calls=calls)], tool("quick"), tool("hang", work))
    turn = with_.turn(Transcript((HI,)), asyncio.Event())
    while not isinstance(await anext(turn), ToolFinished):
        pass
    await turn.aclose()
    assert ended == ["ended"]
    assert ours() == []


async def test_a_generator_that_was_never_started_leaves_nothing_behind():
    await rich().turn(Transcript((HI,)), asyncio.Event()).aclose()
    rich().turn(Transcript((HI,)), asyncio.Event())
    gc.collect()
    assert ours() == []
