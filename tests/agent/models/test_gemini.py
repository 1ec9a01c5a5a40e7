"""The Gemini client, against a strict stand-in for the API."""

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
from segue.agent.models.base import Call, End, Model, Piece, Prompt, Stop, Text, ToolSpec
from segue.agent.models.gemini import GeminiModel
from segue.agent.models.gemini.request import UNSIGNED, build
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
from segue.testing.models.gemini import (
    OVERLOADED,
    Answer,
    Failure,
    FakeGemini,
    Stream,
    call,
    event,
    sse,
    text,
)
from segue.testing.models.travel import Travel
from segue.testing.pictures import BMP, GIF, WEBP, png

AT = datetime(2026, 11, 1, tzinfo=UTC)
HASTE = Patience(connect=5, silence=5, tries=3, first_pause=0.001, longest_pause=0.01)
ONCE = Patience(connect=5, silence=5, tries=1)
RUN = ToolSpec(
    name="run",
    description="Run a command.",
    parameters={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
)
RECORDED = Answer(
    chunks=[
        [text("Both files — "), text("«naïve», 漢字.")],
        [call("run", signature="c2lnMQ==", call_id="fc1", command="cat a", n=[1])],
        [call("run", call_id="fc2")],
    ],
    usage={
        "promptTokenCount": 310,
        "cachedContentTokenCount": 300,
        "candidatesTokenCount": 40,
        "thoughtsTokenCount": 2,
        "toolUsePromptTokenCount": 5,
    },
)
DONE = Answer(chunks=[[text("Done.")]])


def user(words: str, **more: Any) -> Message:
    return Message(Role.USER, words, AT, **more)


def said(words: str, *calls: ToolCall, **more: Any) -> Message:
    return Message(Role.ASSISTANT, words, AT, tool_calls=calls, **more)


def result(made: ToolCall, words: str = "ok") -> Message:
    return Message(Role.TOOL, words, AT, tool_call_id=made.id, tool_name=made.name)


def ask(
    *messages: Message, tools: Sequence[ToolSpec] = (RUN,), system: str = "Be brief."
) -> Prompt:
    return Prompt(system=system, messages=messages or (user("hi"),), tools=tuple(tools))


def model_at(url: str, patience: Patience = HASTE, **more: Any) -> GeminiModel:
    given: dict[str, Any] = {
        "name": "gemini/gemini-3-fake",
        "model": "gemini-3-fake",
        "base_url": f"{url}/v1beta",
        "key": "AIza-fake",
        "setting": "GEMINI_API_KEY",
        "context": 1_048_576,
        "patience": patience,
    }
    return GeminiModel(**{**given, **more})


@asynccontextmanager
async def talking(
    fake: FakeGemini, patience: Patience = HASTE, **more: Any
) -> AsyncGenerator[GeminiModel]:
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
    async with talking(FakeGemini(script), **more) as model:
        return await heard(model, prompt)


async def test_an_answer_with_text_and_two_parallel_calls_arrives_whole():
    words, calls, end = joined(await exchange(RECORDED))
    assert words == "Both files — «naïve», 漢字."
    assert calls == [
        ToolCall("fc1", "run", '{"command":"cat a","n":[1]}'),
        ToolCall("fc2", "run", "{}"),
    ]
    assert end.stop is Stop.CALLS
    assert end.usage == Usage(input=315, output=42, cached=300)


async def test_calls_without_ids_get_some_of_their_own():
    answer = Answer(chunks=[[call("run"), call("run")]])
    _, first, _ = joined(await exchange(answer))
    _, again, _ = joined(await exchange(answer))
    assert len({made.id for made in first + again}) == 4


async def test_chunks_of_one_byte_give_the_same_pieces():
    whole = await exchange(RECORDED)
    stream = Stream(body=sse(RECORDED), travel=Travel(chunk=1))
    assert await exchange(stream) == whole


async def test_a_slow_stream_gives_the_same_pieces():
    stream = Stream(body=sse(RECORDED), travel=Travel(chunk=200, pause=0.005))
    assert await exchange(stream) == await exchange(RECORDED)


@pytest.mark.parametrize("way", ["hang_up_after", "end_after"])
async def test_a_stream_cut_at_any_byte_is_whole_or_an_error(way: str):
    stream = sse(RECORDED)
    whole = joined(await exchange(RECORDED))
    cuts = [Stream(body=stream, travel=Travel(**{way: at})) for at in range(len(stream) + 1)]
    outcomes: dict[str, int] = {}
    lanes = asyncio.Semaphore(16)

    async def one(model: GeminiModel) -> None:
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

    async with talking(FakeGemini(cuts), ONCE) as model, asyncio.timeout(60):
        await asyncio.gather(*(one(model) for _ in cuts))
    assert sum(outcomes.values()) == len(cuts)
    assert outcomes["ModelCutOff"] > len(cuts) // 2


async def test_a_busy_server_is_asked_again_until_it_answers():
    fake = FakeGemini([OVERLOADED, Failure(status=500, kind="INTERNAL"), DONE])
    async with talking(fake) as model:
        assert joined(await heard(model))[0] == "Done."
    assert len(fake.requests) == 3


async def test_retry_after_is_honoured():
    limited = Failure(status=429, kind="RESOURCE_EXHAUSTED", headers={"retry-after": "0.2"})
    patience = Patience(tries=2, first_pause=0.0, longest_pause=5)
    begun = time.monotonic()
    assert joined(await exchange(limited, DONE, patience=patience))[0] == "Done."
    assert time.monotonic() - begun >= 0.2


async def test_a_stall_is_noticed():
    stream = Stream(body=sse(RECORDED), travel=Travel(stall_after=400))
    with pytest.raises(ModelStalled):
        await exchange(stream, patience=Patience(silence=0.1, tries=1))


async def test_closing_the_stream_drops_the_connection():
    stream = Stream(body=sse(RECORDED), travel=Travel(drip_after=600))
    fake = FakeGemini([stream])
    async with talking(fake) as model, asyncio.timeout(10):
        async with aclosing(model.stream(ask())) as pieces:
            assert isinstance(await anext(pieces), Text)
        await fake.left.wait()


async def test_cancelling_the_task_drops_the_connection():
    stream = Stream(body=sse(RECORDED), travel=Travel(drip_after=600))
    fake = FakeGemini([stream])
    begun = asyncio.Event()

    async def listen(model: GeminiModel) -> None:
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


@pytest.mark.parametrize("key", ["wrong", ""])
async def test_a_wrong_key_names_its_setting(key: str):
    with pytest.raises(BadKey, match="GEMINI_API_KEY"):
        await exchange(DONE, key=key)


async def test_an_unknown_model_is_named():
    with pytest.raises(UnknownModel, match="gemini-nope"):
        await exchange(DONE, model="gemini-nope")


async def test_a_model_may_be_given_with_its_collection():
    assert joined(await exchange(DONE, model="models/gemini-3-fake"))[0] == "Done."


async def test_a_name_cannot_change_the_address():
    targets: list[str] = []

    async def elsewhere(request: Request) -> Response:
        targets.append(request.target)
        return Response(status=404)

    async with serving(elsewhere) as url:
        model = model_at(url, model="../evil?x=")
        with pytest.raises(ModelError):
            await heard(model)
        await model.close()
    assert targets == ["/v1beta/models/..%2Fevil%3Fx%3D:streamGenerateContent?alt=sse"]


QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure(status=401, kind="UNAUTHENTICATED"), BadKey),
        (Failure(status=403, kind="PERMISSION_DENIED"), BadKey),
        (
            Failure(status=400, kind="INVALID_ARGUMENT", message="API key expired. Renew it."),
            BadKey,
        ),
        (Failure(status=429, kind="RESOURCE_EXHAUSTED", message=QUOTA), NoCredit),
        (
            Failure(
                status=429,
                kind="RESOURCE_EXHAUSTED",
                message=f"{QUOTA}\n* Quota exceeded for metric: free_tier_requests, limit: 0, "
                "model: gemini-3-fake\nPlease retry in 20.04s.",
            ),
            NoCredit,
        ),
        (
            Failure(
                status=429,
                kind="RESOURCE_EXHAUSTED",
                message="Your prepayment credits are depleted.",
            ),
            NoCredit,
        ),
        (
            Failure(
                status=400,
                kind="FAILED_PRECONDITION",
                message="Please enable billing on your project in Google AI Studio.",
            ),
            NoCredit,
        ),
        (Failure(status=413, kind="INVALID_ARGUMENT"), ContextTooLong),
        (Failure(status=400, kind="INVALID_ARGUMENT", message="No such thing."), ModelRefused),
        (
            Failure(
                status=400,
                kind="FAILED_PRECONDITION",
                message="User location is not supported for the API use.",
            ),
            ModelRefused,
        ),
    ],
)
async def test_each_failure_is_told_apart(failure: Failure, error: type[ModelError]):
    fake = FakeGemini([failure])
    async with talking(fake) as model:
        with pytest.raises(error):
            await heard(model)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "failure",
    [
        OVERLOADED,
        Failure(status=500, kind="INTERNAL"),
        Failure(
            status=429,
            kind="RESOURCE_EXHAUSTED",
            message="Resource has been exhausted (e.g. check quota).",
        ),
        Failure(
            status=429,
            kind="RESOURCE_EXHAUSTED",
            message=f"{QUOTA} Quota exceeded, limit: 10. Please retry in 20.04s.",
        ),
        Failure(
            status=429,
            kind="RESOURCE_EXHAUSTED",
            message=QUOTA,
            details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20s"}],
        ),
    ],
)
async def test_a_server_that_stays_busy_is_reported_as_busy(failure: Failure):
    with pytest.raises(ModelBusy):
        await exchange(*[failure] * HASTE.tries)


