"""The OpenAI client: reading answers, including those of small models."""

from __future__ import annotations

from typing import Any

import pytest

from segue.agent.models.base import Call, End, Piece, Stop, Text
from segue.core.errors import (
    ModelCutOff,
    ModelOffline,
)
from segue.core.session import Usage
from segue.core.transcript import ToolCall
from tests.agent.models.answers import ONCE, assistant, places, result, user
from tests.agent.models.openai.samples import (
    FINISHED,
    RECORDED,
    SPENT,
    WHOLE,
    A,
    B,
    ask,
    fragment,
    hear,
    hear_stream,
    sent,
    talking,
)
from tests.fakes.models.openai import Say, Stream, chunk, delta, sse
from tests.fakes.models.travel import Travel

# Answers


async def test_an_answer_streams_and_ends_with_its_usage():
    script = [Say(text="Grüße aus Köln", prompt_tokens=90, completion_tokens=5, cached_tokens=64)]
    async with talking(script) as (fake, model):
        pieces = await hear(model)
    assert pieces == [
        Text("Grüße au"),
        Text("s Köln"),
        End(stop=Stop.DONE, usage=Usage(input=90, output=5, cached=64)),
    ]
    assert fake.received[0].headers["authorization"] == "Bearer sk-test"


async def test_a_tool_loop_runs_against_the_strict_server():
    script = [Say(text="Let me see.", calls=(A, B)), Say(text="Both are empty.")]
    async with talking(script) as (fake, model):
        first = await hear(model)
        calls = tuple(p.call for p in first if isinstance(p, Call))
        assert calls == (A, B)
        assert first[-1] == End(stop=Stop.CALLS, usage=Usage(input=20, output=10))
        history = (user(), assistant("Let me see.", *calls), *map(result, calls))
        second = await hear(model, ask(*history))
    assert "".join(p.text for p in second if isinstance(p, Text)) == "Both are empty."
    assert [m["role"] for m in fake.requests[1]["messages"]] == [
        "system", "user", "assistant", "tool", "tool",
    ]  # fmt: skip


@pytest.mark.parametrize("split", [1, 2, 3, 5, 7])
async def test_the_pieces_do_not_depend_on_how_the_stream_is_chunked(split: int):
    async with talking([Stream(RECORDED)], {"travel": Travel(chunk=split)}) as (_, model):
        assert await hear(model) == [*WHOLE, End(stop=Stop.CALLS, usage=SPENT)]


async def test_the_pieces_do_not_depend_on_a_split_at_any_byte(seed: int):
    async with talking(lambda _: Stream(RECORDED)) as (fake, model):
        for at in places(RECORDED, seed):
            fake.travel = Travel(chunk=at)
            assert await hear(model) == [*WHOLE, End(stop=Stop.CALLS, usage=SPENT)], at


async def test_a_stream_that_breaks_at_any_byte_is_complete_or_an_error(seed: int):
    ends: dict[str, int] = {}
    async with talking(lambda _: Stream(RECORDED), patience=ONCE) as (fake, model):
        for at in (0, *places(RECORDED, seed)):
            fake.travel = Travel(hang_up_after=at)
            pieces: list[Piece] = []
            try:
                async for piece in model.stream(ask()):
                    pieces.append(piece)
            except (ModelCutOff, ModelOffline) as error:
                assert at < FINISHED, "the answer was whole by then"
                assert not any(isinstance(p, Call | End) for p in pieces), at
                assert pieces == WHOLE[: len(pieces)]
                ends[type(error).__name__] = ends.get(type(error).__name__, 0) + 1
            else:
                assert at >= FINISHED, "half an answer passed off as whole"
                assert pieces[:-1] == WHOLE
                assert isinstance(pieces[-1], End)
                assert pieces[-1].stop is Stop.CALLS
                assert pieces[-1].usage in {SPENT, Usage()}
    assert set(ends) == {"ModelCutOff", "ModelOffline"}


async def test_a_stream_that_ends_cleanly_but_too_early_is_an_error():
    ends = [i + 2 for i in range(FINISHED - 2) if RECORDED[i : i + 2] == b"\n\n"]
    for at in (0, *ends[:-1]):
        async with talking([Stream(RECORDED[:at])]) as (_, model):
            with pytest.raises(ModelCutOff):
                await hear(model)


async def test_done_without_a_finish_reason_is_an_error():
    with pytest.raises(ModelCutOff):
        await hear_stream(delta(content="half"), "[DONE]")


