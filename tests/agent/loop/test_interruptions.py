"""Turns that are interrupted at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import msgspec

from segue.agent.loop import CUT_SHORT
from segue.agent.models.scripted import Say, ScriptedModel
from segue.agent.tools.base import Workplace
from segue.agent.tools.shell import shell
from segue.approvals.rules import Risk, Rules
from segue.core.approval import Answer, Description
from segue.core.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnInterrupted,
)
from segue.core.transcript import Outcome, ToolCall, words
from tests.agent.loop.scenario import (
    FIRST,
    WIRES,
    added,
    agent,
    assert_whole,
    call,
    deltas,
    holding,
    kinds,
    never,
    results,
    rich,
    take,
    tool,
)
from tests.harness.approver import Approver


@WIRES
async def test_interrupting_the_stream_drops_the_connection_and_keeps_the_partial_text(wire: str):
    interrupt, heard = asyncio.Event(), list[Event]()

    def on(event: Event) -> None:
        heard.append(event)
        if deltas(heard) == FIRST:
            interrupt.set()

    async with holding(wire, "LATER") as at:
        events = await take(agent(at.model), interrupt=interrupt, on=on)
        async with asyncio.timeout(10):
            await at.left.wait()
    assert events[-1] == TurnInterrupted()
    assert [m.content for m in added(events)] == [FIRST + CUT_SHORT]
    await assert_whole(events)


@WIRES
async def test_interrupting_before_the_first_word_drops_the_connection_and_adds_nothing(wire: str):
    interrupt = asyncio.Event()
    async with holding(wire, "Sixteen", asked=interrupt.set) as at:
        assert await take(agent(at.model), interrupt=interrupt) == [TurnInterrupted()]
        async with asyncio.timeout(10):
            await at.left.wait()


async def test_an_interruption_before_the_turn_asks_no_model():
    model, interrupt = ScriptedModel(["never"]), asyncio.Event()
    interrupt.set()
    assert await take(agent(model), interrupt=interrupt) == [TurnInterrupted()]
    assert model.prompts == []


async def test_interrupting_a_tool_cancels_it_and_starts_no_other():
    interrupt, ended, begun = asyncio.Event(), asyncio.Event(), list[str]()

    async def work() -> str:
        interrupt.set()
        try:
            return await never()
        finally:
            ended.set()

    async def later() -> str:
        begun.append("later")
        return "?"

    tools = (tool("read", "text"), tool("hang", work), tool("write", later, Risk.WRITE))
    calls = (call(1, "read"), call(2, "hang"), call(3, "write"), call(4, "fly"))
    with_ = agent([Say(text="Look:", calls=calls)], *tools)
    events = await take(with_, interrupt=interrupt)
    assert events[-1] == TurnInterrupted()
    assert results(events) == [
        ("c1", "text"),
        ("c2", Outcome.INTERRUPTED),
        ("c3", Outcome.NOT_BEGUN),
        ("c4", Outcome.NOT_BEGUN),
    ]
    assert ended.is_set()
    assert begun == []
    await assert_whole(events, tools=with_.tools)


async def test_a_tool_that_succeeds_despite_the_interruption_keeps_its_result():
    interrupt = asyncio.Event()

    async def work() -> str:
        interrupt.set()
        with contextlib.suppress(asyncio.CancelledError):
            await never()
        return "saved half of it"

    events = await take(agent([call(1, "read")], tool("read", work)), interrupt=interrupt)
    assert results(events) == [("c1", "saved half of it")]
    assert events[-1] == TurnInterrupted()


async def test_interrupting_a_command_ends_all_its_processes(tmp_path: Path):
    started, alive = tmp_path / "started", tmp_path / "alive"
    os.mkfifo(started)
    os.mkfifo(alive)
    command = f"exec 3>{alive}; sleep 300 & sleep 300 & echo here >{started}; wait"
    arguments = msgspec.json.encode({"command": command}).decode()
    with_ = agent(
        [ToolCall("c1", "shell", arguments)],
        shell({"PATH": os.defpath}),
        place=Workplace(cwd=tmp_path),
    )
    interrupt = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        # Every started process holds this pipe open, so it ends when all of them have.
        all_gone = group.create_task(asyncio.to_thread(alive.read_bytes))
        here = group.create_task(asyncio.to_thread(started.read_text))
        here.add_done_callback(lambda _: interrupt.set())
        events = await take(with_, interrupt=interrupt)
        assert await all_gone == b""
    assert events[-1] == TurnInterrupted()
    assert results(events) == [("c1", Outcome.INTERRUPTED)]
    await assert_whole(events, tools=with_.tools)


async def test_an_interrupted_command_keeps_what_it_printed(tmp_path: Path):
    started = tmp_path / "started"
    os.mkfifo(started)
    command = f"echo one; echo two >&2; echo here >{started}; sleep 300"
    arguments = msgspec.json.encode({"command": command}).decode()
    with_ = agent(
        [ToolCall("c1", "shell", arguments)],
        shell({"PATH": os.defpath}),
        place=Workplace(cwd=tmp_path),
    )
    interrupt = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        here = group.create_task(asyncio.to_thread(started.read_text))
        here.add_done_callback(lambda _: interrupt.set())
        events = await take(with_, interrupt=interrupt)
    assert events[-1] == TurnInterrupted()
    assert results(events) == [("c1", Outcome.INTERRUPTED)]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.result == "one\ntwo\nInterrupted. Its effect is unknown."
    (message,) = [e.message for e in events if isinstance(e, MessageAdded) and e.message.outcome]
    assert words(message).startswith("one\ntwo\n[interrupted: this tool call did not finish")
    await assert_whole(events, tools=with_.tools)


async def test_interrupting_the_wait_for_an_approval_withdraws_the_question():
    interrupt, withdrawn, ran = asyncio.Event(), asyncio.Event(), list[str]()

    async def approve(asked: ToolCall, what: Description, fingerprint: str) -> Answer:
        interrupt.set()
        try:
            await never()
        finally:
            withdrawn.set()
        return Answer.ONCE

    async def run() -> str:
        ran.append("ran")
        return ""

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN), rules=Rules(), approve=approve)
    events = await take(with_, interrupt=interrupt)
    assert kinds(events)[-4:] == [
        "ApprovalNeeded",
        "ToolFinished",
        "MessageAdded",
        "TurnInterrupted",
    ]
    assert results(events) == [("c1", Outcome.NOT_BEGUN)]
    assert withdrawn.is_set()
    assert ran == []
    await assert_whole(events, tools=with_.tools)


async def test_an_approval_that_arrives_with_the_interruption_runs_nothing():
    interrupt, ran = asyncio.Event(), list[str]()

    async def approve(asked: ToolCall, what: Description, fingerprint: str) -> Answer:
        interrupt.set()
        return Answer.ONCE

    async def run() -> str:
        ran.append("ran")
        return ""

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN), rules=Rules(), approve=approve)
    events = await take(with_, interrupt=interrupt)
    assert results(events) == [("c1", Outcome.NOT_BEGUN)]
    assert ran == []
    assert "ToolStarted" not in kinds(events)
    assert events[-1] == TurnInterrupted()


async def test_an_interruption_before_the_question_asks_nothing():
    interrupt, person = asyncio.Event(), Approver()

    def on(event: Event) -> None:
        if isinstance(event, ApprovalNeeded):
            interrupt.set()

    with_ = agent([call(1, "run")], tool("run", risk=Risk.RUN), rules=Rules(), approve=person)
    events = await take(with_, interrupt=interrupt, on=on)
    assert results(events) == [("c1", Outcome.NOT_BEGUN)]
    assert person.asked == []


async def test_an_interruption_on_the_tool_started_event_prevents_the_call():
    interrupt, ran = asyncio.Event(), list[str]()

    async def run() -> str:
        ran.append("ran")
        return ""

    def on(event: Event) -> None:
        if isinstance(event, ToolStarted):
            interrupt.set()

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN))
    events = await take(with_, interrupt=interrupt, on=on)
    assert results(events) == [("c1", Outcome.NOT_BEGUN)]
    assert ran == []


async def test_interrupting_between_two_steps_sends_no_further_request():
    interrupt = asyncio.Event()

    async def work() -> str:
        interrupt.set()
        return "text"

    model = ScriptedModel([call(1, "read"), "never"])
    with_ = agent(model, tool("read", work))
    events = await take(with_, interrupt=interrupt)
    assert results(events) == [("c1", "text")]
    assert events[-1] == TurnInterrupted()
    assert len(model.prompts) == 1
    await assert_whole(events, tools=with_.tools)


async def test_an_interruption_at_any_event_leaves_a_valid_transcript():
    count = len(await take(rich()))
    for at in range(count):
        interrupt, seen, with_ = asyncio.Event(), list[Event](), rich()

        def on(event: Event, at: int = at) -> None:
            seen.append(event)  # noqa: B023
            if len(seen) == at + 1:  # noqa: B023
                interrupt.set()  # noqa: B023

        events = await take(with_, interrupt=interrupt, on=on)
        # After the last answer, nothing is left to interrupt.
        over = TurnDone() if at >= count - 3 else TurnInterrupted()
        assert events[-1] == over, events[at]
        await assert_whole(events, tools=with_.tools)