async def test_a_prompt_that_is_too_long_says_so():
    async with talking(FakeGemini([DONE], context=100)) as model:
        with pytest.raises(ContextTooLong):
            await heard(model, ask(user("word " * 200)))


async def test_no_server_is_offline():
    model = model_at("http://127.0.0.1:9", HASTE)
    with pytest.raises(ModelOffline, match=r"127\.0\.0\.1:9"):
        await heard(model)
    await model.close()


async def test_errors_that_come_in_a_list_are_understood_too():
    async def listing(_: Request) -> Response:
        body = [{"error": {"code": 404, "message": "Gone.", "status": "NOT_FOUND"}}]
        return Response(status=404, body=msgspec.json.encode(body))

    async with serving(listing) as url:
        model = model_at(url)
        with pytest.raises(UnknownModel):
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


async def test_an_error_inside_the_stream_ends_it():
    begun = sse(RECORDED).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    error = {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}
    with pytest.raises(ModelBusy, match="Overloaded"):
        await exchange(Stream(body=begun + event({"error": error})))


async def test_a_blocked_prompt_says_why():
    blocked = event({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    with pytest.raises(ModelRefused, match="PROHIBITED_CONTENT"):
        await exchange(Stream(body=blocked))


async def test_a_stream_of_something_else_is_an_error():
    with pytest.raises(ModelError, match="cannot be read"):
        await exchange(Stream(body=b"data: <html>\n\n"))


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", Stop.DONE),
        ("MAX_TOKENS", Stop.LENGTH),
        ("SAFETY", Stop.REFUSED),
        ("RECITATION", Stop.REFUSED),
        ("PROHIBITED_CONTENT", Stop.REFUSED),
    ],
)
async def test_each_reason_to_stop_is_told_apart(reason: str, stop: Stop):
    answer = Answer(chunks=[[text("So far")]], finish=reason)
    assert joined(await exchange(answer))[2].stop is stop


