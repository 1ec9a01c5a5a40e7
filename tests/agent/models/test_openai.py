"""The client for OpenAI-compatible servers, against a strict fake of one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from segue.agent.models.base import Call, End, Piece, Prompt, Stop, Text, ToolSpec
from segue.agent.models.http import Patience
from segue.agent.models.openai import OpenAIModel
from segue.agent.models.openai.request import Dialect, build
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelCutOff,
    ModelError,
    ModelOffline,
    ModelRefused,
    ModelStalled,
    NoCredit,
    UnknownModel,
)
from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Role, ToolCall
from segue.testing.models.openai import (
    Answer,
    Failure,
    FakeOpenAI,
    Say,
    Stream,
    chunk,
    delta,
    no_quota,
    refusal,
    server_error,
    sse,
    too_long,
    too_many,
)
from segue.testing.models.travel import Travel
from segue.testing.pictures import BMP, png
from tests.agent.models import hearing
from tests.agent.models.hearing import AT, HASTE, ONCE, assistant, result, user

READ = ToolSpec(
    name="read",
    description="Read a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
)
A, B = ToolCall("call_a", "read", '{"path": "a"}'), ToolCall("call_b", "read", '{"path": "ü🙂"}')
DIALECT = Dialect(limit="max_tokens")

# In OpenAI's form, shortened: text with umlauts, two parallel calls, usage.
RECORDED = (
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-test",'
    '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"content":"Grüße "},"finish_reason":null}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"content":"🙂"},"finish_reason":null}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a",'
    '"type":"function","function":{"name":"read","arguments":""}}]}}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"path'
    '"}}]}}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\": \\"a'
    '\\"}"}}]}}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function",'
    '"function":{"name":"read","arguments":"{\\"path\\": "}}]}}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"\\"ü🙂\\"}'
    '"}}]}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    'data: {"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":12,'
    '"prompt_tokens_details":{"cached_tokens":64}}}\n\n'
    "data: [DONE]\n\n"
).encode()
_LAST = b'"finish_reason":"tool_calls"}]}\n\n'
FINISHED = RECORDED.index(_LAST) + len(_LAST)
SPENT = Usage(input=90, output=12, cached=64)
WHOLE: list[Piece] = [Text("Grüße "), Text("🙂"), Call(A), Call(B)]


def ask(*messages: Message, **more: Any) -> Prompt:
    return hearing.ask(*messages, tools=(READ,), **more)


def a_model(url: str, **more: Any) -> OpenAIModel:
    known: dict[str, Any] = {
        "name": "openai/gpt-test",
        "model": "gpt-test",
        "base_url": url,
        "key": "sk-test",
        "setting": "OPENAI_API_KEY",
        "context": 128_000,
        "patience": HASTE,
    }
    return OpenAIModel(**{**known, **more})


@contextlib.asynccontextmanager
async def talking(
    script: Iterable[Answer] | Callable[[Any], Answer], fake: Any = None, **more: Any
) -> AsyncGenerator[tuple[FakeOpenAI, OpenAIModel]]:
    server = FakeOpenAI(script, **(fake or {}))
    async with server.serving() as url:
        model = a_model(url, **more)
        try:
            yield server, model
        finally:
            await model.close()


async def hear(model: OpenAIModel, prompt: Prompt | None = None) -> list[Piece]:
    return await hearing.heard(model, prompt or ask())


async def hear_stream(*chunks: Any, **more: Any) -> list[Piece]:
    async with talking([Stream(sse(*chunks))], **more) as (_, model):
        return await hear(model)


def sent(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    body = build(ask(*messages), model="m", dialect=DIALECT, **more)
    return json.loads(body)["messages"]


def fragment(index: int | None, call_id: str | None = None, **function: Any) -> dict[str, Any]:
    known = {"index": index, "id": call_id}
    return {**{k: v for k, v in known.items() if v is not None}, "function": function}


# What is sent


def test_the_system_comes_first_and_tools_are_functions():
    body = json.loads(build(ask(max_tokens=99), model="m", dialect=DIALECT))
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 99,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Read a file.",
                    "parameters": dict(READ.parameters),
                },
            }
        ],
    }


def test_without_tools_and_system_neither_is_sent():
    body = json.loads(build(Prompt(system="", messages=(user(),)), model="m", dialect=DIALECT))
    assert "tools" not in body
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_a_summary_says_that_it_is_one():
    assert sent(user("We met.", kind=Kind.SUMMARY))[1] == {
        "role": "user",
        "content": "[A summary of our conversation up to here:]\n\nWe met.",
    }


@pytest.mark.parametrize("role", [Role.USER, Role.SYSTEM, Role.ASSISTANT])
def test_what_the_program_said_comes_from_the_user(role: Role):
    message = Message(role, "Go on.", AT, kind=Kind.SYNTHETIC)
    assert sent(message)[1:] == [{"role": "user", "content": "Go on."}]


def test_calls_and_results_keep_their_ids_and_empty_content_is_null():
    said = sent(user(), assistant("", A, B), result(A, "1"), result(B, ""), assistant("ok"))
    assert said[2]["content"] is None
    assert [c["id"] for c in said[2]["tool_calls"]] == ["call_a", "call_b"]
    assert said[2]["tool_calls"][1]["function"] == {"name": "read", "arguments": B.arguments}
    assert said[3:] == [
        {"role": "tool", "tool_call_id": "call_a", "content": "1"},
        {"role": "tool", "tool_call_id": "call_b", "content": ""},
        {"role": "assistant", "content": "ok"},
    ]


def test_neighbours_of_one_role_become_one_message():
    said = sent(user("a"), user("b"), assistant("c"), assistant("d", A), result(A), user("e"))
    assert [m["role"] for m in said] == [
        "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert said[1]["content"] == "a\n\nb"
    assert said[2]["content"] == "c\n\nd"
    assert said[2]["tool_calls"][0]["id"] == "call_a"


def test_two_rounds_of_calls_stay_two_messages():
    said = sent(user(), assistant("", A), result(A), assistant("", B), result(B))
    assert [m["role"] for m in said[1:]] == ["user", "assistant", "tool", "assistant", "tool"]


def test_a_history_that_begins_with_the_assistant_says_what_is_missing():
    said = sent(assistant("hello"), user())
    assert [m["role"] for m in said] == ["system", "user", "assistant", "user"]
    assert "left out" in said[1]["content"]


def test_an_interrupted_turn_is_closed_by_the_assistant():
    said = sent(user(), assistant("", A), result(A), user("stop"))
    assert said[-2] == {"role": "assistant", "content": "[I was interrupted.]"}


def test_an_answer_without_words_and_calls_is_left_out():
    assert [m["role"] for m in sent(user("a"), assistant(""), user("b"))] == ["system", "user"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', {"invalid": '{"a": '}),
        ("[1]", {"invalid": "[1]"}),
    ],
)
def test_arguments_are_always_sent_as_an_object(written: str, expected: dict[str, Any]):
    call = ToolCall("c", "read", written)
    said = sent(user(), assistant("", call), result(call))
    assert json.loads(said[2]["tool_calls"][0]["function"]["arguments"]) == expected


async def test_ids_and_names_of_other_providers_are_taken_by_openai():
    odd = ToolCall("x" * 200, "file.read/Ä" * 20, "{}")
    other = ToolCall("x" * 199 + "y", "", "{}")
    async with talking([Say(text="ok")]) as (fake, model):
        await hear(model, ask(user(), assistant("", odd, other), result(odd), result(other)))
    calls = fake.requests[0]["messages"][2]["tool_calls"]
    assert calls[0]["id"] != calls[1]["id"]
    assert calls[1]["function"]["name"] == "unknown"


@pytest.mark.parametrize(
    ("url", "limit"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1/", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://openrouter.ai/api/v1", "max_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
        ("https://api.openai.com.example.org/v1", "max_tokens"),
    ],
)
def test_the_limit_is_named_as_the_server_knows_it(url: str, limit: str):
    assert a_model(url)._dialect.limit == limit


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_a_server_that_wants_the_other_name_of_the_limit_gets_it(limit: str):
    async with talking([Say(text="ok")] * 2, {"limits": [limit]}) as (fake, model):
        assert (await hear(model))[0] == Text("ok")
        assert (await hear(model))[0] == Text("ok")
    asked = 2 if limit == "max_tokens" else 3
    assert len(fake.requests) == asked, "what was learnt is kept"
    assert limit in fake.requests[-1]


async def test_a_server_that_does_not_know_stream_options_is_asked_without():
    def answer(request: Any) -> Answer:
        if "stream_options" in request:
            return Failure(
                status=422,
                body=b'{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],'
                b'"msg":"Extra inputs are not permitted"}]}',
            )
        return Say(text="ok")

    async with talking(answer) as (_, model):
        assert await hear(model) == [Text("ok"), End(stop=Stop.DONE)]


async def test_a_server_that_refuses_every_name_is_not_asked_for_ever():
    def answer(_: Any) -> Answer:
        return refusal(400, "Unsupported parameter: 'max_tokens', 'max_completion_tokens'")

    async with talking(answer) as (fake, model):
        with pytest.raises(ModelRefused):
            await hear(model)
    assert len(fake.requests) == Dialect.LESSONS + 1


@pytest.mark.measures
def test_building_a_request_is_quick_and_linear():
    def cost(count: int) -> float:
        prompt = ask(*conversation(count))
        laps: list[float] = []
        for _ in range(5):
            begun = time.thread_time()
            build(prompt, model="m", dialect=DIALECT)
            laps.append(time.thread_time() - begun)
        return min(laps)

    assert cost(1000) < 0.010
    assert cost(5000) < 0.030


async def test_a_history_of_5000_messages_is_taken():
    async with talking([Say(text="ok")]) as (fake, model):
        assert (await hear(model, ask(*conversation(5000))))[0] == Text("ok")
    assert len(fake.requests[0]["messages"]) == 5001


def conversation(count: int) -> list[Message]:
    """Rounds of five: asked, called twice at once, answered."""
    rounds: list[Message] = []
    for i in range(count // 5):
        a, b = ToolCall(f"a{i}", "read", '{"path": "a"}'), ToolCall(f"b{i}", "read", "{}")
        words = f"message {i} " * 20
        rounds += [user(words), assistant("", a, b), result(a, words), result(b), assistant(words)]
    return rounds


# What comes back


async def test_an_answer_streams_and_ends_with_what_it_cost():
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
async def test_the_same_pieces_come_however_the_stream_is_chunked(split: int):
    async with talking([Stream(RECORDED)], {"travel": Travel(chunk=split)}) as (_, model):
        assert await hear(model) == [*WHOLE, End(stop=Stop.CALLS, usage=SPENT)]


# In eight parts, for a slow machine: together they take every byte.
PARTS = pytest.mark.parametrize("part", range(8))


@PARTS
async def test_the_same_pieces_come_with_a_cut_at_any_byte(part: int):
    async with talking(lambda _: Stream(RECORDED)) as (fake, model):
        for at in range(1 + part, len(RECORDED), 8):
            fake.travel = Travel(chunk=at)
            assert await hear(model) == [*WHOLE, End(stop=Stop.CALLS, usage=SPENT)], at


@PARTS
async def test_a_stream_that_breaks_at_any_byte_is_whole_or_an_error_never_half(part: int):
    ends: dict[str, int] = {}
    async with talking(lambda _: Stream(RECORDED), patience=ONCE) as (fake, model):
        for at in range(part, len(RECORDED), 8):
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


async def test_a_stream_that_ends_politely_but_too_early_is_an_error_too():
    ends = [i + 2 for i in range(FINISHED - 2) if RECORDED[i : i + 2] == b"\n\n"]
    for at in (0, *ends[:-1]):
        async with talking([Stream(RECORDED[:at])]) as (_, model):
            with pytest.raises(ModelCutOff):
                await hear(model)


async def test_done_without_a_reason_is_not_an_end():
    with pytest.raises(ModelCutOff):
        await hear_stream(delta(content="half"), "[DONE]")


async def test_a_reason_without_done_is_an_end():
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
async def test_the_reason_to_stop_is_understood(reason: str, stop: Stop):
    assert await hear_stream(delta(content="x"), delta(reason)) == [Text("x"), End(stop=stop)]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call"])
async def test_calls_are_calls_whatever_the_reason_given(reason: str):
    whole = fragment(0, "call_a", name="read", arguments=A.arguments)
    pieces = await hear_stream(delta(reason, tool_calls=[whole]), "[DONE]")
    assert pieces == [Call(A), End(stop=Stop.CALLS)]


async def test_a_refusal_is_shown_and_named():
    assert await hear_stream(delta(refusal="I can't."), delta("stop")) == [
        Text("I can't."),
        End(stop=Stop.REFUSED),
    ]


async def test_an_answer_cut_short_in_a_call_keeps_only_whole_calls():
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
async def test_calls_are_put_together_from(
    why: str, fragments: list[dict[str, Any]], expected: list[ToolCall]
):
    apart = [delta(tool_calls=[f]) for f in fragments]
    together = [delta(tool_calls=fragments)]
    for chunks in (apart, together):
        pieces = await hear_stream(*chunks, delta("tool_calls"), "[DONE]")
        assert pieces == [*map(Call, expected), End(stop=Stop.CALLS)], why


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("call_id", [None, ""])
async def test_calls_without_ids_are_told_apart_and_get_one_each(
    index: int | None, call_id: str | None
):
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


async def test_thinking_empty_chunks_and_comments_are_passed_over():
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


async def test_usage_may_come_with_the_last_choice_or_with_every_chunk():
    tokens = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}
    one = chunk([{"delta": {"content": "x"}}], usage={**tokens, "completion_tokens": 1})
    last = chunk([{"delta": {}, "finish_reason": "stop"}], usage=tokens)
    assert (await hear_stream(one, last))[-1] == End(stop=Stop.DONE, usage=Usage(input=5, output=2))


@pytest.mark.measures
async def test_an_answer_of_ten_thousand_pieces_comes_in_good_time():
    chunks = [delta(content="word ") for _ in range(10_000)]
    begun = time.perf_counter()
    pieces = await hear_stream(*chunks, delta("stop"), "[DONE]")
    assert len(pieces) == 10_001
    assert time.perf_counter() - begun < 5


# Small models


async def test_a_small_model_is_told_of_tools_in_words_and_its_json_becomes_a_call():
    script = [Say(text='```json\n{"name": "read", "arguments": {"path": "a"}}\n```')]
    async with talking(script, small=True) as (fake, model):
        pieces = await hear(model, ask(user("Read the file a.")))
    assert "tools" not in fake.requests[0]
    assert "read(path): Read a file" in fake.requests[0]["messages"][0]["content"]
    assert isinstance(pieces[0], Call)
    assert (pieces[0].call.name, pieces[0].call.arguments) == ("read", '{"path": "a"}')
    assert isinstance(pieces[1], End)
    assert pieces[1].stop is Stop.CALLS


async def test_a_small_model_is_not_told_of_tools_that_nobody_wants():
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


def test_a_small_model_that_has_its_result_is_asked_for_words_and_not_told_of_tools():
    said = sent(user("go"), assistant("", A), result(A, "empty"), small=True)
    assert said[0]["content"] == "Be brief."
    assert said[-1]["content"] == (
        "Result of read:\nempty\n\nNow answer me in words, without JSON."
    )


def test_a_small_models_history_takes_turns():
    said = sent(
        assistant("x"), user(), assistant("y", A, B), result(A), result(B), user("z"), small=True
    )
    assert [m["role"] for m in said[1:]] == ["user", "assistant"] * 2 + ["user"]
    assert said[-1]["content"].endswith("\n\nz")


async def test_a_small_models_words_stream_at_once():
    async with talking([Say(text="Here you are.")], small=True) as (_, model):
        pieces = await hear(model)
    assert pieces[:2] == [Text("Here you"), Text(" are.")]


async def test_a_small_models_call_that_ran_out_of_room_is_shown_as_text():
    text = '{"name": "read", "arguments": {"pa'
    async with talking([Say(text=text, finish="length")], small=True) as (_, model):
        pieces = await hear(model, ask(user("Read the file a.")))
    assert pieces[0] == Text(text)
    assert isinstance(pieces[-1], End)
    assert pieces[-1].stop is Stop.LENGTH


async def test_a_large_models_json_stays_text():
    text = '{"name": "read", "arguments": {}}'
    async with talking([Say(text=text)]) as (_, model):
        pieces = await hear(model)
    assert "".join(p.text for p in pieces if isinstance(p, Text)) == text


# What goes wrong


def said(status: int, body: str) -> Failure:
    return Failure(status=status, body=body.encode())


# Texts as servers send them; the sources are beside each.
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (no_quota(), NoCredit),
        # OpenRouter's documentation, errors.
        (said(402, '{"error":{"code":402,"message":"Insufficient credits"}}'), NoCredit),
        (said(401, '{"error":{"code":401,"message":"User not found."}}'), BadKey),
        (said(401, ""), BadKey),
        (too_long(), ContextTooLong),
        # ggml-org/llama.cpp#15780, oobabooga/textgen#7257
        (said(400, '{"error":{"code":400,"message":"the request exceeds the available context '
                   'size. try increasing the context size or enable context shift","type":'
                   '"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}'),
         ContextTooLong),
        (said(500, '{"error":{"code":500,"message":"the request exceeds the available context '
                   'size, try increasing it","type":"server_error"}}'), ContextTooLong),
        # meta-llama/llama-verifications#58 (vLLM)
        (said(400, '{"object":"error","message":"This model\'s maximum context length is 131072 '
                   'tokens. However, you requested 156632 tokens (152536 in the messages, 4096 in '
                   'the completion). Please reduce the length of the messages or completion.",'
                   '"type":"BadRequestError","param":null,"code":400}'), ContextTooLong),
        # vllm-project/vllm#4667
        (said(400, '{"object":"error","message":"max_tokens must be at least 1, got -186.",'
                   '"type":"BadRequestError","code":400}'), ContextTooLong),
        # earendil-works/pi#6378 (OpenRouter)
        (said(400, '{"error":{"message":"This endpoint\'s maximum context length is 262000 tokens. '
                   'However, you requested about 263390 tokens","code":400}}'), ContextTooLong),
        # lmstudio-ai/lmstudio-bug-tracker#546, #2205; anomalyco/opencode#11141
        (said(400, '{"error":"Trying to keep the first 111490 tokens when context the overflows. '
                   'However, the model is loaded with context length of only 32768 tokens, which '
                   'is not enough."}'), ContextTooLong),
        (said(400, '{"error":"The number of tokens to keep from the initial prompt is greater than '
                   'the context length."}'), ContextTooLong),
        (said(400, '{"error":"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}'),
         ContextTooLong),
        # Ollama, from memory
        (said(400, '{"error":{"message":"prompt too long; exceeded max context length by 12 '
                   'tokens"}}'), ContextTooLong),
        # abetlen/llama-cpp-python#416
        (said(500, '{"error":{"message":"Requested tokens (2285) exceed context window of 2048"}}'),
         ContextTooLong),
        # OpenAI's limit of tokens a minute, from memory: no later request of this size would pass.
        (said(429, '{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): '
                   'Limit 30000, Requested 41235.","type":"tokens","code":"rate_limit_exceeded"}}'),
         ContextTooLong),
        # Ollama, from memory; vLLM, from memory
        (said(404, '{"error":{"message":"model \\"gpt-test\\" not found, try pulling it first",'
                   '"type":"api_error","param":null,"code":null}}'), UnknownModel),
        (said(404, '{"object":"error","message":"The model `gpt-test` does not exist.","type":'
                   '"NotFoundError","param":null,"code":404}'), UnknownModel),
        # maxnowack/anthropic-proxy#4 (OpenRouter)
        (said(400, '{"error":{"message":"gpt-test is not a valid model ID","code":400}}'),
         UnknownModel),
        # lastmile-ai/mcp-agent#237 (OpenRouter)
        (said(404, '{"error":{"message":"No endpoints found that support tool use.","code":404}}'),
         ModelRefused),
        (said(404, "404 page not found"), ModelOffline),
        # vllm-project/vllm#6862
        (said(400, '{"object":"error","message":"After the optional system message, conversation '
                   'roles must alternate","type":"BadRequestError","code":400}'), ModelRefused),
        (said(400, "nonsense"), ModelRefused),
        (said(403, '{"error":{"code":403,"message":"Your input was flagged"}}'), ModelRefused),
        (too_many(), ModelBusy),
        (server_error(500), ModelBusy),
        (server_error(503), ModelBusy),
        (said(502, "<html>Bad gateway</html>"), ModelBusy),
        (said(301, ""), ModelError),
        (said(501, "no"), ModelError),
    ],
)  # fmt: skip
async def test_a_refusal_becomes_an_error_that_a_person_can_act_on(
    answer: Failure, error: type[ModelError]
):
    async with talking(lambda _: answer) as (fake, model):
        with pytest.raises(ModelError) as caught:
            await hear(model)
    assert type(caught.value) is error
    assert len(fake.requests) == (HASTE.tries if error is ModelBusy else 1)


async def test_a_bad_key_names_the_setting_and_not_the_key():
    async with talking([], key="sk-secret") as (_, model):
        with pytest.raises(BadKey, match="Check OPENAI_API_KEY") as caught:
            await hear(model)
    assert "secret" not in str(caught.value)


async def test_a_missing_key_is_a_bad_key():
    async with talking([], key=None) as (fake, model):
        with pytest.raises(BadKey):
            await hear(model)
    assert "authorization" not in fake.received[0].headers


async def test_a_local_server_needs_no_key():
    async with talking([Say(text="ok")], {"key": None}, key=None) as (_, model):
        assert (await hear(model))[0] == Text("ok")


async def test_a_key_with_a_line_break_at_its_end_is_mended():
    async with talking([Say(text="ok")], key="sk-test\n") as (_, model):
        assert (await hear(model))[0] == Text("ok")


@pytest.mark.parametrize("key", ["sk-té", "sk-\ntest", "sk-\x00"])
async def test_a_key_that_no_header_can_hold_is_a_bad_key(key: str):
    async with talking([], key=key) as (fake, model):
        with pytest.raises(BadKey):
            await hear(model)
    assert not fake.received


async def test_an_unknown_model_is_named():
    async with talking([], model="gpt-none") as (_, model):
        with pytest.raises(UnknownModel, match="gpt-none"):
            await hear(model)


async def test_the_provider_is_named_for_the_person():
    with pytest.raises(ModelOffline, match="ollama cannot be reached at http://127"):
        await hear(a_model("http://127.0.0.1:9/v1", name="ollama/qwen", patience=ONCE))


async def test_a_mistyped_address_says_so():
    async with FakeOpenAI([]).serving() as url:
        model = a_model(url.removesuffix("/v1"))
        with pytest.raises(ModelError, match="Invalid URL"):
            await hear(model)
        await model.close()


async def test_what_openrouters_provider_said_is_passed_on():
    body = {"error": {"message": "Provider returned error", "code": 400,
                      "metadata": {"raw": "tool names are odd."}}}  # fmt: skip
    async with talking([said(400, json.dumps(body))]) as (_, model):
        with pytest.raises(ModelRefused, match=r"request: tool names are odd\. Try"):
            await hear(model)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"error": {"message": "The server had an error", "type": "server_error"}}, ModelError),
        ({"error": {"message": "overloaded", "code": 529}}, ModelBusy),
        ({"error": {"message": "slow down", "code": "429"}, "choices": []}, ModelBusy),
        ({"error": {"message": "broke", "code": 402}}, NoCredit),
        ({"error": {"code": 400, "message": "the request exceeds the available context size"}},
         ContextTooLong),
        ({"error": "just text"}, ModelError),
        ({"object": "error", "message": "max_tokens unsupported", "code": 400}, ModelError),
        ("not json", ModelError),
        ("[1, 2]", ModelError),
        ('{"choices": [{"delta": 7}]}', ModelError),
    ],
)  # fmt: skip
async def test_an_error_inside_of_the_stream_is_an_error(event: Any, error: type[ModelError]):
    async with talking(lambda _: Stream(sse(delta(content="half"), event))) as (fake, model):
        pieces = model.stream(ask())
        assert await anext(pieces) == Text("half")
        with pytest.raises(ModelError) as caught:
            await anext(pieces)
    assert type(caught.value) is error
    assert len(fake.requests) == 1, "an answer that was begun is not asked for again"


async def test_an_event_called_error_is_one():
    body = sse(delta(content="x")) + b'event: error\ndata: {"message": "boom"}\n\n'
    async with talking([Stream(body)]) as (_, model):
        with pytest.raises(ModelError, match="boom"):
            await hear(model)


# Again


@pytest.mark.parametrize("failure", [server_error(500), server_error(503), too_many()])
async def test_a_busy_server_is_asked_again(failure: Failure):
    async with talking([failure, failure, Say(text="ok")]) as (fake, model):
        assert (await hear(model))[0] == Text("ok")
    assert len(fake.requests) == 3


async def test_after_the_last_try_the_person_hears_of_it():
    async with talking([server_error(503)] * 3 + [Say(text="late")]) as (fake, model):
        with pytest.raises(ModelBusy, match="overloaded"):
            await hear(model)
    assert len(fake.requests) == 3


@pytest.mark.parametrize("after", ["0", "0.001", format_datetime(AT, usegmt=True), "soon", ""])
async def test_the_server_may_say_when_to_come_back(after: str):
    async with talking([too_many(after), Say(text="ok")]) as (_, model):
        assert (await hear(model))[0] == Text("ok")


async def test_a_connection_lost_before_the_answer_began_is_tried_again():
    async with talking(lambda _: Say(text="ok")) as (fake, model):
        fake.travel = Travel(hang_up_after=0)
        with pytest.raises(ModelOffline):
            await hear(model)
        assert len(fake.requests) == HASTE.tries


async def test_a_connection_lost_in_the_answer_is_not_tried_again():
    async with talking(lambda _: Say(text="one two three")) as (fake, model):
        fake.travel = Travel(hang_up_after=400)
        with pytest.raises(ModelCutOff):
            await hear(model)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("after", [0, 400])
async def test_a_server_that_falls_silent_has_stalled(after: int):
    patience = Patience(connect=5, silence=0.05, tries=3)
    fake = {"travel": Travel(stall_after=after)}
    async with talking([Say(text="one two three")], fake, patience=patience) as (_, model):
        with pytest.raises(ModelStalled):
            await hear(model)


async def test_an_answer_that_is_whole_is_not_lost_when_the_server_then_stalls():
    patience = Patience(connect=5, silence=0.05, tries=1)
    fake = {"travel": Travel(stall_after=FINISHED)}
    async with talking([Stream(RECORDED)], fake, patience=patience) as (_, model):
        assert await hear(model) == [*WHOLE, End(stop=Stop.CALLS)]


async def test_a_slow_server_is_waited_for():
    fake = {"travel": Travel(chunk=100, pause=0.005)}
    patience = Patience(connect=5, silence=1, tries=1)
    async with talking([Stream(RECORDED)], fake, patience=patience) as (_, model):
        assert (await hear(model))[:-1] == WHOLE


async def test_closing_the_generator_drops_the_connection():
    fake = {"travel": Travel(drip_after=600)}
    async with talking([Say(text="one two three four five")], fake) as (server, model):
        pieces = model.stream(ask())
        assert await anext(pieces) == Text("one two ")
        await pieces.aclose()
        async with asyncio.timeout(10):
            await server.left.wait()


async def test_cancelling_the_turn_drops_the_connection():
    fake = {"travel": Travel(drip_after=600)}
    async with talking([Say(text="one two three four five")], fake) as (server, model):
        begun = asyncio.Event()

        async def turn() -> None:
            async for _ in model.stream(ask()):
                begun.set()

        task = asyncio.create_task(turn())
        async with asyncio.timeout(10):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left.wait()


async def test_a_connection_is_used_again_after_a_whole_answer():
    async with talking([Say(text="ok")] * 3) as (_, model):
        for _ in range(3):
            await hear(model)
            assert connections(model) == 1


async def test_a_connection_is_not_kept_where_that_is_unwanted():
    async with talking([Say(text="ok")], reuse=False) as (_, model):
        await hear(model)
        assert connections(model) == 0


def connections(model: OpenAIModel) -> int:
    http = model._client._http
    assert isinstance(http, httpx2.AsyncClient)
    transport: Any = http._transport
    return len(transport._pool.connections)


async def test_nothing_is_left_behind():
    async with talking([Say(text="ok"), no_quota()]) as (_, model):
        await hear(model)
        with pytest.raises(NoCredit):
            await hear(model)
    gc.collect()


# The fake itself: what OpenAI refuses


async def post(fake: FakeOpenAI, body: dict[str, Any], key: str = "sk-test") -> tuple[int, Any]:
    async with fake.serving() as url, httpx2.AsyncClient() as http:
        headers = {"Authorization": f"Bearer {key}"}
        answer = await http.post(f"{url}/chat/completions", json=body, headers=headers)
        return answer.status_code, answer.json()["error"]


HI = {"role": "user", "content": "hi"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    ],
}


def pictured(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def says(*parts: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(parts)}]}


@pytest.mark.parametrize(
    ("change", "status", "code", "text"),
    [
        ({"top_k": 1}, 400, None, "Unrecognized request argument supplied: top_k"),
        ({"model": "x"}, 404, "model_not_found", "The model `x` does not exist"),
        ({"messages": []}, 400, "empty_array", "Invalid 'messages': empty array"),
        ({"tools": []}, 400, "empty_array", "Invalid 'tools': empty array"),
        ({"messages": [{"role": "ai", "content": "x"}]}, 400, "invalid_value", "'ai'"),
        ({"messages": [{"role": "user"}]}, 400, None, "expected a string, got null"),
        ({"messages": [HI, {"role": "tool", "tool_call_id": "c1", "content": ""}]}, 400, None,
         "must be a response to a preceeding message with 'tool_calls'"),
        ({"messages": [HI, CALLED, {"role": "tool", "tool_call_id": "c2", "content": ""}]}, 400,
         None, "must be a response to a preceeding message"),
        ({"messages": [HI, CALLED, HI]}, 400, None, "did not have response messages: c1"),
        ({"messages": [HI, CALLED]}, 400, None, "did not have response messages: c1"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, 400, "invalid_value",
         "Invalid 'tools[0].function.name': string does not match pattern"),
        ({"tools": [{"type": "function", "function": {"name": "a" * 65}}]}, 400,
         "string_above_max_length", "maximum length 64"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "x"}}}]},
         400, "invalid_function_parameters", "JSON Schema"),
        ({"stream_options": {"include_usage": True}}, 400, None, "only allowed when 'stream'"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, 400, "invalid_parameter_combination", ""),
        (says({"type": "image"}), 400, "invalid_value", "'text' and 'image_url'"),
        (says({"type": "text"}), 400, "missing_required_parameter", "content[0].text"),
        (says(pictured(png()), role="assistant"), 400, "invalid_value", "with role 'assistant'"),
        (says(pictured(png()), role="system"), 400, "invalid_value", "only allowed for messages"),
        ({"messages": [HI, CALLED, {"role": "tool", "tool_call_id": "c1", "content": [
            pictured(png())]}]}, 400, "invalid_value", "with role 'tool' contains an image"),
        (says(), 400, "empty_array", "content"),
        (says(pictured(png(), "application/pdf")), 400, "invalid_image_format", "MIME type"),
        (says({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO*"}}), 400,
         "invalid_base64", "Invalid base64"),
        (says(pictured(BMP)), 400, "invalid_image_format", "['png', 'jpeg', 'gif', 'webp']"),
        (says(pictured(png(size=21_000_000))), 400, "invalid_image_format", "below 20 MB"),
    ],
)  # fmt: skip
async def test_the_fake_refuses(change: dict[str, Any], status: int, code: str | None, text: str):
    got, error = await post(
        FakeOpenAI([Say(text="no")]), {"model": "gpt-test", "messages": [HI], **change}
    )
    assert (got, error["code"]) == (status, code)
    assert error["type"] == "invalid_request_error"
    assert text in error["message"]
    assert error.keys() == {"message", "type", "param", "code"}


async def test_the_fake_refuses_pictures_for_a_model_that_cannot_see():
    body = {"model": "gpt-test", **says(pictured(png()))}
    status, error = await post(FakeOpenAI([Say(text="no")], images=False), body)
    assert (status, "only supported by certain models" in error["message"]) == (400, True)


async def test_the_fake_refuses_a_wrong_key_and_a_script_at_its_end():
    assert (await post(FakeOpenAI([]), {}, key="sk-no"))[1]["code"] == "invalid_api_key"
    status, error = await post(FakeOpenAI([]), {"model": "gpt-test", "messages": [HI]})
    assert (status, error["message"]) == (400, "The script of this fake is at its end.")
