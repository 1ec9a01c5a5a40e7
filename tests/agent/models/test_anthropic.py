"""The Anthropic client, against a strict stand-in for the Messages API."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from segue.agent.models.alternating import ONWARD, OPENING
from segue.agent.models.anthropic import AnthropicModel
from segue.agent.models.anthropic.request import build
from segue.agent.models.base import Call, End, Model, Piece, Prompt, Stop, Text, ToolSpec
from segue.agent.models.http import Patience
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
from segue.core.transcript import Kind, Message, Role, ToolCall, Transcript
from segue.testing.http import Request, Response, serving
from segue.testing.models.anthropic import (
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
from segue.testing.models.travel import Travel
from segue.testing.pictures import BMP, GIF, JPEG, png

AT = datetime(2026, 11, 1, tzinfo=UTC)
HASTE = Patience(connect=5, silence=5, tries=3, first_pause=0.001, longest_pause=0.01)
ONCE = Patience(connect=5, silence=5, tries=1)
RUN = ToolSpec(
    name="run",
    description="Run a command.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
)
RECORDED = Answer(
    content=[
        text("Both files — «naïve», 漢字."),
        tool_use("toolu_01A", "run", command="cat a", n=[1]),
        tool_use("toolu_01B", "run"),
    ],
    stop="tool_use",
    usage={
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 300,
        "output_tokens": 42,
    },
)
DONE = Answer(content=[text("Done.")])


def user(words: str, **more: Any) -> Message:
    return Message(Role.USER, words, AT, **more)


def said(words: str, *calls: ToolCall, **more: Any) -> Message:
    return Message(Role.ASSISTANT, words, AT, tool_calls=calls, **more)


def result(call: ToolCall, words: str = "ok") -> Message:
    return Message(Role.TOOL, words, AT, tool_call_id=call.id, tool_name=call.name)


def ask(
    *messages: Message, tools: Sequence[ToolSpec] = (RUN,), system: str = "Be brief."
) -> Prompt:
    return Prompt(system=system, messages=messages or (user("hi"),), tools=tuple(tools))


def model_at(url: str, patience: Patience = HASTE, **more: Any) -> AnthropicModel:
    given: dict[str, Any] = {
        "name": "anthropic/claude-fake",
        "model": "claude-fake",
        "base_url": url,
        "key": "sk-ant-fake",
        "setting": "ANTHROPIC_API_KEY",
        "context": 200_000,
        "patience": patience,
    }
    return AnthropicModel(**{**given, **more})


@asynccontextmanager
async def talking(
    fake: FakeAnthropic, patience: Patience = HASTE, **more: Any
) -> AsyncGenerator[AnthropicModel]:
    async with serving(fake) as url:
        model = model_at(url, patience, **more)
        try:
            yield model
        finally:
            await model.close()


async def heard(model: Model, prompt: Prompt | None = None) -> list[Piece]:
    async with asyncio.timeout(20), aclosing(model.stream(prompt or ask())) as pieces:
        return [piece async for piece in pieces]


def joined(pieces: list[Piece]) -> tuple[str, list[ToolCall], End]:
    """The whole answer, however it was cut up."""
    end = pieces[-1]
    assert isinstance(end, End)
    words = "".join(piece.text for piece in pieces if isinstance(piece, Text))
    return words, [piece.call for piece in pieces if isinstance(piece, Call)], end


async def exchange(*script: Any, prompt: Prompt | None = None, **more: Any) -> list[Piece]:
    async with talking(FakeAnthropic(script), **more) as model:
        return await heard(model, prompt)


async def test_an_answer_with_text_and_two_parallel_calls_arrives_whole():
    words, calls, end = joined(await exchange(RECORDED))
    assert words == "Both files — «naïve», 漢字."
    assert calls == [
        ToolCall("toolu_01A", "run", '{"command":"cat a","n":[1]}'),
        ToolCall("toolu_01B", "run", "{}"),
    ]
    assert end == End(stop=Stop.CALLS, usage=Usage(input=315, output=42, cached=300))


async def test_chunks_of_one_byte_give_the_same_pieces():
    whole = await exchange(RECORDED)
    stream = Stream(body=sse(RECORDED), travel=Travel(chunk=1))
    assert await exchange(stream) == whole


async def test_a_slow_stream_gives_the_same_pieces():
    stream = Stream(body=sse(RECORDED), travel=Travel(chunk=400, pause=0.005))
    assert await exchange(stream) == await exchange(RECORDED)


@pytest.mark.parametrize(("way", "step"), [("hang_up_after", 1), ("end_after", 7)])
async def test_a_stream_cut_at_any_byte_is_whole_or_an_error(way: str, step: int):
    stream = sse(RECORDED)
    whole = joined(await exchange(RECORDED))
    places = {*range(0, len(stream), step), *range(len(stream) - 100, len(stream) + 1)}
    cuts = [Stream(body=stream, travel=Travel(**{way: at})) for at in places]
    outcomes: dict[str, int] = {}
    lanes = asyncio.Semaphore(16)

    async def one(model: AnthropicModel) -> None:
        pieces: list[Piece] = []
        async with lanes:
            try:
                async with aclosing(model.stream(ask())) as answer:
                    async for piece in answer:
                        pieces.append(piece)
            except (ModelCutOff, ModelOffline) as error:
                kind = type(error).__name__
                assert not any(isinstance(piece, Call | End) for piece in pieces)
            else:
                kind = "whole"
                assert joined(pieces) == whole
            outcomes[kind] = outcomes.get(kind, 0) + 1

    async with talking(FakeAnthropic(cuts), ONCE) as model, asyncio.timeout(60):
        await asyncio.gather(*(one(model) for _ in cuts))
    assert sum(outcomes.values()) == len(cuts)
    assert outcomes["ModelCutOff"] > len(cuts) // 2


async def test_an_answer_is_whole_at_its_last_word_even_if_the_stream_stays_open():
    stream = sse(DONE)
    late = Stream(body=stream, travel=Travel(stall_after=len(stream)))
    assert joined(await exchange(late))[0] == "Done."


async def test_a_busy_server_is_asked_again_until_it_answers():
    fake = FakeAnthropic([OVERLOADED, Failure(status=500, kind="api_error"), DONE])
    async with talking(fake) as model:
        assert joined(await heard(model))[0] == "Done."
    assert len(fake.requests) == 3


async def test_retry_after_is_honoured():
    limited = Failure(status=429, kind="rate_limit_error", headers={"retry-after": "0.2"})
    patience = Patience(tries=2, first_pause=0.0, longest_pause=5)
    begun = time.monotonic()
    assert joined(await exchange(limited, DONE, patience=patience))[0] == "Done."
    assert time.monotonic() - begun >= 0.2


@pytest.mark.parametrize(
    "failure",
    [
        OVERLOADED,
        Failure(status=429, kind="rate_limit_error"),
        Failure(status=500, kind="api_error"),
        Failure(status=503, kind="api_error"),
    ],
)
async def test_a_server_that_stays_busy_is_reported_as_busy(failure: Failure):
    with pytest.raises(ModelBusy):
        await exchange(*[failure] * HASTE.tries)


async def test_a_stall_is_noticed():
    stream = Stream(body=sse(RECORDED), travel=Travel(stall_after=600))
    with pytest.raises(ModelStalled):
        await exchange(stream, patience=Patience(silence=0.1, tries=1))


async def test_closing_the_stream_drops_the_connection():
    stream = Stream(body=sse(RECORDED), travel=Travel(drip_after=900))
    fake = FakeAnthropic([stream])
    async with talking(fake) as model, asyncio.timeout(10):
        async with aclosing(model.stream(ask())) as pieces:
            assert isinstance(await anext(pieces), Text)
        await fake.left.wait()


async def test_cancelling_the_task_drops_the_connection():
    stream = Stream(body=sse(RECORDED), travel=Travel(drip_after=900))
    fake = FakeAnthropic([stream])
    begun = asyncio.Event()

    async def listen(model: AnthropicModel) -> None:
        async with aclosing(model.stream(ask())) as pieces:
            async for _ in pieces:
                begun.set()

    async with talking(fake) as model, asyncio.timeout(10):
        task = asyncio.create_task(listen(model))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await fake.left.wait()


async def test_a_wrong_key_names_its_setting():
    with pytest.raises(BadKey, match="ANTHROPIC_API_KEY"):
        await exchange(DONE, key="wrong")


async def test_an_unknown_model_is_named():
    with pytest.raises(UnknownModel, match="claude-nope"):
        await exchange(DONE, model="claude-nope")


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
async def test_each_failure_is_told_apart(failure: Failure, error: type[ModelError]):
    fake = FakeAnthropic([failure])
    async with talking(fake) as model:
        with pytest.raises(error):
            await heard(model)
    assert len(fake.requests) == 1


async def test_a_prompt_that_is_too_long_says_so():
    async with talking(FakeAnthropic([DONE], context=100)) as model:
        with pytest.raises(ContextTooLong):
            await heard(model, ask(user("word " * 200)))


async def test_no_server_is_offline():
    model = model_at("http://127.0.0.1:9", HASTE)
    with pytest.raises(ModelOffline, match=r"127\.0\.0\.1:9"):
        await heard(model)
    await model.close()


async def test_a_page_that_is_not_the_api_is_not_an_unknown_model():
    async def elsewhere(_: Request) -> Response:
        return Response(status=404, body=b"<html>nginx</html>")

    async with serving(elsewhere) as url:
        model = model_at(url)
        with pytest.raises(ModelError, match="HTTP 404") as raised:
            await heard(model)
        await model.close()
    assert type(raised.value) is ModelError


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", ModelBusy),
        ("api_error", ModelBusy),
        ("invalid_request_error", ModelRefused),
    ],
)
async def test_an_error_inside_the_stream_ends_it(kind: str, error: type[ModelError]):
    begun = sse(RECORDED)[:1200].rpartition(b"\n\n")[0] + b"\n\n"
    broken = begun + event({"type": "error", "error": {"type": kind, "message": "Overloaded"}})
    with pytest.raises(error, match="Overloaded"):
        await exchange(Stream(body=broken))


async def test_events_that_are_not_known_are_passed_over():
    news = event({"type": "weather_report", "sky": "blue"})
    assert joined(await exchange(Stream(body=news + sse(DONE))))[0] == "Done."


async def test_a_stream_of_something_else_is_an_error():
    with pytest.raises(ModelError, match="cannot be read"):
        await exchange(Stream(body=b"data: <html>\n\n"))


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
async def test_each_reason_to_stop_is_told_apart(reason: str, stop: Stop):
    answer = Answer(content=[text("So far")], stop=reason)
    assert joined(await exchange(answer))[2].stop is stop


async def test_a_call_cut_short_by_the_token_limit_is_not_passed_off_as_a_call():
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


# What is sent


def sent(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    """The messages as they go out, without the cache marks."""
    body = build("claude-fake", ask(*messages, **more), thinking=True)
    for message in body["messages"]:
        for block in message["content"]:
            block.pop("cache_control", None)
    return body["messages"]


async def accepted(*messages: Message, **more: Any) -> dict[str, Any]:
    fake = FakeAnthropic([DONE])
    async with talking(fake) as model:
        await heard(model, ask(*messages, **more))
    assert not fake.refusals
    return fake.requests[0]


ONE = ToolCall("toolu_1", "run", '{"command":"ls"}')
TWO = ToolCall("toolu_2", "run", "{}")


async def test_results_come_first_and_neighbours_are_joined():
    messages = (
        user("a"),
        user("b"),
        said("", ONE, TWO),
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


async def test_a_window_that_begins_with_the_assistant_gets_an_opening():
    body = await accepted(said("Hello again."), user("hi"))
    assert body["messages"][0]["content"][0]["text"] == OPENING


async def test_a_window_that_ends_with_the_assistant_is_asked_to_go_on():
    body = await accepted(user("hi"), said("I was about to "))
    assert body["messages"][-1]["content"][0]["text"] == ONWARD


async def test_blank_messages_are_left_out():
    body = await accepted(user("hi"), said(" \n"), user(""), user("there"))
    texts = [block["text"] for message in body["messages"] for block in message["content"]]
    assert texts == ["hi", "there"]


async def test_nothing_at_all_can_still_be_asked():
    body = await accepted(user("  "), system="", tools=())
    assert "system" not in body
    assert len(body["messages"]) == 1


def test_summaries_and_our_own_prompts_are_the_users_words():
    summary = Message(Role.ASSISTANT, "They talked.", AT, kind=Kind.SUMMARY)
    synthetic = Message(Role.SYSTEM, "Moved here.", AT, kind=Kind.SYNTHETIC)
    told = "[A summary of our conversation up to here:]\n\nThey talked."
    assert sent(summary, synthetic, user("hi")) == [
        {"role": "user", "content": [text(told), text("Moved here."), text("hi")]}
    ]


@pytest.mark.parametrize("written", ["", "[1, 2]", "not json", '{"a": ', "null", '"x"', "\ud800"])
async def test_arguments_that_are_no_object_are_sent_as_one(written: str):
    call = ToolCall("toolu_1", "run", written)
    given = sent(user("hi"), said("", call), result(call))[1]["content"][0]["input"]
    assert given == ({"arguments": written} if written else {})
    if written != "\ud800":
        await accepted(user("hi"), said("", call), result(call))


async def test_ids_of_other_providers_are_mapped_the_same_way_every_time():
    strange = ToolCall("call|a.b/ü", "run", "{}")
    nameless = ToolCall("", "run", "{}")
    messages = (user("hi"), said("", strange, nameless), result(strange), result(nameless))
    await accepted(*messages)
    first, again = sent(*messages), sent(*messages)
    assert first == again
    assert [b["id"] for b in first[1]["content"]] == [b["tool_use_id"] for b in first[2]["content"]]


async def test_ids_that_were_given_twice_are_told_apart():
    call = ToolCall("call_0", "run", "{}")
    other = ToolCall("call_0_1", "run", "{}")
    turn = (said("", call, call), result(call, "first"), result(call, "second"))
    await accepted(user("hi"), *turn, said("", other), result(other), *turn)


async def test_names_that_are_not_allowed_are_mended():
    call = ToolCall("toolu_1", "functions.run:0", "{}")
    await accepted(user("hi"), said("", call), result(call))


async def test_a_conversation_with_calls_can_be_summed_up_without_tools():
    body = await accepted(user("hi"), said("", ONE), result(ONE), tools=())
    assert body["tool_choice"] == {"type": "none"}


async def test_cache_marks_are_at_most_four_and_stand_where_requests_ended():
    turns = [m for i in range(5) for m in (user(f"q{i}"), said(f"a{i}"))]
    body = await accepted(*turns, user("last"))
    assert "cache_control" in body["system"][0]
    marked = [i for i, m in enumerate(body["messages"]) if "cache_control" in m["content"][-1]]
    assert marked == [6, 8, 10]


# Thinking


def kept(pieces: list[Piece]) -> Message:
    """The answer as the transcript keeps it, through the store and back."""
    words, calls, end = joined(pieces)
    stored = msgspec.json.encode(said(words, *calls, extras=end.extras or None))
    return msgspec.json.decode(stored, type=Message)


THOUGHT = Answer(
    content=[
        thinking("Hm. First the one,", "sig-1"),
        text("Let me see."),
        thinking("then the other.", "sig-2"),
        tool_use("toolu_1", "run", command="ls"),
    ],
    stop="tool_use",
)


async def test_thinking_goes_back_verbatim_and_in_its_place():
    fake = FakeAnthropic([THOUGHT, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        assert answer.content == "Let me see."
        await heard(model, ask(user("hi"), answer, result(answer.tool_calls[0])))
    assert fake.requests[1]["messages"][1]["content"] == list(THOUGHT.content)


async def test_hidden_thinking_goes_back_too():
    hidden = {"type": "redacted_thinking", "data": "b64=="}
    fake = FakeAnthropic([Answer(content=[hidden, text("Hi.")]), DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        await heard(model, ask(user("hi"), answer, user("and?")))
    assert fake.requests[1]["messages"][1]["content"] == [hidden, text("Hi.")]


async def test_thinking_at_the_very_end_of_an_answer_stays_away():
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


async def test_another_refusal_is_not_tried_without_thinking():
    refused = Failure(status=400, kind="invalid_request_error", message="max_tokens: too many")
    fake = FakeAnthropic([THOUGHT, refused, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        with pytest.raises(ModelRefused):
            await heard(model, ask(user("hi"), answer, result(answer.tool_calls[0])))
    assert len(fake.requests) == 2


@pytest.mark.parametrize("layout", ["nonsense", [99], ["toolu_9"], [None], [], {"a": 1}])
async def test_a_layout_that_does_not_fit_is_ignored(layout: Any):
    body = await accepted(user("hi"), said("a", ONE, extras={"anthropic": layout}), result(ONE))
    assert [b["type"] for b in body["messages"][1]["content"]] == ["text", "tool_use"]


# Whole conversations


async def test_a_conversation_begun_elsewhere_is_accepted():
    foreign = {"gemini": [{"call": "x", "signature": "s"}], "openai": {"reasoning": "r"}}
    one = ToolCall("call_é.1", "run", '{"command": "ls"}')
    two = ToolCall("call_é.1", "weird name", "{oops")
    lost = ToolCall("fc:77", "run", "{}")
    begun = Transcript((
        said("I am in the middle.", extras=foreign),
        user("go on"),
        said("", one, two, extras=foreign),
        result(one, "listing"),
        said("", lost, extras=foreign),
        user("are you there?"),
    ))  # fmt: skip
    await accepted(*begun.repaired(AT))


def long_history(length: int) -> tuple[Message, ...]:
    messages: list[Message] = []
    while len(messages) < length:
        call = ToolCall(f"call_{len(messages)}", "run", '{"command": "git status --short"}')
        messages += [
            user("Please look at the state of the repository. " * 4),
            said("I will look.", call),
            result(call, "M src/segue/agent.py\n" * 10),
            said("There is one change. " * 6),
        ]
    return (*messages[: length - 1], user("And now?"))


async def test_five_thousand_messages_are_accepted():
    fake = FakeAnthropic([DONE], context=10_000_000)
    async with talking(fake) as model:
        await heard(model, ask(*Transcript(long_history(5000)).repaired(AT)))
    assert not fake.refusals


@pytest.mark.parametrize(("length", "limit"), [(1000, 0.010), (5000, 0.030)])
def test_a_long_request_is_built_quickly(length: int, limit: float):
    prompt = ask(*long_history(length))

    def cost() -> float:
        begun = time.process_time()  # Ours alone, whatever else the machine does.
        msgspec.json.encode(build("claude-fake", prompt, thinking=True))
        return time.process_time() - begun

    best = min(cost() for _ in range(7))
    print(f"anthropic: {length} messages in {best * 1000:.1f} ms")
    assert best < limit


# The stand-in itself

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
    """Status, and the words of the refusal."""
    given = {"x-api-key": "sk-ant-fake", "anthropic-version": "2023-06-01", **headers}
    request = Request("POST", "/v1/messages", given, msgspec.json.encode(body))
    response = await FakeAnthropic([DONE])(request)
    if response.status == 200:
        return 200, ""
    assert isinstance(response.body, bytes)
    told = msgspec.json.decode(response.body)
    assert told["type"] == "error"
    return response.status, told["error"]["message"]


async def test_the_stand_in_accepts_what_is_good():
    assert await put(GOOD) == (200, "")
    turn = [HI, USE, {"role": "user", "content": [RESULT]}]
    assert await put({**GOOD, **TOOLS, "messages": turn}) == (200, "")
    assert await put({**GOOD, **of_user(picture(GIF, "image/gif"), text("a"))}) == (200, "")


async def test_the_stand_in_refuses_a_request_that_is_too_large():
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
async def test_the_stand_in_refuses_what_the_real_one_refuses(change: dict[str, Any], words: str):
    status, told = await put({**GOOD, **change})
    assert status == 400
    assert words in told


async def test_the_stand_in_wants_a_key_and_a_model_that_it_knows():
    assert (await put(GOOD, **{"x-api-key": "no"}))[0] == 401
    assert await put({**GOOD, "model": "claude-nope"}) == (404, "model: claude-nope")
