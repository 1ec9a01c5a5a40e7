"""Summaries and titles of conversations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from segue.agent.models.base import Prompt
from segue.agent.models.scripted import Say, ScriptedModel
from segue.agent.summaries import MAX_PARTS, summarise, title
from segue.core.errors import ModelBusy, ModelError
from segue.core.session import Usage
from segue.core.text import tokens_in
from segue.core.transcript import Image, Kind, Message, Role, ToolCall, Transcript

AT = datetime(2026, 11, 1, tzinfo=UTC)


def said(text: str, role: Role = Role.USER, kind: Kind = Kind.SAID) -> Message:
    return Message(role, text, AT, tokens=tokens_in(text), kind=kind)


def asked(model: ScriptedModel) -> list[str]:
    return [prompt.messages[0].content for prompt in model.prompts]


async def test_a_summary_covers_all_messages_and_tool_calls():
    model = ScriptedModel([Say(text="They met.", usage=Usage(input=9, output=2))])
    call = ToolCall("1", "read_file", '{"path": "a.txt"}')
    talk = Transcript(
        (
            said("Earlier.", Role.SYSTEM, Kind.SUMMARY),
            said("What is in a.txt?"),
            Message(Role.ASSISTANT, "", AT, tool_calls=(call,)),
            Message(Role.TOOL, "hello", AT, tool_call_id="1", tool_name="read_file"),
            said("It says hello.", Role.ASSISTANT),
        )
    )
    summary = await summarise(model, talk)
    assert summary.text == "They met."
    assert summary.usage == Usage(input=9, output=2)
    (text,) = asked(model)
    for part in ("Earlier.", "What is in a.txt?", '{"path": "a.txt"}', "hello", "It says hello."):
        assert part in text
    assert model.prompts[0].tools == ()


async def test_a_picture_without_words_is_summarised_as_a_picture():
    model = ScriptedModel(["So."])
    picture = Message(Role.USER, "", AT, images=(Image("image/png", b"1"),))
    await summarise(model, Transcript((picture, said("A cat.", Role.ASSISTANT))))
    assert "Person: [a picture]\n\nAgent: A cat." in asked(model)[0]


async def test_a_conversation_too_long_for_the_model_is_summarised_in_parts():
    model = ScriptedModel([f"Summary {n}." for n in range(1, 9)], context=8192)
    talk = Transcript(tuple(said(f"{n} " + "word " * 1000) for n in range(8)))
    summary = await summarise(model, talk)
    texts = asked(model)
    assert len(texts) > 1
    assert summary.text == f"Summary {len(texts)}."
    assert all(f"Summary {n}." in text for n, text in enumerate(texts) if n)
    assert all(
        tokens_in(text) + p.max_tokens < 8192 for text, p in zip(texts, model.prompts, strict=True)
    )
    assert all(any(f": {n} word" in text for text in texts) for n in range(8))


async def test_a_huge_conversation_takes_a_bounded_number_of_requests():
    model = ScriptedModel(["So."] * MAX_PARTS, context=2048)
    talk = Transcript(tuple(said(f"{n} " + "word " * 1000) for n in range(50)))
    await summarise(model, talk)
    assert len(model.prompts) == MAX_PARTS
    assert ": 49 word" in asked(model)[-1]


async def test_one_huge_message_is_truncated_for_the_summary():
    model = ScriptedModel(["So."], context=8192)
    await summarise(model, Transcript((said("x" * 1_000_000),)))
    assert tokens_in(asked(model)[0]) < 4096


async def test_an_empty_answer_is_not_a_summary():
    with pytest.raises(ModelError):
        await summarise(ScriptedModel([" "]), Transcript((said("hi"),)))


async def test_a_model_that_fails_makes_no_summary():
    busy = ModelBusy(provider="It", reason="full")
    with pytest.raises(ModelBusy):
        await summarise(ScriptedModel([busy]), Transcript((said("hi"),)))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Cats and dogs", "Cats and dogs"),
        ('"Cats and dogs."', "Cats and dogs"),
        ("\n**Cats and dogs**\nBecause you asked.", "Cats and dogs"),
        ("\x1b[31mCats\x07 and dogs", "[31mCats and dogs"),
        ("'", ""),
    ],
)
async def test_a_title_is_one_clean_line(answer: str, expected: str):
    talk = Transcript((said("Cats?"), said("Dogs.", Role.ASSISTANT)))
    assert await title(ScriptedModel([answer]), talk) == expected


async def test_an_answer_that_is_too_long_is_not_a_title():
    talk = Transcript((said("Cats?"),))
    assert await title(ScriptedModel(["word " * 100]), talk) == ""


async def test_a_title_is_made_from_the_first_exchange():
    def check(prompt: Prompt) -> str:
        assert "Cats?" in prompt.messages[0].content
        assert "Number 20" not in prompt.messages[0].content
        return "Cats"

    talk = Transcript((said("Cats?"), *(said(f"Number {n}") for n in range(30))))
    assert await title(ScriptedModel([check]), talk) == "Cats"