async def test_an_answer_without_any_words_may_end_too():
    assert joined(await exchange(Answer(finish="MAX_TOKENS")))[2].stop is Stop.LENGTH


async def test_a_call_that_came_out_wrong_is_an_error():
    answer = Answer(finish="MALFORMED_FUNCTION_CALL", finish_message="Malformed: print(run(")
    with pytest.raises(ModelError, match="Malformed: print"):
        await exchange(answer)
    with pytest.raises(ModelError, match="UNEXPECTED_TOOL_CALL"):
        await exchange(Answer(finish="UNEXPECTED_TOOL_CALL"))


async def test_a_refused_answer_has_no_calls():
    answer = Answer(chunks=[[text("Well"), call("run", signature="cw==")]], finish="SAFETY")
    _, calls, end = joined(await exchange(answer))
    assert calls == []
    assert not end.extras


async def test_thoughts_are_not_shown():
    answer = Answer(chunks=[[text("Hm, hm.", thought=True)], [text("Hello.")]])
    assert joined(await exchange(answer))[0] == "Hello."


# What is sent


async def accepted(*messages: Message, model: str = "gemini-3-fake", **more: Any) -> dict[str, Any]:
    fake = FakeGemini([DONE])
    async with talking(fake, model=model) as client:
        await heard(client, ask(*messages, **more))
    assert not fake.refusals
    return fake.requests[0]


