"""The scripted model."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from segue.agent.models.base import Call, End, Model, Piece, Prompt, Stop, Text
from segue.agent.models.scripted import Say, ScriptedModel
from segue.core.errors import ModelBusy, ModelError
from segue.core.session import Usage
from segue.core.transcript import Message, Role, ToolCall

AT = datetime(2026, 11, 1, tzinfo=UTC)
CALL = ToolCall("c1", "read", '{"path": "a"}')


def asking(*words: str) -> Prompt:
    return Prompt(system="", messages=tuple(Message(Role.USER, w, AT) for w in words))


async def hear(model: Model, prompt: Prompt | None = None) -> list[Piece]:
    return [piece async for piece in model.stream(prompt or asking("hi"))]


def words(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))


async def test_without_a_script_it_says_that_it_is_not_a_model_and_echoes_the_message():
    model = ScriptedModel()
    for _ in range(2):
        pieces = await hear(model, asking("first", "what is\nthe time?"))
        assert "scripted stand-in, not a real model" in words(pieces)
        assert words(pieces).endswith("what is the time?")
        assert pieces[-1] == End(stop=Stop.DONE)


async def test_without_a_script_it_keeps_no_prompts():
    model = ScriptedModel()
    await hear(model, asking())
    assert model.prompts == []


async def test_without_a_message_it_still_says_what_it_is():
    assert "scripted stand-in" in words(await hear(ScriptedModel(), asking()))


async def test_text_streams_word_by_word_and_loses_no_space():
    text = "  one two\n\n three "
    pieces = await hear(ScriptedModel([text]))
    assert [p.text for p in pieces if isinstance(p, Text)] == ["  one ", "two\n\n ", "three "]


async def test_calls_come_after_the_text_and_are_the_stop_reason():
    usage = Usage(input=3, output=2)
    model = ScriptedModel([Say(text="Wait.", calls=(CALL,), usage=usage), CALL])
    assert await hear(model) == [Text("Wait."), Call(CALL), End(stop=Stop.CALLS, usage=usage)]
    assert await hear(model) == [Call(CALL), End(stop=Stop.CALLS)]


async def test_a_step_can_depend_on_the_prompt():
    model = ScriptedModel([lambda prompt: prompt.messages[-1].content.upper()])
    assert words(await hear(model, asking("loud"))) == "LOUD"
    assert model.prompts == [asking("loud")]


async def test_an_error_comes_at_once_or_after_some_words():
    busy = ModelBusy(provider="It", reason="full")
    model = ScriptedModel([busy, Say(text="So far", error=busy)])
    with pytest.raises(ModelBusy):
        await hear(model)
    stream = model.stream(asking("hi"))
    assert [await anext(stream), await anext(stream)] == [Text("So "), Text("far")]
    with pytest.raises(ModelBusy):
        await anext(stream)


async def test_a_request_beyond_the_script_is_an_error():
    model = ScriptedModel(["only this"])
    await hear(model)
    with pytest.raises(ModelError, match="its script is at its end"):
        await hear(model)


def test_its_name_is_scripted():
    assert (ScriptedModel().name, ScriptedModel(context=100).context) == ("scripted", 100)
