"""The transcript is valid after any behaviour of models, tools and users."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.agent import loop
from segue.agent.models.base import Stop
from segue.agent.models.scripted import Say
from segue.agent.tools.base import ToolFailed
from segue.approvals.rules import Risk, Rules
from segue.core.approval import Answer, Description
from segue.core.events import (
    Event,
    ToolFinished,
    TurnDone,
    TurnFailed,
    TurnInterrupted,
)
from segue.core.transcript import Role, ToolCall
from tests.agent.loop.scenario import (
    BUSY,
    added,
    agent,
    assert_whole,
    deltas,
    never,
    take,
    tool,
)

_IDS = st.sampled_from(["a", "b", "", "x y"])
_NAMES = st.sampled_from(["read", "slow", "write", "fail", "break", "stop", "fly", "no such/one"])
_ARGUMENTS = st.sampled_from(["{}", '{"path": "a"}', '{"path": 1}', "{", "", "[]"])
_CALLS = st.lists(st.builds(ToolCall, _IDS, _NAMES, _ARGUMENTS), max_size=4).map(tuple)
_ANSWERS = st.builds(
    Say,
    text=st.sampled_from(["", " ", "One.", "One two three."]),
    calls=_CALLS,
    error=st.sampled_from([None, None, None, BUSY]),
    stop=st.sampled_from([None, None, None, Stop.LENGTH, Stop.REFUSED]),
)


@settings(max_examples=60)
@given(
    script=st.lists(_ANSWERS, max_size=4),
    answers=st.lists(st.sampled_from([*Answer, None]), max_size=6),
    at=st.none() | st.integers(0, 30),
)
def test_the_transcript_is_valid_after_any_sequence_of_events(
    script: list[Say], answers: list[Answer | None], at: int | None
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.logger, "disabled", True)  # a broken tool is logged each time
        asyncio.run(_whatever(script, answers, at))


async def _whatever(script: list[Say], answers: list[Answer | None], at: int | None) -> None:
    interrupt, left, seen = asyncio.Event(), iter(answers), list[Event]()

    async def approve(asked: ToolCall, what: Description, fingerprint: str) -> Answer:
        answer = next(left, Answer.ONCE)
        if answer is None:
            interrupt.set()
            await never()
        return answer or Answer.NEVER

    async def slow() -> str:
        for _ in range(4):
            await asyncio.sleep(0)
        return ""

    async def fail() -> str:
        raise ToolFailed("No.")

    async def break_() -> str:
        raise RuntimeError("Oh.")

    async def stop() -> str:
        interrupt.set()
        return await never()

    def on(event: Event) -> None:
        seen.append(event)
        if at is not None and len(seen) > at:
            interrupt.set()

    tools = (
        tool("read"),
        tool("slow", slow),
        tool("write", risk=Risk.WRITE),
        tool("fail", fail),
        tool("break", break_),
        tool("stop", stop, Risk.RUN),
    )
    with_ = agent([*script, "The end."], *tools, rules=Rules(), approve=approve, max_steps=4)
    events = await take(with_, interrupt=interrupt, on=on)
    over = [e for e in events if isinstance(e, (TurnDone, TurnFailed, TurnInterrupted))]
    assert over == events[-1:]
    said = [m for m in added(events) if m.role is Role.ASSISTANT]
    assert deltas(events) == "".join(m.content for m in said)
    calls = [c for m in said for c in m.tool_calls]
    assert [e.call for e in events if isinstance(e, ToolFinished)] == calls
    await assert_whole(events, tools=with_.tools)
