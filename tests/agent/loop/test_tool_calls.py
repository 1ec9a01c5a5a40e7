"""Tool calls in a turn, and their approval."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from segue.agent import loop
from segue.agent.loop import TOO_MANY
from segue.agent.models.scripted import Say, ScriptedModel
from segue.agent.tools.base import Proposal, ToolFailed, Workplace
from segue.approvals.rules import Risk, Rules, fingerprint
from segue.core.approval import Answer, Description
from segue.core.events import (
    ApprovalNeeded,
    ToolFinished,
    ToolStarted,
    TurnDone,
)
from segue.core.transcript import Outcome, ToolCall
from tests.agent.loop.scenario import (
    HI,
    Where,
    Work,
    added,
    agent,
    assert_whole,
    call,
    deltas,
    kinds,
    ours,
    results,
    take,
    tool,
)
from tests.harness.approver import Approver

# Running tools


async def test_a_tool_runs_and_its_result_goes_back_to_the_model():
    model = ScriptedModel(
        [Say(text="Let me see.", calls=(call(1, "read", "a"),)), "It says hello."]
    )
    with_ = agent(model, tool("read", "hello"))
    events = await take(with_)
    assert kinds(events) == [
        "TextDelta", "UsageAdded", "MessageAdded",
        "ToolStarted", "ToolFinished", "MessageAdded",
        "TextDelta", "UsageAdded", "MessageAdded",
        "TurnDone",
    ]  # fmt: skip
    assert ToolFinished(call(1, "read", "a"), "hello", ok=True) in events
    assert model.prompts[1].messages == (HI, *added(events)[:2])
    assert model.prompts[0].tools == (with_.tools["read"].spec,)
    await assert_whole(events, tools=with_.tools)


async def test_read_only_tools_run_concurrently():
    both = asyncio.Barrier(2)

    async def meet() -> str:
        await both.wait()
        return "met"

    calls = (call(1, "one"), call(2, "two"))
    events = await take(agent([Say(calls=calls), "Done."], tool("one", meet), tool("two", meet)))
    assert results(events) == [("c1", "met"), ("c2", "met")]


async def test_results_are_in_the_order_of_the_calls():
    second_done = asyncio.Event()

    async def slow() -> str:
        await second_done.wait()
        return "slow"

    async def quick() -> str:
        second_done.set()
        return "quick"

    calls = (call(1, "slow"), call(2, "nothing"), call(3, "quick"), ToolCall("c4", "quick", "{"))
    tools = (tool("slow", slow), tool("quick", quick), tool("nothing"))
    events = await take(agent([Say(calls=calls), "Done."], *tools))
    assert [e.call.id for e in events if isinstance(e, ToolFinished)] == ["c1", "c2", "c3", "c4"]
    assert [name for name, _ in results(events)] == ["c1", "c2", "c3", "c4"]
    await assert_whole(events, tools={t.name: t for t in tools})


async def test_tools_that_write_run_sequentially_in_order():
    steps: list[str] = []

    def writing(name: str) -> Work:
        async def work() -> str:
            steps.append(f"{name} begins")
            for _ in range(3):
                await asyncio.sleep(0)
            steps.append(f"{name} ends")
            return "ok"

        return work

    names = ("write", "look", "run")
    risks = (Risk.WRITE, Risk.READ, Risk.RUN)
    tools = [tool(n, writing(n), risk) for n, risk in zip(names, risks, strict=True)]
    calls = tuple(call(i, name) for i, name in enumerate(names))
    await take(agent([Say(calls=calls), "Done."], *tools))
    assert steps == [f"{name} {what}" for name in names for what in ("begins", "ends")]


async def test_every_call_gets_one_result_even_if_ids_are_repeated():
    calls = tuple(ToolCall(i, "read", "{}") for i in ("a", "a", "", "", "a_2"))
    with_ = agent([Say(calls=calls), "Done."], tool("read"))
    events = await take(with_)
    ids = [c.id for c in added(events)[0].tool_calls]
    assert len(set(ids)) == 5
    assert all(ids)
    assert [name for name, _ in results(events)] == ids
    await assert_whole(events, tools=with_.tools)


async def test_an_unknown_tool_returns_the_names_of_the_tools():
    model = ScriptedModel([call(1, "fly"), "I cannot."])
    events = await take(agent(model, tool("read"), tool("write")))
    told = "There is no tool 'fly'. There are: read, write."
    assert results(events) == [("c1", told)]
    assert ToolFinished(call(1, "fly"), told, ok=False) in events
    assert not any(isinstance(e, ToolStarted) for e in events)
    assert model.prompts[1].messages[-1].content == told
    assert events[-1] == TurnDone()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"path": 3}', "Expected `str`, got `int` - at `$.path`"),
        ('{"where": "x"}', "unknown field `where`"),
        ('{"path": ', "truncated"),
        ("[]", "Expected `object`, got `array`"),
    ],
)
async def test_invalid_arguments_return_the_reason(arguments: str, said: str):
    with_ = agent([ToolCall("c1", "read", arguments), "Oh."], tool("read"))
    events = await take(with_)
    ((_, told),) = results(events)
    assert said in told
    assert "read" in told
    assert events[-1] == TurnDone()
    await assert_whole(events, tools=with_.tools)


async def test_a_tool_that_fails_returns_the_reason():
    async def fail() -> str:
        raise ToolFailed("There is no file a. There are b and c.")

    events = await take(agent([call(1, "read", "a"), "Then b."], tool("read", fail)))
    told = "There is no file a. There are b and c."
    assert results(events) == [("c1", told)]
    assert ToolFinished(call(1, "read", "a"), told, ok=False) in events


async def test_a_crash_of_a_tool_is_logged_and_does_not_affect_others(
    caplog: pytest.LogCaptureFixture,
):
    async def fail() -> str:
        raise ZeroDivisionError("ours")

    calls = (call(1, "bad"), call(2, "good"))
    events = await take(agent([Say(calls=calls), "Hm."], tool("bad", fail), tool("good")))
    assert results(events) == [
        ("c1", "The tool bad failed: ZeroDivisionError: ours"),
        ("c2", "done"),
    ]
    assert events[-1] == TurnDone()
    assert "ZeroDivisionError: ours" in caplog.text


async def test_a_tool_that_cannot_describe_its_call_does_not_run(
    caplog: pytest.LogCaptureFixture,
):
    def propose(arguments: Where, place: Workplace) -> Proposal:
        raise ValueError("embedded null byte")

    mute = replace(tool("write", risk=Risk.WRITE), propose=propose)
    events = await take(agent([call(1, "write"), "Oh."], mute))
    assert results(events) == [("c1", "The tool write failed: ValueError: embedded null byte")]
    assert "embedded null byte" in caplog.text


async def test_text_that_cannot_be_encoded_does_not_enter_the_transcript():
    """As in a file name that is not valid Unicode."""
    with_ = agent([call(1, "list"), "Odd."], tool("list", "caf\udce9.txt"))
    events = await take(with_)
    assert results(events) == [("c1", "caf\ufffd.txt")]
    assert ToolFinished(call(1, "list"), "caf\ufffd.txt", ok=True) in events
    await assert_whole(events, tools=with_.tools)


async def test_a_turn_ends_at_the_step_limit_with_a_notice():
    model = ScriptedModel(call(i, "read") for i in range(100))
    with_ = agent(model, tool("read"), max_steps=3)
    events = await take(with_)
    assert len(model.prompts) == len(results(events)) == 3
    assert added(events)[-1].content == deltas(events) == TOO_MANY
    assert events[-1] == TurnDone()
    await assert_whole(events, tools=with_.tools)


async def test_a_turn_has_a_step_limit_by_default():
    model = ScriptedModel(call(i, "read") for i in range(1000))
    await take(agent(model, tool("read")))
    assert len(model.prompts) == loop.MAX_STEPS


# Approval


async def test_the_question_has_the_exact_call_and_approval_is_for_one_use():
    person = Approver(Answer.ONCE, Answer.NEVER)
    again = (call(1, "write", "a"), call(2, "write", "a"))
    write = tool("write", risk=Risk.WRITE)
    with_ = agent([Say(calls=again), "Done."], write, rules=Rules(), approve=person)
    events = await take(with_)
    what = "write a in /somewhere"
    assert (person.calls, person.asked) == ([again[0], again[1]], [what, what])
    assert [e for e in events if isinstance(e, ApprovalNeeded)] == [
        ApprovalNeeded(again[0], Description(what)),
        ApprovalNeeded(again[1], Description(what)),
    ]
    assert results(events) == [("c1", "done"), ("c2", Outcome.DENIED)]
    assert [e.call.id for e in events if isinstance(e, ToolStarted)] == ["c1"]
    await assert_whole(events, tools=with_.tools)


async def test_approval_for_the_session_covers_only_the_same_call():
    person = Approver(Answer.SESSION, Answer.NEVER)
    script = [
        Say(calls=(call(1, "write", "a"), call(2, "write", "a"))),
        Say(calls=(ToolCall("c3", "write", '{ "path" : "a" }'), call(4, "write", "b"))),
        "Done.",
    ]
    with_ = agent(script, tool("write", risk=Risk.WRITE), rules=Rules(), approve=person)
    events = await take(with_)
    assert [asked.id for asked in person.calls] == ["c1", "c4"]
    assert results(events) == [
        ("c1", "done"),
        ("c2", "done"),
        ("c3", "done"),
        ("c4", Outcome.DENIED),
    ]


async def test_the_caller_passes_session_grants_to_the_next_turn():
    person = Approver(Answer.SESSION, Answer.NEVER)
    write = tool("write", risk=Risk.WRITE)
    calls = [call(number, "write", "a") for number in (1, 2, 3)]
    script = [step for made in calls for step in (made, "Done.")]
    with_ = agent(script, write, rules=Rules(), approve=person)
    await take(with_)
    events = await take(with_)
    assert results(events) == [("c2", Outcome.DENIED)]
    granted = frozenset({fingerprint(call(1, "write", "a"), Path("/somewhere"))})
    events = await take(replace(with_, granted=granted))
    assert results(events) == [("c3", "done")]
    assert len(person.asked) == 2


async def test_a_call_that_no_user_answered_does_not_run_and_is_not_called_denied():
    person = Approver(Answer.MISSING)
    write = tool("write", risk=Risk.WRITE)
    with_ = agent([call(1, "write", "a"), "Done."], write, rules=Rules(), approve=person)
    events = await take(with_)
    assert results(events) == [("c1", loop.UNANSWERED)]
    assert not [e for e in events if isinstance(e, ToolStarted)]


async def test_read_only_tools_need_no_approval():
    person = Approver()
    await take(agent([call(1, "read"), "Done."], tool("read"), rules=Rules(), approve=person))
    assert person.asked == []


async def test_if_the_user_cannot_be_asked_the_turn_stops_and_nothing_runs():
    ran: list[str] = []

    async def run() -> str:
        ran.append("ran")
        return ""

    async def unreachable(asked: ToolCall, what: str, fingerprint: str) -> Answer:
        raise ConnectionError("nobody there")

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN), rules=Rules(), approve=unreachable)
    with pytest.raises(ConnectionError):
        await take(with_)
    assert (ran, ours()) == ([], [])
