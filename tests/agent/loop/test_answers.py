"""The answers of the model in a turn, in each wire format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from segue.agent import loop
from segue.agent.loop import CUT_SHORT
from segue.agent.models.base import End, Piece, Prompt, Stop, Text
from segue.agent.models.scripted import Say, ScriptedModel
from segue.core import provenance
from segue.core.errors import ModelCutOff, ModelRefused
from segue.core.events import (
    MessageAdded,
    TextDelta,
    TurnDone,
    TurnFailed,
    UsageAdded,
)
from segue.core.session import Usage
from segue.core.transcript import LEFT_OUT, Message, Role
from tests.agent.loop.scenario import (
    AT,
    BUSY,
    FIRST,
    REST,
    WIRES,
    added,
    agent,
    anthropic,
    assert_whole,
    call,
    deltas,
    event_before,
    gemini,
    kinds,
    openai,
    results,
    take,
    tool,
)
from tests.fakes.models import anthropic as anthropic_fake
from tests.fakes.models import gemini as gemini_fake
from tests.fakes.models import openai as openai_fake
from tests.fakes.models.travel import Travel


async def test_text_streams_and_then_becomes_one_message():
    usage = Usage(input=5, output=3)
    events = await take(agent([Say(text="Good day to you.", usage=usage)]))
    message = Message(Role.ASSISTANT, "Good day to you.", AT, tokens=3, provenance=provenance.AGENT)
    assert events == [
        TextDelta("Good "),
        TextDelta("day "),
        TextDelta("to "),
        TextDelta("you."),
        UsageAdded(usage),
        MessageAdded(message),
        TurnDone(),
    ]


async def test_text_is_emitted_as_it_arrives():
    seen = asyncio.Event()

    class Waiting(ScriptedModel):
        async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
            yield Text("first")
            await seen.wait()
            yield Text(" second")
            yield End(stop=Stop.DONE)

    events = await take(agent(Waiting()), on=lambda _: seen.set())
    assert deltas(events) == "first second"


async def test_a_turn_that_outgrows_the_context_omits_the_oldest_output_from_the_prompt_only():
    steps = 30
    model = ScriptedModel([*(call(n, "read") for n in range(steps)), "Done."], context=8192)
    events = await take(agent(model, tool("read", "long " * 400), max_steps=steps + 1))
    shown = model.prompts[-1]
    assert sum(m.tokens for m in shown.messages) < 8192 - shown.max_tokens
    assert shown.messages[2].content == LEFT_OUT
    assert shown.messages[-1].content == "long " * 400
    assert [m.tool_call_id for m in shown.messages[2::2]] == [f"c{n}" for n in range(steps)]
    assert LEFT_OUT not in {content for _, content in results(events)}


async def test_an_empty_answer_is_a_message():
    events = await take(agent([""]))
    assert kinds(events) == ["UsageAdded", "MessageAdded", "TurnDone"]
    await assert_whole(events)


@pytest.mark.parametrize("text", ["word " * 100, "x" * 500])
async def test_an_answer_that_does_not_stop_is_cut_short(
    monkeypatch: pytest.MonkeyPatch, text: str
):
    monkeypatch.setattr(loop, "MAX_ANSWER_LENGTH", 100)
    events = await take(agent([Say(text=text)]))
    assert deltas(events) == added(events)[0].content == text[:100] + CUT_SHORT
    assert kinds(events)[-1] == "TurnDone"


async def test_an_answer_cut_at_the_token_limit_is_marked_in_stream_and_message():
    events = await take(agent([Say(text="So long", stop=Stop.LENGTH)]))
    assert deltas(events) == added(events)[0].content == "So long" + CUT_SHORT
    assert events[-1] == TurnDone()


async def test_a_refusal_without_text_is_shown_as_a_refusal():
    events = await take(agent([Say(stop=Stop.REFUSED)]))
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, ModelRefused)
    await assert_whole(events)
    events = await take(agent([Say(text="I would rather not.", stop=Stop.REFUSED)]))
    assert events[-1] == TurnDone()


async def test_the_calls_of_a_refused_answer_do_not_run():
    refused = Say(text="I would", calls=(call(1, "read"),), stop=Stop.REFUSED)
    events = await take(agent([refused], tool("read")))
    assert (kinds(events)[-1], results(events)) == ("TurnDone", [])
    assert added(events)[0].tool_calls == ()


async def test_an_error_before_the_first_word_adds_nothing():
    assert await take(agent([BUSY])) == [TurnFailed(BUSY)]


async def test_an_error_during_the_answer_keeps_the_partial_text():
    events = await take(agent([Say(text="I was just", error=BUSY)]))
    assert [m.content for m in added(events)] == ["I was just" + CUT_SHORT]
    assert deltas(events) == "I was just" + CUT_SHORT
    assert events[-1] == TurnFailed(BUSY)
    await assert_whole(events)


async def test_an_error_after_a_tool_keeps_the_tools_result():
    events = await take(agent([call(1, "read"), BUSY], tool("read", "text")))
    assert results(events) == [("c1", "text")]
    assert events[-1] == TurnFailed(BUSY)
    await assert_whole(events)


async def test_a_stream_without_an_end_is_a_failure_and_its_calls_do_not_run():
    class Stopping(ScriptedModel):
        async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
            async for piece in super().stream(prompt):
                if not isinstance(piece, End):
                    yield piece

    events = await take(agent(Stopping([Say(text="Look:", calls=(call(1, "read"),))])))
    assert kinds(events) == ["TextDelta", "MessageAdded", "TurnFailed"]
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, ModelCutOff)
    assert added(events)[0].tool_calls == ()


@WIRES
async def test_a_lost_connection_ends_the_turn_with_the_partial_text(wire: str):
    cut = Travel(hang_up_after=0)
    if wire == "openai":
        say = openai_fake.Say(text=FIRST + REST)
        stop = event_before(openai_fake._stream(say, "gpt-test", usage=True), "LATER", b"data:")
        server = openai(say, travel=Travel(hang_up_after=stop))
    elif wire == "anthropic":
        claude = anthropic_fake.Answer(content=[anthropic_fake.text(FIRST + REST)])
        stop = event_before(anthropic_fake.sse(claude), "LATER", b"event:")
        server = anthropic(replace(claude, travel=replace(cut, hang_up_after=stop)))
    else:
        told = gemini_fake.Answer(chunks=[[gemini_fake.text(FIRST)], [gemini_fake.text(REST)]])
        stop = event_before(gemini_fake.sse(told), "LATER", b"data:")
        server = gemini(replace(told, travel=replace(cut, hang_up_after=stop)))
    async with server as at:
        events = await take(agent(at.model))
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, ModelCutOff)
    assert [m.content for m in added(events)] == [FIRST + CUT_SHORT]
    await assert_whole(events)
