"""Turns that are paused at a safe point and continued by another turn."""

from __future__ import annotations

import asyncio

import pytest

from segue.agent.loop import Agent
from segue.agent.models.scripted import Say, ScriptedModel
from segue.approvals.rules import Risk, Rules
from segue.core.approval import Answer, Description
from segue.core.events import (
    ApprovalNeeded,
    Event,
    TextDelta,
    TurnDone,
    TurnInterrupted,
    TurnPaused,
)
from segue.core.transcript import Message, Outcome, ToolCall, Transcript
from tests.agent.loop.scenario import (
    HI,
    added,
    agent,
    assert_whole,
    call,
    kinds,
    never,
    results,
    rich,
    take,
    tool,
)


async def paused_at(with_: Agent, number: int) -> tuple[list[Event], list[Event]]:
    """Take a turn that is asked to pause at its event with this number, and the rest of it in a
    second turn. Return the events of both."""
    pause, seen = asyncio.Event(), list[Event]()

    def on(event: Event) -> None:
        seen.append(event)
        if len(seen) == number:
            pause.set()

    first = await take(with_, pause=pause, on=on)
    if first[-1] == TurnDone():
        return first, []
    assert first[-1] == TurnPaused()
    return first, await take(with_, HI, *added(first))


async def test_a_turn_paused_at_any_point_and_continued_gives_the_same_result():
    unpaused = await take(rich())
    for number in range(1, len(unpaused) + 1):
        first, rest = await paused_at(rich(), number)
        whole = (*added(first), *added(rest))
        assert whole == added(unpaused), f"paused at event {number}"
        assert [*first, *rest][-1] == TurnDone()
        await assert_whole([*first, *rest], tools=rich().tools)


async def test_a_turn_paused_before_it_starts_sends_no_request():
    model, pause = ScriptedModel(["Hello."]), asyncio.Event()
    pause.set()
    assert await take(agent(model), pause=pause) == [TurnPaused()]
    assert model.prompts == []


async def test_a_pause_lets_the_running_call_finish_and_starts_no_other():
    pause, ran = asyncio.Event(), list[str]()

    async def first() -> str:
        pause.set()
        ran.append("first")
        return "one"

    async def second() -> str:
        ran.append("second")
        return "two"

    tools = (tool("first", first, Risk.WRITE), tool("second", second, Risk.WRITE))
    calls = (call(1, "first"), call(2, "second"))
    with_ = agent([Say(calls=calls), "Done."], *tools)
    events = await take(with_, pause=pause)
    assert events[-1] == TurnPaused()
    assert results(events) == [("c1", "one")]
    assert Transcript(added(events)).unanswered == calls[1:]
    assert ran == ["first"]
    pause.clear()
    rest = await take(with_, HI, *added(events), pause=pause)
    assert results(rest) == [("c2", "two")]
    assert ran == ["first", "second"]


async def test_a_pause_lets_the_answer_finish_and_does_not_start_its_calls():
    pause = asyncio.Event()

    def on(event: Event) -> None:
        if isinstance(event, TextDelta):
            pause.set()

    with_ = agent([Say(text="Let me look.", calls=(call(1, "read"),))], tool("read"))
    events = await take(with_, pause=pause, on=on)
    assert kinds(events)[-2:] == ["MessageAdded", "TurnPaused"]
    (said,) = added(events)
    assert (said.content, said.tool_calls) == ("Let me look.", (call(1, "read"),))


async def test_a_turn_that_ends_at_the_safe_point_is_done():
    pause = asyncio.Event()
    events = await take(agent(["Good day."]), pause=pause, on=lambda _: pause.set())
    assert events[-1] == TurnDone()


async def test_a_pause_withdraws_the_question_and_it_is_asked_again_later():
    pause, withdrawn, ran = asyncio.Event(), asyncio.Event(), list[str]()

    async def approve(asked: ToolCall, what: Description, fingerprint: str) -> Answer:
        if withdrawn.is_set():
            return Answer.ONCE
        pause.set()
        try:
            await never()
        finally:
            withdrawn.set()
        return Answer.NEVER

    async def run() -> str:
        ran.append("ran")
        return "ran"

    run_tool = tool("run", run, Risk.RUN)
    with_ = agent([call(1, "run"), "Done."], run_tool, rules=Rules(), approve=approve)
    events = await take(with_, pause=pause)
    assert kinds(events)[-2:] == ["ApprovalNeeded", "TurnPaused"]
    assert withdrawn.is_set()
    assert results(events) == []
    rest = await take(with_, HI, *added(events))
    assert isinstance(rest[0], ApprovalNeeded)
    assert results(rest) == [("c1", "ran")]
    assert ran == ["ran"]


async def test_an_interruption_wins_over_a_pause():
    pause, interrupt = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        pause.set()
        interrupt.set()
        return await never()

    calls = (call(1, "write"), call(2, "write"))
    with_ = agent([Say(calls=calls)], tool("write", work, Risk.WRITE))
    events = await take(with_, pause=pause, interrupt=interrupt)
    assert events[-1] == TurnInterrupted()
    assert results(events) == [("c1", Outcome.INTERRUPTED), ("c2", Outcome.NOT_BEGUN)]


@pytest.mark.parametrize("after", [1, 2])
async def test_a_paused_transcript_needs_only_its_open_calls(after: int):
    """Every provider accepts it once they have their results."""
    pause, done = asyncio.Event(), list[str]()

    async def work() -> str:
        done.append("")
        if len(done) == after:
            pause.set()
        return "text"

    calls = tuple(call(number, "write") for number in (1, 2, 3))
    with_ = agent([Say(calls=calls), "Done."], tool("write", work, Risk.WRITE))
    events = await take(with_, pause=pause)
    paused: tuple[Message, ...] = (HI, *added(events))
    assert Transcript(paused).unanswered == calls[after:]
    rest = await take(with_, *paused)
    await assert_whole([*events, *rest], tools=with_.tools)
