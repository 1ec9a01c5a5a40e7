"""Long conversations are summarised for the model, and kept in full."""

from __future__ import annotations

from itertools import repeat

import pytest

from segue.agent.models.base import Prompt
from segue.agent.models.scripted import Say, ScriptedModel
from segue.core.errors import ModelBusy, SessionError
from segue.core.events import Compressing, MessageAdded, TurnDone
from segue.core.session import Session, Usage
from segue.core.transcript import Kind, Role
from segue.store import leases, search, sessions, transcripts
from segue.turns import Place
from tests.turns.conftest import Desk, call

CONTEXT = 5760
LONG = "word " * 400  # about 500 tokens


async def talk(desk: Desk, session: Session, turns: int) -> None:
    """`turns` long turns, with a model whose context is large enough."""
    for number in range(turns):
        model = ScriptedModel([f"Answer {number}. {LONG}"], context=100_000)
        await desk.take(model, session, f"Question {number}. {LONG}")


def is_summary(prompt: Prompt) -> bool:
    return prompt.system.startswith("You write the summary")


def teller(summary: str, *answers: str) -> ScriptedModel:
    """Summarises every part as `summary`, and otherwise gives `answers` in order."""
    left = iter(answers)

    def say(prompt: Prompt) -> str:
        return summary if is_summary(prompt) else next(left)

    return ScriptedModel(repeat(say), context=CONTEXT)


def asked(model: ScriptedModel) -> str:
    """The text that was to be summarised."""
    return "\n".join(p.messages[0].content for p in model.prompts if is_summary(p))


async def test_a_conversation_that_becomes_too_long_continues_from_a_summary(
    desk: Desk, session: Session
):
    await talk(desk, session, 4)
    model = teller("They talked of words.", "Here I am.")
    events = await desk.take(model, session, "Are you there?")
    assert events[0] == Compressing()
    assert isinstance(events[1], MessageAdded)
    assert events[1].message.kind is Kind.SUMMARY
    assert events[-1] == TurnDone()
    went_on = model.prompts[-1]
    assert "Question 0." in asked(model)
    assert went_on.messages[0].content == "They talked of words."
    assert went_on.messages[-1].content == "Are you there?"
    assert sum(m.tokens for m in went_on.messages) < CONTEXT


async def test_a_summary_deletes_nothing(desk: Desk, session: Session):
    await talk(desk, session, 4)
    before = await desk.transcript(session)
    model = teller("They talked of words.", "Here I am.")
    await desk.take(model, session, "Are you there?")
    assert (await desk.transcript(session))[: len(before)] == before
    assert len(await search.messages(desk.store, "me", "Question 0")) == 1
    exported = b"".join([line async for line in transcripts.export(desk.store, "me", session.id)])
    assert b"Question 0." in exported
    lease = await leases.acquire(desk.store, session.id, "the terminal")
    undone = await transcripts.undo(desk.store, lease, 2)
    assert undone.messages[0].content.startswith("Question 3.")


async def test_the_next_turn_starts_from_the_summary_and_the_kept_turns(
    desk: Desk, session: Session
):
    await talk(desk, session, 4)
    model = teller("They talked.", "Here I am.", "Still here.")
    await desk.take(model, session, "Are you there?")
    await desk.take(model, session, "And now?")
    contents = [m.content for m in model.prompts[-1].messages]
    assert contents[0] == "They talked."
    assert contents[-3:] == ["Are you there?", "Here I am.", "And now?"]
    assert not any(content.startswith("Question 0.") for content in contents)


async def test_the_newest_turns_stay_word_for_word(desk: Desk, session: Session):
    await talk(desk, session, 6)
    await desk.take(ScriptedModel(["Brown."], context=100_000), session, "What colour are bears?")
    model = teller("They talked.", "White.")
    await desk.take(model, session, "And in the north?")
    contents = [m.content for m in model.prompts[-1].messages]
    assert contents[1:] == ["What colour are bears?", "Brown.", "And in the north?"]


async def test_old_tool_output_is_dropped_before_anything_is_summarised(
    desk: Desk, session: Session
):
    shell = call("shell", command="seq 1 2000")
    for _ in range(3):
        await desk.take([shell, "Done."], session, "Count")
    model = ScriptedModel(["Fine."], context=CONTEXT)
    events = await desk.take(model, session, "Well?")
    assert Compressing() not in events


async def test_if_the_summary_fails_the_turn_continues_with_the_messages_that_fit(
    desk: Desk, session: Session
):
    await talk(desk, session, 6)
    busy = ModelBusy(provider="It", reason="full")
    model = ScriptedModel([busy, "Here I am."], context=CONTEXT)
    events = await desk.take(model, session, "Are you there?")
    assert events[-1] == TurnDone()
    contents = [m.content for m in model.prompts[-1].messages]
    assert contents[-1] == "Are you there?"
    assert not any(content.startswith("Question 0.") for content in contents)
    kept = await transcripts.load(desk.store, session.id)
    assert all(m.kind is Kind.SAID for m in kept)


async def test_a_second_summary_is_made_of_the_first_and_what_followed(
    desk: Desk, session: Session
):
    await talk(desk, session, 4)
    await desk.take(teller("Summary one.", "Yes."), session, "Still?")
    await talk(desk, session, 4)
    model = teller("Summary two.", "Yes.")
    await desk.take(model, session, "And still?")
    assert "Summary one." in asked(model)
    assert "Still?" in asked(model)
    assert asked(model).count("Question 0.") == 1
    assert model.prompts[-1].messages[0].content == "Summary two."


async def test_the_user_can_request_a_summary(desk: Desk, session: Session):
    for number in range(4):
        await desk.take([f"Answer {number}."], session, f"Question {number}.")
    spent = Usage(input=100, output=10)
    async with desk.turns([Say(text="They talked.", usage=spent)]) as turns:
        summary = await turns.compress(session.id, Place())
    assert summary.content == "They talked."
    kept = await sessions.get(desk.store, session.id)
    assert kept is not None
    assert kept.usage == spent
    assert kept.id == session.id
    model = ScriptedModel(["Yes."])
    await desk.take(model, session, "Still?")
    assert [m.content for m in model.prompts[0].messages] == [
        "They talked.",
        *("Question 2.", "Answer 2.", "Question 3.", "Answer 3."),
        "Still?",
    ]


async def test_a_short_conversation_is_not_compressed(desk: Desk, session: Session):
    await desk.take(["Yes."], session, "Hm?")
    async with desk.turns(["Never."]) as turns:
        with pytest.raises(SessionError, match="nothing to compress"):
            await turns.compress(session.id, Place())


async def test_undoing_the_turn_with_the_summary_restores_the_window(desk: Desk, session: Session):
    await talk(desk, session, 4)
    model = teller("They talked.", "Here I am.")
    await desk.take(model, session, "Are you there?")
    lease = await leases.acquire(desk.store, session.id, "the terminal")
    await transcripts.undo(desk.store, lease)
    window = await transcripts.window(desk.store, session.id, 100_000)
    assert window.messages[0].content.startswith("Question 0.")
    assert [m.role for m in window].count(Role.USER) == 4