async def test_a_finish_reason_without_done_ends_the_answer():
    assert await hear_stream(delta(content="all"), delta("stop")) == [
        Text("all"),
        End(stop=Stop.DONE),
    ]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", Stop.DONE),
        ("length", Stop.LENGTH),
        ("content_filter", Stop.REFUSED),
        ("tool_calls", Stop.DONE),
        ("eos", Stop.DONE),
    ],
)
async def test_every_finish_reason_is_understood(reason: str, stop: Stop):
    assert await hear_stream(delta(content="x"), delta(reason)) == [Text("x"), End(stop=stop)]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call"])
async def test_calls_are_returned_with_any_finish_reason(reason: str):
    whole = fragment(0, "call_a", name="read", arguments=A.arguments)
    pieces = await hear_stream(delta(reason, tool_calls=[whole]), "[DONE]")
    assert pieces == [Call(A), End(stop=Stop.CALLS)]


async def test_a_refusal_is_shown_and_named():
    assert await hear_stream(delta(refusal="I can't."), delta("stop")) == [
        Text("I can't."),
        End(stop=Stop.REFUSED),
    ]


async def test_an_answer_cut_off_in_a_call_keeps_only_complete_calls():
    a = fragment(0, "call_a", name="read", arguments=A.arguments)
    b = fragment(1, "call_b", name="read", arguments='{"path": ')
    assert await hear_stream(delta(tool_calls=[a]), delta(tool_calls=[b]), delta("length")) == [
        Call(A),
        End(stop=Stop.LENGTH),
    ]


C = ToolCall("call_c", "list", '{"path": "c"}')


@pytest.mark.parametrize(
    ("why", "fragments", "expected"),
    [
        (
            "whole calls, each in one delta",
            [fragment(0, "call_a", name="read", arguments=A.arguments),
             fragment(1, "call_c", name="list", arguments=C.arguments)],
            [A, C],
        ),
        (
            "every call numbered 0, as by Ollama",
            [fragment(0, "call_a", name="read", arguments=A.arguments),
             fragment(0, "call_b", name="read", arguments=B.arguments)],
            [A, B],
        ),
        (
            "no numbers",
            [fragment(None, "call_a", name="read", arguments=""),
             fragment(None, arguments=A.arguments),
             fragment(None, "call_b", name="read", arguments=B.arguments)],
            [A, B],
        ),
        (
            "the id and the name in every fragment",
            [fragment(0, "call_a", name="read", arguments=A.arguments[:5]),
             fragment(0, "call_a", name="read", arguments=A.arguments[5:]),
             fragment(1, "call_b", name="read", arguments=B.arguments)],
            [A, B],
        ),
        (
            "fragments of two calls in turns",
            [fragment(0, "call_a", name="read", arguments=A.arguments[:5]),
             fragment(1, "call_b", name="read", arguments=B.arguments[:5]),
             fragment(0, arguments=A.arguments[5:]),
             fragment(1, arguments=B.arguments[5:])],
            [A, B],
        ),
        (
            "arguments as an object",
            [fragment(0, "call_a", name="read", arguments={"path": "a"})],
            [ToolCall("call_a", "read", '{"path":"a"}')],
        ),
        (
            "no arguments",
            [fragment(0, "call_a", name="read")],
            [ToolCall("call_a", "read", "{}")],
        ),
        (
            "the id after the name",
            [fragment(0, name="read", arguments=""), fragment(0, "call_a", arguments=A.arguments)],
            [A],
        ),
    ],
)  # fmt: skip
async def test_calls_are_assembled_from_fragments(
    why: str, fragments: list[dict[str, Any]], expected: list[ToolCall]
):
    apart = [delta(tool_calls=[f]) for f in fragments]
    together = [delta(tool_calls=fragments)]
    for chunks in (apart, together):
        pieces = await hear_stream(*chunks, delta("tool_calls"), "[DONE]")
        assert pieces == [*map(Call, expected), End(stop=Stop.CALLS)], why


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("call_id", [None, ""])
async def test_calls_without_ids_get_one_each(index: int | None, call_id: str | None):
    pieces = await hear_stream(
        delta(tool_calls=[fragment(index, call_id, name="read", arguments=A.arguments)]),
        delta(tool_calls=[fragment(index, call_id, name="read", arguments=B.arguments)]),
        delta(tool_calls=[fragment(index, call_id, name="list", arguments=C.arguments)]),
        delta("stop"),
    )
    calls = [p.call for p in pieces if isinstance(p, Call)]
    assert [c.arguments for c in calls] == [A.arguments, B.arguments, C.arguments]
    assert len({c.id for c in calls}) == 3
    assert all(0 < len(c.id) <= 40 for c in calls)


