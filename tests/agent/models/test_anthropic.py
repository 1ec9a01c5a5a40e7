"""The Anthropic client, against a strict fake of the Messages API."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from segue.agent.models import anthropic
from segue.agent.models.anthropic import build
from segue.agent.models.base import End, Stop
from segue.agent.models.messages import ONWARD, OPENING
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelServerError,
    NoCredit,
)
from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Role, ToolCall
from segue.testing.http import Request
from tests.agent.models.answers import AT, HASTE, ask, assistant, heard, joined, kept, result, user
from tests.agent.models.providers import CLAUDE
from tests.fakes.models.anthropic import (
    OVERLOADED,
    Answer,
    Failure,
    FakeAnthropic,
    Stream,
    event,
    sse,
    text,
    thinking,
    tool_use,
)
from tests.fakes.models.travel import Travel
from tests.fakes.pictures import BMP, GIF, JPEG, png

RECORDED, DONE = CLAUDE.recorded, CLAUDE.done
talking, exchange, accepted = CLAUDE.talking, CLAUDE.exchange, CLAUDE.accepted


async def test_an_answer_with_text_and_two_parallel_calls_is_complete():
    words, calls, end = joined(await exchange(RECORDED))
    assert words == "Both files — «naïve», 漢字."
    assert calls == [
        ToolCall("toolu_01A", "run", '{"command":"cat a","n":[1]}'),
        ToolCall("toolu_01B", "run", "{}"),
    ]
    assert end == End(stop=Stop.CALLS, usage=Usage(input=315, output=42, cached=300))


async def test_an_answer_is_complete_even_if_the_stream_stays_open(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(anthropic, "_LAST_BYTES", 0.05)
    stream = sse(DONE)
    late = Stream(body=stream, travel=Travel(stall_after=len(stream)))
    assert joined(await exchange(late))[0] == "Done."


@pytest.mark.parametrize(
    "failure",
    [
        OVERLOADED,
        Failure(status=429, kind="rate_limit_error"),
        Failure(status=503, kind="api_error"),
    ],
)
async def test_a_server_that_stays_busy_is_reported_as_busy(failure: Failure):
    with pytest.raises(ModelBusy):
        await exchange(*[failure] * HASTE.tries)


async def test_an_internal_error_that_stays_is_not_reported_as_busy():
    with pytest.raises(ModelServerError, match="had an internal error"):
        await exchange(*[Failure(status=500, kind="api_error")] * HASTE.tries)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (
            Failure(
                status=400,
                kind="invalid_request_error",
                message="Your credit balance is too low to access the Anthropic API. "
                "Please go to Plans & Billing to upgrade or purchase credits.",
            ),
            NoCredit,
        ),
        (Failure(status=402, kind="billing_error"), NoCredit),
        (Failure(status=403, kind="permission_error"), BadKey),
        (Failure(status=413, kind="request_too_large"), ContextTooLong),
        (
            Failure(
                status=400,
                kind="invalid_request_error",
                message="input length and `max_tokens` exceed context limit: 199000 + 4096 > "
                "200000, decrease input length or `max_tokens` and try again",
            ),
            ContextTooLong,
        ),
        (
            Failure(status=400, kind="invalid_request_error", message="tools.0: no such thing"),
            ModelRefused,
        ),
    ],
)
async def test_each_failure_has_its_own_error(failure: Failure, error: type[ModelError]):
    fake = FakeAnthropic([failure])
    async with talking(fake) as model:
        with pytest.raises(error):
            await heard(model)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", ModelBusy),
        ("api_error", ModelServerError),
        ("invalid_request_error", ModelRefused),
    ],
)
async def test_an_error_inside_the_stream_ends_it(kind: str, error: type[ModelError]):
    begun = sse(RECORDED)[:1200].rpartition(b"\n\n")[0] + b"\n\n"
    broken = begun + event({"type": "error", "error": {"type": kind, "message": "Overloaded"}})
    with pytest.raises(error, match="Overloaded"):
        await exchange(Stream(body=broken))


async def test_unknown_events_are_ignored():
    news = event({"type": "weather_report", "sky": "blue"})
    assert joined(await exchange(Stream(body=news + sse(DONE))))[0] == "Done."


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", Stop.DONE),
        ("stop_sequence", Stop.DONE),
        ("max_tokens", Stop.LENGTH),
        ("model_context_window_exceeded", Stop.LENGTH),
        ("pause_turn", Stop.LENGTH),
        ("refusal", Stop.REFUSED),
        ("something_new", Stop.DONE),
    ],
)
async def test_every_stop_reason_is_distinguished(reason: str, stop: Stop):
    answer = Answer(content=[text("So far")], stop=reason)
    assert joined(await exchange(answer))[2].stop is stop


async def test_a_call_cut_off_by_the_token_limit_is_dropped():
    cut = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"command": "rm -r'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": None},
        {"type": "message_stop"},
    ]
    _, calls, end = joined(await exchange(Stream(body=b"".join(map(event, cut)))))
    assert calls == []
    assert end.stop is Stop.LENGTH


async def test_a_refused_answer_has_no_calls():
    answer = Answer(content=[text("Well"), tool_use("toolu_1", "run")], stop="refusal")
    _, calls, end = joined(await exchange(answer))
    assert calls == []
    assert end.stop is Stop.REFUSED


# Requests


def sent(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    """The messages as they are sent, without the cache marks."""
    body = build("claude-fake", ask(*messages, **more), thinking=True)
    for message in body["messages"]:
        for block in message["content"]:
            block.pop("cache_control", None)
    return body["messages"]


ONE = ToolCall("toolu_1", "run", '{"command":"ls"}')
TWO = ToolCall("toolu_2", "run", "{}")


async def test_results_come_first_and_consecutive_messages_are_merged():
    messages = (
        user("a"),
        user("b"),
        assistant("", ONE, TWO),
        result(ONE),
        result(TWO, ""),
        user("c"),
    )
    body = await accepted(*messages)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    assert [b["type"] for b in body["messages"][2]["content"]] == [
        "tool_result",
        "tool_result",
        "text",
    ]
    assert "content" not in body["messages"][2]["content"][1]


async def test_a_window_that_starts_with_the_assistant_gets_an_opening():
    body = await accepted(assistant("Hello again."), user("hi"))
    assert body["messages"][0]["content"][0]["text"] == OPENING


async def test_a_window_that_ends_with_the_assistant_gets_a_prompt_to_continue():
    body = await accepted(user("hi"), assistant("I was about to "))
    assert body["messages"][-1]["content"][0]["text"] == ONWARD


async def test_blank_messages_are_left_out():
    body = await accepted(user("hi"), assistant(" \n"), user(""), user("there"))
    texts = [block["text"] for message in body["messages"] for block in message["content"]]
    assert texts == ["hi", "there"]


async def test_an_empty_window_makes_a_valid_request():
    body = await accepted(user("  "), system="", tools=())
    assert "system" not in body
    assert len(body["messages"]) == 1


def test_summaries_and_synthetic_prompts_have_the_user_role():
    summary = Message(Role.ASSISTANT, "They talked.", AT, kind=Kind.SUMMARY)
    synthetic = Message(Role.SYSTEM, "Moved here.", AT, kind=Kind.SYNTHETIC)
    told = "[A summary of our conversation up to here:]\n\nThey talked."
    assert sent(summary, synthetic, user("hi")) == [
        {"role": "user", "content": [text(told), text("Moved here."), text("hi")]}
    ]


@pytest.mark.parametrize("written", ["", "[1, 2]", "not json", '{"a": ', "null", '"x"', "\ud800"])
async def test_arguments_that_are_not_an_object_are_wrapped_in_one(written: str):
    call = ToolCall("toolu_1", "run", written)
    given = sent(user("hi"), assistant("", call), result(call))[1]["content"][0]["input"]
    assert given == ({"arguments": written} if written else {})
    if written != "\ud800":
        await accepted(user("hi"), assistant("", call), result(call))


async def test_ids_of_other_providers_are_mapped_deterministically():
    strange = ToolCall("call|a.b/ü", "run", "{}")
    nameless = ToolCall("", "run", "{}")
    messages = (user("hi"), assistant("", strange, nameless), result(strange), result(nameless))
    await accepted(*messages)
    first, again = sent(*messages), sent(*messages)
    assert first == again
    assert [b["id"] for b in first[1]["content"]] == [b["tool_use_id"] for b in first[2]["content"]]


async def test_duplicate_ids_are_made_unique():
    call = ToolCall("call_0", "run", "{}")
    other = ToolCall("call_0_1", "run", "{}")
    turn = (assistant("", call, call), result(call, "first"), result(call, "second"))
    await accepted(user("hi"), *turn, assistant("", other), result(other), *turn)


async def test_invalid_names_are_replaced():
    call = ToolCall("toolu_1", "functions.run:0", "{}")
    await accepted(user("hi"), assistant("", call), result(call))


async def test_a_conversation_with_calls_can_be_summarised_without_tools():
    body = await accepted(user("hi"), assistant("", ONE), result(ONE), tools=())
    assert body["tool_choice"] == {"type": "none"}


async def test_at_most_four_cache_marks_are_set_at_the_ends_of_earlier_requests():
    turns = [m for i in range(5) for m in (user(f"q{i}"), assistant(f"a{i}"))]
    body = await accepted(*turns, user("last"))
    assert "cache_control" in body["system"][0]
    marked = [i for i, m in enumerate(body["messages"]) if "cache_control" in m["content"][-1]]
    assert marked == [6, 8, 10]


# Thinking


THOUGHT = Answer(
    content=[
        thinking("Hm. First the one,", "sig-1"),
        text("Let me see."),
        thinking("then the other.", "sig-2"),
        tool_use("toolu_1", "run", command="ls"),
    ],
    stop="tool_use",
)


async def test_thinking_is_sent_back_unchanged_and_in_its_place():
    fake = FakeAnthropic([THOUGHT, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        assert answer.content == "Let me see."
        await heard(model, ask(user("hi"), answer, result(answer.tool_calls[0])))
    assert fake.requests[1]["messages"][1]["content"] == list(THOUGHT.content)


async def test_redacted_thinking_is_sent_back():
    hidden = {"type": "redacted_thinking", "data": "b64=="}
    fake = FakeAnthropic([Answer(content=[hidden, text("Hi.")]), DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        await heard(model, ask(user("hi"), answer, user("and?")))
    assert fake.requests[1]["messages"][1]["content"] == [hidden, text("Hi.")]


async def test_thinking_at_the_end_of_an_answer_is_not_sent_back():
    cut = Answer(content=[text("Well."), thinking("Hm", "sig-1")], stop="max_tokens")
    fake = FakeAnthropic([cut, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        await heard(model, ask(user("hi"), answer, user("go on")))
    assert not fake.refusals


async def test_thinking_that_is_no_longer_accepted_is_left_out():
    fake = FakeAnthropic([THOUGHT, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        fake.accepts_thinking = False
        pieces = await heard(model, ask(user("changed"), answer, result(answer.tool_calls[0])))
    assert joined(pieces)[0] == "Done."
    assert [b["type"] for b in fake.requests[2]["messages"][1]["content"]] == ["text", "tool_use"]


async def test_another_error_is_not_retried_without_thinking():
    refused = Failure(status=400, kind="invalid_request_error", message="max_tokens: too many")
    fake = FakeAnthropic([THOUGHT, refused, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        with pytest.raises(ModelRefused):
            await heard(model, ask(user("hi"), answer, result(answer.tool_calls[0])))
    assert len(fake.requests) == 2


@pytest.mark.parametrize("layout", ["nonsense", [99], ["toolu_9"], [None], [], {"a": 1}])
async def test_an_invalid_layout_is_ignored(layout: Any):
    body = await accepted(
        user("hi"), assistant("a", ONE, extras={"anthropic": layout}), result(ONE)
    )
    assert [b["type"] for b in body["messages"][1]["content"]] == ["text", "tool_use"]


# The fake itself

HI = {"role": "user", "content": "hi"}
USE = {"role": "assistant", "content": [tool_use("t1", "run")]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
GOOD = {"model": "claude-fake", "max_tokens": 9, "stream": True, "messages": [HI]}
TOOLS = {"tools": [{"name": "run", "input_schema": {"type": "object"}}]}
MARKED = {**text("x"), "cache_control": {"type": "ephemeral"}}


def picture(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    given = base64.b64encode(data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": given}}


def of_user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


async def put(body: dict[str, Any], **headers: str) -> tuple[int, str]:
    """The status and the message of the error."""
    given = {"x-api-key": "sk-ant-fake", "anthropic-version": "2023-06-01", **headers}
    request = Request("POST", "/v1/messages", given, msgspec.json.encode(body))
    response = await FakeAnthropic([DONE])(request)
    if response.status == 200:
        return 200, ""
    assert isinstance(response.body, bytes)
    told = msgspec.json.decode(response.body)
    assert told["type"] == "error"
    return response.status, told["error"]["message"]


async def test_the_fake_accepts_valid_requests():
    assert await put(GOOD) == (200, "")
    turn = [HI, USE, {"role": "user", "content": [RESULT]}]
    assert await put({**GOOD, **TOOLS, "messages": turn}) == (200, "")
    assert await put({**GOOD, **of_user(picture(GIF, "image/gif"), text("a"))}) == (200, "")


async def test_the_fake_refuses_a_request_that_is_too_large():
    many = of_user(*[picture(png(size=3_900_000))] * 7)
    assert await put({**GOOD, **many}) == (413, "Request exceeds the maximum size")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": 1}, "colour: Extra inputs are not permitted"),
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "first message must use"),
        ({"messages": [HI, HI]}, "roles must alternate"),
        ({"messages": [HI, {"role": "assistant", "content": "a"}]}, "prefill"),
        ({"messages": [{"role": "user", "content": ""}]}, "must be non-empty"),
        ({"messages": [{"role": "user", "content": " "}]}, "non-whitespace"),
        ({"messages": [{"role": "user", "content": []}]}, "non-empty content"),
        ({"messages": [{"role": "user", "content": [{**text("a"), "b": 1}]}]}, "Extra inputs"),
        ({"messages": [{**HI, "name": "x"}]}, "Extra inputs"),
        ({"messages": [{"role": "user", "content": [tool_use("t", "run")]}]}, "does not match"),
        ({"messages": [{"role": "user", "content": [RESULT]}]}, "unexpected `tool_use_id`"),
        ({**TOOLS, "messages": [HI, USE, HI]}, "ids were found without `tool_result`"),
        ({"messages": [HI, USE, {"role": "user", "content": [RESULT]}]}, "must define tools"),
        (
            {**TOOLS, "messages": [HI, USE, {"role": "user", "content": [text("a"), RESULT]}]},
            "immediately after",
        ),
        (
            {**TOOLS, "messages": [HI, USE, {"role": "user", "content": [RESULT, RESULT]}]},
            "single result",
        ),
        (
            {**TOOLS, "messages": [HI, {"role": "assistant", "content": [tool_use("a.b", "run")]}]},
            "should match pattern",
        ),
        ({"messages": [{"role": "user", "content": [MARKED] * 5}]}, "Found 5"),
        ({"tools": [{"name": "a b", "input_schema": {"type": "object"}}]}, "should match pattern"),
        ({"tools": [{"name": "a", "input_schema": {}}]}, "input_schema.type"),
        ({"system": ""}, "non-empty"),
        (
            {"messages": [HI, {"role": "assistant", "content": [thinking("a", "b"), text("c")]}]},
            "Invalid `signature`",
        ),
        (
            {"messages": [HI, {"role": "assistant", "content": [picture(png())]}]},
            "Input tag 'image' found using 'type' does not match",
        ),
        (of_user({"type": "image"}), "image.source: Field required"),
        (of_user({"type": "image", "source": {"type": "url"}}), "does not match 'base64'"),
        (of_user(picture(BMP, "image/bmp")), "Input should be 'image/jpeg', 'image/png'"),
        (of_user(picture(JPEG, "image/png")), "does not match the provided media type image/png"),
        (of_user(picture(BMP, "image/png")), "Could not process image"),
        (of_user(picture(b"", "image/png")), "image cannot be empty"),
        (
            of_user(picture(png(size=4_000_000))),
            "0.image.source.base64: image exceeds 5 MB maximum: 5333336 bytes > 5242880 bytes",
        ),
        (of_user(picture(png(8001, 1))), "exceed max allowed size: 8000 pixels"),
        (
            of_user({"type": "image", "source": {**picture(GIF)["source"], "data": "R0lG*"}}),
            "Invalid base64",
        ),
    ],
)
async def test_the_fake_refuses_what_the_real_api_refuses(change: dict[str, Any], words: str):
    status, told = await put({**GOOD, **change})
    assert status == 400
    assert words in told


async def test_the_fake_needs_a_valid_key_and_a_known_model():
    assert (await put(GOOD, **{"x-api-key": "no"}))[0] == 401
    assert await put({**GOOD, "model": "claude-nope"}) == (404, "model: claude-nope")