def sent(*messages: Message) -> list[dict[str, Any]]:
    return build("gemini-3-fake", ask(*messages), signed=True)["contents"]


ONE = ToolCall("call_1", "run", '{"command":"ls"}')
TWO = ToolCall("call_2", "read", "{}")


async def test_results_go_to_their_calls_by_name_and_order():
    messages = (user("a"), user("b"), said("", ONE, TWO), result(ONE), result(TWO, ""), user("c"))
    body = await accepted(*messages)
    assert [c["role"] for c in body["contents"]] == ["user", "model", "user"]
    assert body["contents"][2]["parts"] == [
        {"functionResponse": {"name": "run", "response": {"output": "ok"}}},
        {"functionResponse": {"name": "read", "response": {"output": ""}}},
        {"text": "c"},
    ]


async def test_a_window_that_begins_with_the_model_gets_an_opening():
    body = await accepted(said("", ONE), result(ONE))
    assert body["contents"][0]["parts"] == [{"text": OPENING}]


async def test_a_window_that_ends_with_the_model_is_asked_to_go_on():
    body = await accepted(user("hi"), said("I was about to "))
    assert body["contents"][-1]["parts"] == [{"text": ONWARD}]


async def test_blank_messages_are_left_out():
    body = await accepted(user("hi"), said(" \n"), user(""), user("there"))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}, {"text": "there"}]}]


async def test_nothing_at_all_can_still_be_asked():
    body = await accepted(user("  "), system="", tools=())
    assert body.keys() == {"contents", "generationConfig"}


def test_summaries_and_our_own_prompts_are_the_users_words():
    summary = Message(Role.ASSISTANT, "They talked.", AT, kind=Kind.SUMMARY)
    synthetic = Message(Role.SYSTEM, "Moved here.", AT, kind=Kind.SYNTHETIC)
    told = "[A summary of our conversation up to here:]\n\nThey talked."
    parts = [{"text": told}, {"text": "Moved here."}, {"text": "hi"}]
    assert sent(summary, synthetic, user("hi")) == [{"role": "user", "parts": parts}]


@pytest.mark.parametrize("written", ["", "[1, 2]", "not json", '{"a": ', "null", '"x"'])
async def test_arguments_that_are_no_object_are_sent_as_one(written: str):
    made = ToolCall("call_1", "run", written)
    body = await accepted(user("hi"), said("", made), result(made))
    given = body["contents"][1]["parts"][0]["functionCall"]["args"]
    assert given == ({"arguments": written} if written else {})