async def test_two_calls_with_the_same_id_get_different_ones():
    pieces = await hear_stream(
        delta(tool_calls=[fragment(0, "same", name="read", arguments="{}")]),
        delta(tool_calls=[fragment(1, "same", name="read", arguments="{}")]),
        delta("tool_calls"),
    )
    assert len({p.call.id for p in pieces if isinstance(p, Call)}) == 2


async def test_thinking_empty_chunks_and_comments_are_ignored():
    body = (
        b": OPENROUTER PROCESSING\n\n"
        + sse(chunk([]), delta(reasoning_content="hm", reasoning="hm"), delta(content=None))
        + b"event: ping\ndata:\n\n"
        + sse(delta(content="x"), delta("stop"), "[DONE]").replace(b"\n", b"\r\n")
    )
    async with talking([Stream(body, "text/event-stream; charset=utf-8")]) as (_, model):
        assert await hear(model) == [Text("x"), End(stop=Stop.DONE)]


async def test_content_in_parts_is_text():
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "x"}]
    assert (await hear_stream(delta(content=parts), delta("stop")))[0] == Text("x")


async def test_usage_is_read_from_the_last_choice_or_from_every_chunk():
    tokens = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}
    one = chunk([{"delta": {"content": "x"}}], usage={**tokens, "completion_tokens": 1})
    last = chunk([{"delta": {}, "finish_reason": "stop"}], usage=tokens)
    assert (await hear_stream(one, last))[-1] == End(stop=Stop.DONE, usage=Usage(input=5, output=2))


async def test_an_answer_of_many_pieces_is_complete():
    chunks = [delta(content="word ") for _ in range(2000)]
    pieces = await hear_stream(*chunks, delta("stop"), "[DONE]")
    assert len(pieces) == 2001


# Small models


async def test_a_small_model_gets_tools_as_text_and_its_json_becomes_a_call():
    script = [Say(text='```json\n{"name": "read", "arguments": {"path": "a"}}\n```')]
    async with talking(script, small=True) as (fake, model):
        pieces = await hear(model, ask(user("Read the file a.")))
    assert "tools" not in fake.requests[0]
    assert "read(path): Read a file" in fake.requests[0]["messages"][0]["content"]
    assert isinstance(pieces[0], Call)
    assert (pieces[0].call.name, pieces[0].call.arguments) == ("read", '{"path": "a"}')
    assert isinstance(pieces[1], End)
    assert pieces[1].stop is Stop.CALLS


async def test_a_small_model_gets_no_tools_for_a_message_that_needs_none():
    text = '{"name": "read", "arguments": {"path": "a"}}'
    async with talking([Say(text=text)], small=True) as (fake, model):
        pieces = await hear(model, ask(user("My name is Anna.")))
    assert fake.requests[0]["messages"][0]["content"] == "Be brief."
    assert "".join(p.text for p in pieces if isinstance(p, Text)) == text


def test_a_small_model_sees_calls_and_results_as_text():
    said = sent(user("go"), assistant("", A), result(A, "empty"), assistant("x"), small=True)
    assert said[1:-1] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": '{"name": "read", "arguments": {"path": "a"}}'},
        {"role": "user", "content": "Result of read:\nempty"},
    ]


def test_a_small_model_answers_a_tool_result_without_tools():
    said = sent(user("go"), assistant("", A), result(A, "empty"), small=True)
    assert said[0]["content"] == "Be brief."
    assert said[-1]["content"] == (
        "Result of read:\nempty\n\nNow answer me in words, without JSON."
    )


def test_the_roles_in_the_history_of_a_small_model_alternate():
    said = sent(
        assistant("x"), user(), assistant("y", A, B), result(A), result(B), user("z"), small=True
    )
    assert [m["role"] for m in said[1:]] == ["user", "assistant"] * 2 + ["user"]
    assert said[-1]["content"].endswith("\n\nz")


async def test_the_text_of_a_small_model_streams_at_once():
    async with talking([Say(text="Here you are.")], small=True) as (_, model):
        pieces = await hear(model)
    assert pieces[:2] == [Text("Here you"), Text(" are.")]


async def test_a_call_of_a_small_model_cut_at_the_token_limit_is_shown_as_text():
    text = '{"name": "read", "arguments": {"pa'
    async with talking([Say(text=text, finish="length")], small=True) as (_, model):
        pieces = await hear(model, ask(user("Read the file a.")))
    assert pieces[0] == Text(text)
    assert isinstance(pieces[-1], End)
    assert pieces[-1].stop is Stop.LENGTH


async def test_json_from_a_large_model_stays_text():
    text = '{"name": "read", "arguments": {}}'
    async with talking([Say(text=text)]) as (_, model):
        pieces = await hear(model)
    assert "".join(p.text for p in pieces if isinstance(p, Text)) == text
