"""From one turn to the next, and from one provider to another."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from segue.agent.loop import Agent
from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.events import (
    Event,
    MessageAdded,
    TurnDone,
    TurnInterrupted,
)
from segue.core.transcript import Message, Role, ToolCall, Transcript, words
from tests.agent.loop.scenario import (
    AT,
    HI,
    added,
    agent,
    anthropic,
    call,
    deltas,
    gemini,
    openai,
    results,
    take,
    tool,
)
from tests.fakes.models import anthropic as anthropic_fake
from tests.fakes.models import gemini as gemini_fake
from tests.fakes.models import openai as openai_fake

# Between turns


async def test_the_loop_keeps_no_state_between_turns():
    model = ScriptedModel(["One.", "Two."])
    with_ = agent(model)
    given_ = Transcript((HI,))
    async for _ in with_.turn(given_, asyncio.Event()):
        pass
    async for _ in with_.turn(given_, asyncio.Event()):
        pass
    assert [prompt.messages for prompt in model.prompts] == [(HI,), (HI,)]
    assert given_ == Transcript((HI,))


async def test_one_agent_runs_two_turns_concurrently():
    both = asyncio.Barrier(2)

    async def meet() -> str:
        await both.wait()
        return "met"

    def script(prompt: Prompt) -> ToolCall | str:
        if prompt.messages[-1].role is Role.TOOL:
            return prompt.messages[0].content
        return call(1, "read")

    with_ = agent([script] * 4, tool("read", meet))
    asked = [Message(Role.USER, words, AT) for words in ("one", "two")]
    first, second = await asyncio.gather(*(_said(with_, m) for m in asked))
    assert (first, second) == ("one", "two")


async def _said(with_: Agent, message: Message) -> str:
    turn = with_.turn(Transcript((message,)), asyncio.Event())
    return deltas([event async for event in turn])


async def test_a_broken_transcript_is_repaired_before_the_model_sees_it():
    torn = (HI, Message(Role.ASSISTANT, "", AT, tool_calls=(call(1, "read"),)), HI)
    model = ScriptedModel(["Where were we?"])
    await take(agent(model), *torn)
    (prompt,) = model.prompts
    mended = Transcript(torn).repaired(AT)
    assert prompt.messages == tuple(structs.replace(m, content=words(m)) for m in mended)
    assert "did not finish" in prompt.messages[2].content


async def test_the_same_instructions_and_tools_go_with_every_step():
    model = ScriptedModel([call(1, "read"), "Done."])
    await take(agent(model, tool("read")))
    first, second = model.prompts
    assert (first.system, first.tools) == (second.system, second.tools)


# Another provider in the middle


@pytest.mark.parametrize("word", [(), (HI,)], ids=["at once", "after a word"])
async def test_a_session_changes_provider_in_the_middle_of_a_tool_conversation(
    word: tuple[Message, ...],
):
    a, b = call("_a|odd id, far longer than forty characters", "read"), call("_b", "read", "b")
    signed = {"signature": "c2ln", "call_id": "fc1", "path": "e"}
    claude = [
        anthropic_fake.thinking("Let me think.", "sig"),
        anthropic_fake.text("I look."),
        anthropic_fake.tool_use("toolu_1", "read", path="c"),
        anthropic_fake.tool_use("toolu_2", "no such/tool", path="d"),
    ]
    google = [
        [gemini_fake.text("And I.")],
        [gemini_fake.call("read", **signed)],
        [gemini_fake.call("read")],
    ]
    read = tool("read", "text")
    async with (
        openai(
            openai_fake.Say(text="Reading.", calls=(a, b)), openai_fake.Say(text="All read.")
        ) as gpt,
        anthropic(
            anthropic_fake.Answer(content=claude, stop="tool_use"),
            anthropic_fake.Answer(content=[anthropic_fake.text("Still here.")]),
        ) as claude_wire,
        gemini(
            gemini_fake.Answer(chunks=google),
            gemini_fake.Answer(chunks=[[gemini_fake.text("Me too.")]]),
        ) as google_wire,
    ):
        so_far: tuple[Message, ...] = (HI,)
        for wire in (gpt, claude_wire, google_wire):
            interrupt = asyncio.Event()

            def on(event: Event, interrupt: asyncio.Event = interrupt) -> None:
                if isinstance(event, MessageAdded) and event.message.role is Role.TOOL:
                    interrupt.set()

            events = await take(agent(wire.model, read), *so_far, interrupt=interrupt, on=on)
            assert events[-1] == TurnInterrupted()
            assert len(results(events)) == 2
            so_far = (*so_far, *added(events), *word)
        for wire, words in (
            (gpt, "All read."),
            (claude_wire, "Still here."),
            (google_wire, "Me too."),
        ):
            events = await take(agent(wire.model, read), *so_far)
            assert events[-1] == TurnDone()
            assert deltas(events) == words
            so_far = (*so_far, *added(events), HI)