@pytest.mark.parametrize("name", ["9lives", "a b:c", "", "x" * 100])
async def test_names_that_are_not_allowed_are_mended(name: str):
    made = ToolCall("call_1", name, "{}")
    await accepted(user("hi"), said("", made), result(made))


async def test_schemas_are_cut_down_to_what_is_accepted():
    tool = ToolSpec(
        name="plan",
        description="Plan.",
        parameters={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": False,
            "$defs": {"step": {"type": "object", "properties": {"next": {"$ref": "#/$defs/step"}}}},
            "properties": {
                "title": {"type": ["string", "null"], "default": "x", "minLength": 1},
                "when": {"type": "string", "format": "date-time"},
                "where": {"type": "string", "format": "uri"},
                "kind": {"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]},
                "level": {"type": "integer", "enum": [1, 2], "exclusiveMinimum": 0},
                "many": {"type": ["string", "integer"], "description": "Either."},
                "tags": {"type": "array", "uniqueItems": True},
                "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
                "lost": {"$ref": "#/$defs/nowhere", "type": "string"},
            },
            "required": ["title", "gone"],
        },
    )
    bare = ToolSpec(name="now", description="The time.", parameters={"type": "object"})
    body = await accepted(user("hi"), tools=(tool, bare))
    plan, now = body["tools"][0]["functionDeclarations"]
    assert now == {"name": "now", "description": "The time."}
    properties = plan["parameters"]["properties"]
    assert plan["parameters"]["required"] == ["title"]
    assert properties["title"] == {"type": "STRING", "nullable": True, "minLength": 1}
    assert properties["when"] == {"type": "STRING", "format": "date-time"}
    assert properties["where"] == {"type": "STRING"}
    assert properties["kind"]["anyOf"][0] == {"type": "STRING", "enum": ["a"]}
    assert properties["kind"]["nullable"] is True
    assert properties["level"] == {"type": "INTEGER"}
    assert properties["many"]["anyOf"][1]["type"] == "INTEGER"
    assert properties["tags"]["items"] == {"type": "STRING"}
    assert properties["steps"]["items"]["properties"]["next"]["type"] == "OBJECT"


# Signatures


def kept(pieces: list[Piece]) -> Message:
    """The answer as the transcript keeps it, through the store and back."""
    words, calls, end = joined(pieces)
    stored = msgspec.json.encode(said(words, *calls, extras=end.extras or None))
    return msgspec.json.decode(stored, type=Message)


SIGNED = Answer(
    chunks=[
        [text("Let me ")],
        [text("see.")],
        [text("Both.", thoughtSignature="c2lnMA==")],
        [text(" Now.")],
        [call("run", signature="c2lnMQ==", call_id="fc1", command="ls"), call("run")],
    ]
)


async def test_signatures_and_ids_go_back_verbatim_and_in_their_place():
    fake = FakeGemini([SIGNED, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        results = map(result, answer.tool_calls)
        await heard(model, ask(user("hi"), answer, *results))
    assert not fake.refusals
    assert fake.requests[1]["contents"][1]["parts"] == [
        {"text": "Let me see."},
        {"text": "Both.", "thoughtSignature": "c2lnMA=="},
        {"text": " Now."},
        call("run", signature="c2lnMQ==", call_id="fc1", command="ls"),
        call("run"),
    ]
    first, second = fake.requests[1]["contents"][2]["parts"]
    assert first["functionResponse"]["id"] == "fc1"
    assert "id" not in second["functionResponse"]


async def test_signatures_that_are_no_longer_accepted_are_left_out():
    fake = FakeGemini([SIGNED, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        fake.accepts_signatures = False
        pieces = await heard(model, ask(user("hi"), answer, *map(result, answer.tool_calls)))
    assert joined(pieces)[0] == "Done."
    assert len(fake.requests) == 3


async def test_another_refusal_is_not_tried_without_signatures():
    refused = Failure(status=400, kind="INVALID_ARGUMENT", message="No.")
    fake = FakeGemini([SIGNED, refused, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        with pytest.raises(ModelRefused):
            await heard(model, ask(user("hi"), answer, *map(result, answer.tool_calls)))
    assert len(fake.requests) == 2


async def test_calls_of_another_model_are_marked_as_unsigned_where_that_is_asked_for():
    messages = (user("hi"), said("", ONE, TWO), result(ONE), result(TWO))
    newer = (await accepted(*messages))["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in newer] == [UNSIGNED, None]
    older = (await accepted(*messages, model="gemini-2.5-fake"))["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in older] == [None, None]


@pytest.mark.parametrize(
    "layout", ["nonsense", [{"text": 99}], [{"call": "x", "own": True}], [None], [], {"a": 1}]
)
async def test_a_layout_that_does_not_fit_is_ignored(layout: Any):
    body = await accepted(user("hi"), said("a", ONE, extras={"gemini": layout}), result(ONE))
    assert [p.keys() - {"thoughtSignature"} for p in body["contents"][1]["parts"]] == [
        {"text"},
        {"functionCall"},
    ]


# Whole conversations


@pytest.mark.parametrize("model", ["gemini-2.5-fake", "gemini-3-fake"])
async def test_a_conversation_begun_elsewhere_is_accepted(model: str):
    foreign = {"anthropic": [{"type": "thinking", "thinking": "", "signature": "s"}]}
    one = ToolCall("call_0", "run", '{"command": "ls"}')
    two = ToolCall("call_0", "weird name", "{oops")
    lost = ToolCall("toolu_77", "run", "{}")
    begun = Transcript((
        said("I am in the middle.", extras=foreign),
        user("go on"),
        said("", one, two, extras=foreign),
        result(one, "listing"),
        said("", lost, extras=foreign),
        user("are you there?"),
    ))  # fmt: skip
    await accepted(*begun.repaired(AT), model=model)


def long_history(length: int) -> tuple[Message, ...]:
    messages: list[Message] = []
    while len(messages) < length:
        made = ToolCall(f"call_{len(messages)}", "run", '{"command": "git status --short"}')
        messages += [
            user("Please look at the state of the repository. " * 4),
            said("I will look.", made),
            result(made, "M src/segue/agent.py\n" * 10),
            said("There is one change. " * 6),
        ]
    return (*messages[: length - 1], user("And now?"))


async def test_five_thousand_messages_are_accepted():
    fake = FakeGemini([DONE])
    async with talking(fake) as model:
        await heard(model, ask(*Transcript(long_history(5000)).repaired(AT)))
    assert not fake.refusals


@pytest.mark.parametrize(("length", "limit"), [(1000, 0.010), (5000, 0.030)])
def test_a_long_request_is_built_quickly(length: int, limit: float):
    prompt = ask(*long_history(length))

    def cost() -> float:
        begun = time.process_time()  # Ours alone, whatever else the machine does.
        msgspec.json.encode(build("gemini-3-fake", prompt, signed=True))
        return time.process_time() - begun

    best = min(cost() for _ in range(7))
    print(f"gemini: {length} messages in {best * 1000:.1f} ms")
    assert best < limit


# The stand-in itself

HI = {"role": "user", "parts": [{"text": "hi"}]}
CALLED = {"role": "model", "parts": [call("run", signature=UNSIGNED)]}
ANSWERED = {"role": "user", "parts": [{"functionResponse": {"name": "run", "response": {}}}]}
UNASKED = {"role": "model", "parts": [{"text": "a"}]}


def declared(**parameters: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": [{"name": "a", "parameters": parameters}]}]}


def of_one(**schema: Any) -> dict[str, Any]:
    return declared(type="OBJECT", properties={"x": schema})


def picture(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": base64.b64encode(data).decode()}}


def of_user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


async def put(
    body: dict[str, Any], model: str = "gemini-3-fake", **headers: str
) -> tuple[int, str]:
    """Status, and the words of the refusal."""
    target = f"/v1beta/models/{model}:streamGenerateContent?alt=sse"
    given = {"x-goog-api-key": "AIza-fake", **headers}
    response = await FakeGemini([DONE])(Request("POST", target, given, msgspec.json.encode(body)))
    if response.status == 200:
        return 200, ""
    assert isinstance(response.body, bytes)
    error = msgspec.json.decode(response.body)["error"]
    assert error["code"] == response.status
    return response.status, error["message"]


async def test_the_stand_in_accepts_what_is_good():
    assert await put({"contents": [HI]}) == (200, "")
    assert await put(of_user(picture(WEBP, "image/webp"))) == (200, "")
    assert await put({"contents": [HI, CALLED, ANSWERED], **of_one(type="STRING")}) == (200, "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": 1}, 'Unknown name "colour"'),
        ({"contents": []}, "contents is not specified"),
        ({"contents": [{"role": "tool", "parts": [{"text": "a"}]}]}, "valid role"),
        ({"contents": [{"role": "user", "parts": []}]}, "must not be empty"),
        ({"contents": [{"role": "user", "parts": [{"text": ""}]}]}, "one initialized field"),
        ({"contents": [{"role": "user", "parts": [{}]}]}, "one initialized field"),
        ({"contents": [HI, HI]}, "alternate"),
        ({"contents": [HI, UNASKED]}, "ends with a user role"),
        ({"contents": [ANSWERED]}, "immediately after a function call turn"),
        ({"contents": [HI, UNASKED, ANSWERED]}, "immediately after a function call turn"),
        ({"contents": [CALLED, ANSWERED]}, "immediately after a user turn"),
        ({"contents": [HI, CALLED, HI]}, "number of function response parts"),
        (
            {"contents": [HI, {"role": "model", "parts": [call("run")]}, ANSWERED]},
            "missing a thought_signature",
        ),
        (
            {"contents": [HI, {"role": "model", "parts": [call("run", signature="x")]}, ANSWERED]},
            "Corrupted thought signature",
        ),
        (of_one(type="STRING", additionalProperties=False), 'Unknown name "additionalProperties"'),
        (of_one(const="a"), 'Unknown name "const"'),
        (of_one(type=["STRING"]), "cannot start list"),
        (of_one(type="ARRAY"), "missing field"),
        (of_one(type="INTEGER", enum=["1"]), "only allowed for STRING"),
        (of_one(type="STRING", format="uri"), "date-time"),
        (declared(type="OBJECT", properties={}), "should be non-empty"),
        (
            declared(type="OBJECT", properties={"x": {"type": "STRING"}}, required=["y"]),
            "property is not defined",
        ),
        ({"contents": [HI, {"role": "model", "parts": [picture(png())]}, HI]}, "valid role"),
        (of_user({"inlineData": {"mimeType": "image/png", "data": "iVBO*"}}), "Base64 decoding"),
        (of_user({"inlineData": {"mime": "image/png", "data": ""}}), 'Unknown name "mime"'),
        (of_user(picture(GIF, "image/gif")), "Unsupported MIME type: image/gif"),
        (of_user(picture(BMP)), "Unable to process input image"),
        (of_user(*[picture(png(size=3_900_000))] * 5), "payload size exceeds the limit: 20971520"),
    ],
)
async def test_the_stand_in_refuses_what_the_real_one_refuses(change: dict[str, Any], words: str):
    status, told = await put({"contents": [HI], **change})
    assert status == 400
    assert words in told


async def test_the_stand_in_wants_a_key_and_a_model_that_it_knows():
    assert (await put({"contents": [HI]}, **{"x-goog-api-key": "no"}))[0] == 400
    assert (await put({"contents": [HI]}, **{"x-goog-api-key": ""}))[0] == 403
    assert (await put({"contents": [HI]}, model="gemini-nope"))[0] == 404
