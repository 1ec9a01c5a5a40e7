"""The OpenAI client: building requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.agent.models.base import End, Prompt, Stop, Text
from segue.agent.models.openai import ServerDialect, build
from segue.core.errors import (
    ModelRefused,
)
from segue.core.transcript import Kind, Message, Role, ToolCall
from tests.agent.models.answers import AT, assistant, result, user
from tests.agent.models.openai.samples import (
    DIALECT,
    READ,
    A,
    B,
    a_model,
    ask,
    hear,
    sent,
    talking,
)
from tests.fakes.models.openai import Answer, Failure, Say, refusal
from tests.harness.line_counts import growth


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


def test_a_summary_is_labelled_as_a_summary():
    assert sent(user("We met.", kind=Kind.SUMMARY))[1] == {
        "role": "user",
        "content": "[A summary of our conversation up to here:]\n\nWe met.",
    }


@pytest.mark.parametrize("role", [Role.USER, Role.SYSTEM, Role.ASSISTANT])
def test_synthetic_prompts_are_sent_with_the_user_role(role: Role):
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


def test_consecutive_messages_of_one_role_are_merged():
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


def test_a_history_that_starts_with_the_assistant_gets_an_opening():
    said = sent(assistant("hello"), user())
    assert [m["role"] for m in said] == ["system", "user", "assistant", "user"]
    assert "left out" in said[1]["content"]


def test_an_interrupted_turn_is_closed_with_an_assistant_message():
    said = sent(user(), assistant("", A), result(A), user("stop"))
    assert said[-2] == {"role": "assistant", "content": "[I was interrupted.]"}


def test_an_empty_answer_is_left_out():
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


async def test_ids_and_names_of_other_providers_are_made_valid():
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
def test_the_token_limit_has_the_name_that_the_server_expects(url: str, limit: str):
    assert a_model(url)._dialect.limit == limit


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_the_other_name_of_the_token_limit_is_tried_if_refused(limit: str):
    async with talking([Say(text="ok")] * 2, {"limits": [limit]}) as (fake, model):
        assert (await hear(model))[0] == Text("ok")
        assert (await hear(model))[0] == Text("ok")
    asked = 2 if limit == "max_tokens" else 3
    assert len(fake.requests) == asked, "what was learnt is kept"
    assert limit in fake.requests[-1]


async def test_stream_options_are_dropped_if_refused():
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


async def test_a_server_that_refuses_every_field_is_not_retried_forever():
    def answer(_: Any) -> Answer:
        return refusal(400, "Unsupported parameter: 'max_tokens', 'max_completion_tokens'")

    async with talking(answer) as (fake, model):
        with pytest.raises(ModelRefused):
            await hear(model)
    assert len(fake.requests) == ServerDialect.LESSONS + 1


def test_a_request_is_built_in_linear_time():
    prompts = {count: ask(*conversation(count)) for count in (100, 400)}
    assert growth(lambda size: build(prompts[size], model="m", dialect=DIALECT), 100) < 1.1


async def test_a_history_of_5000_messages_is_accepted():
    async with talking([Say(text="ok")]) as (fake, model):
        assert (await hear(model, ask(*conversation(5000))))[0] == Text("ok")
    assert len(fake.requests[0]["messages"]) == 5001


def conversation(count: int) -> list[Message]:
    """Rounds of five messages: a question, two parallel calls with results, an answer."""
    rounds: list[Message] = []
    for i in range(count // 5):
        a, b = ToolCall(f"a{i}", "read", '{"path": "a"}'), ToolCall(f"b{i}", "read", "{}")
        words = f"message {i} " * 20
        rounds += [user(words), assistant("", a, b), result(a, words), result(b), assistant(words)]
    return rounds
