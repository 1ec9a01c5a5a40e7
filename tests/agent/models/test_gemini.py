"""The Gemini client, against a strict fake of the API."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from segue.agent.models.base import Stop, ToolSpec
from segue.agent.models.gemini import UNSIGNED, build
from segue.agent.models.messages import ONWARD, OPENING
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelServerError,
    NoCredit,
    UnknownModel,
)
from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Role, ToolCall
from segue.testing.http import Request, Response, serving
from tests.agent.models.answers import AT, HASTE, ask, assistant, heard, joined, kept, result, user
from tests.agent.models.providers import GEMINI
from tests.fakes.models.gemini import (
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
from tests.fakes.pictures import BMP, GIF, WEBP, png

RECORDED, DONE = GEMINI.recorded, GEMINI.done
talking, exchange, accepted = GEMINI.talking, GEMINI.exchange, GEMINI.accepted


async def test_an_answer_with_text_and_two_parallel_calls_is_complete():
    words, calls, end = joined(await exchange(RECORDED))
    assert words == "Both files — «naïve», 漢字."
    assert calls == [
        ToolCall("fc1", "run", '{"command":"cat a","n":[1]}'),
        ToolCall("fc2", "run", "{}"),
    ]
    assert end.stop is Stop.CALLS
    assert end.usage == Usage(input=315, output=42, cached=300)


async def test_calls_without_ids_get_new_ids():
    answer = Answer(chunks=[[call("run"), call("run")]])
    _, first, _ = joined(await exchange(answer))
    _, again, _ = joined(await exchange(answer))
    assert len({made.id for made in first + again}) == 4


async def test_a_missing_key_names_its_setting():
    with pytest.raises(BadKey, match="GEMINI_API_KEY"):
        await exchange(DONE, key="")


async def test_a_model_name_can_have_the_models_prefix():
    assert joined(await exchange(DONE, model="models/gemini-3-fake"))[0] == "Done."


async def test_a_model_name_cannot_change_the_url():
    targets: list[str] = []

    async def elsewhere(request: Request) -> Response:
        targets.append(request.target)
        return Response(status=404)

    async with serving(elsewhere) as url:
        model = GEMINI.model_at(url, model="../evil?x=")
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
async def test_each_failure_has_its_own_error(failure: Failure, error: type[ModelError]):
    fake = FakeGemini([failure])
    async with talking(fake) as model:
        with pytest.raises(error):
            await heard(model)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "failure",
    [
        OVERLOADED,
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


async def test_an_internal_error_that_stays_is_not_reported_as_busy():
    with pytest.raises(ModelServerError):
        await exchange(*[Failure(status=500, kind="INTERNAL")] * HASTE.tries)


async def test_errors_in_a_list_are_understood():
    async def listing(_: Request) -> Response:
        body = [{"error": {"code": 404, "message": "Gone.", "status": "NOT_FOUND"}}]
        return Response(status=404, body=msgspec.json.encode(body))

    async with serving(listing) as url:
        model = GEMINI.model_at(url)
        with pytest.raises(UnknownModel):
            await heard(model)
        await model.close()


async def test_an_error_inside_the_stream_ends_it():
    begun = sse(RECORDED).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    error = {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}
    with pytest.raises(ModelBusy, match="Overloaded"):
        await exchange(Stream(body=begun + event({"error": error})))


async def test_a_blocked_prompt_is_reported_with_the_reason():
    blocked = event({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    with pytest.raises(ModelRefused, match="PROHIBITED_CONTENT"):
        await exchange(Stream(body=blocked))


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
async def test_every_stop_reason_is_distinguished(reason: str, stop: Stop):
    answer = Answer(chunks=[[text("So far")]], finish=reason)
    assert joined(await exchange(answer))[2].stop is stop


async def test_an_empty_answer_has_its_stop_reason():
    assert joined(await exchange(Answer(finish="MAX_TOKENS")))[2].stop is Stop.LENGTH


async def test_a_malformed_call_is_an_error():
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


# Requests


def sent(*messages: Message) -> list[dict[str, Any]]:
    return build("gemini-3-fake", ask(*messages), signed=True)["contents"]


ONE = ToolCall("call_1", "run", '{"command":"ls"}')
TWO = ToolCall("call_2", "read", "{}")


async def test_results_match_their_calls_by_name_and_order():
    messages = (
        user("a"),
        user("b"),
        assistant("", ONE, TWO),
        result(ONE),
        result(TWO, ""),
        user("c"),
    )
    body = await accepted(*messages)
    assert [c["role"] for c in body["contents"]] == ["user", "model", "user"]
    assert body["contents"][2]["parts"] == [
        {"functionResponse": {"name": "run", "response": {"output": "ok"}}},
        {"functionResponse": {"name": "read", "response": {"output": ""}}},
        {"text": "c"},
    ]


async def test_a_window_that_starts_with_the_model_gets_an_opening():
    body = await accepted(assistant("", ONE), result(ONE))
    assert body["contents"][0]["parts"] == [{"text": OPENING}]


async def test_a_window_that_ends_with_the_model_gets_a_prompt_to_continue():
    body = await accepted(user("hi"), assistant("I was about to "))
    assert body["contents"][-1]["parts"] == [{"text": ONWARD}]


async def test_blank_messages_are_left_out():
    body = await accepted(user("hi"), assistant(" \n"), user(""), user("there"))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}, {"text": "there"}]}]


async def test_an_empty_window_makes_a_valid_request():
    body = await accepted(user("  "), system="", tools=())
    assert body.keys() == {"contents", "generationConfig"}


def test_summaries_and_synthetic_prompts_have_the_user_role():
    summary = Message(Role.ASSISTANT, "They talked.", AT, kind=Kind.SUMMARY)
    synthetic = Message(Role.SYSTEM, "Moved here.", AT, kind=Kind.SYNTHETIC)
    told = "[A summary of our conversation up to here:]\n\nThey talked."
    parts = [{"text": told}, {"text": "Moved here."}, {"text": "hi"}]
    assert sent(summary, synthetic, user("hi")) == [{"role": "user", "parts": parts}]


@pytest.mark.parametrize("written", ["", "[1, 2]", "not json", '{"a": ', "null", '"x"'])
async def test_arguments_that_are_not_an_object_are_wrapped_in_one(written: str):
    made = ToolCall("call_1", "run", written)
    body = await accepted(user("hi"), assistant("", made), result(made))
    given = body["contents"][1]["parts"][0]["functionCall"]["args"]
    assert given == ({"arguments": written} if written else {})


@pytest.mark.parametrize("name", ["9lives", "a b:c", "", "x" * 100])
async def test_invalid_names_are_replaced(name: str):
    made = ToolCall("call_1", name, "{}")
    await accepted(user("hi"), assistant("", made), result(made))


async def test_schemas_are_reduced_to_the_supported_keywords():
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


SIGNED = Answer(
    chunks=[
        [text("Let me ")],
        [text("see.")],
        [text("Both.", thoughtSignature="c2lnMA==")],
        [text(" Now.")],
        [call("run", signature="c2lnMQ==", call_id="fc1", command="ls"), call("run")],
    ]
)


async def test_signatures_and_ids_are_sent_back_unchanged_and_in_their_place():
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


async def test_another_error_is_not_retried_without_signatures():
    refused = Failure(status=400, kind="INVALID_ARGUMENT", message="No.")
    fake = FakeGemini([SIGNED, refused, DONE])
    async with talking(fake) as model:
        answer = kept(await heard(model))
        with pytest.raises(ModelRefused):
            await heard(model, ask(user("hi"), answer, *map(result, answer.tool_calls)))
    assert len(fake.requests) == 2


async def test_calls_of_another_model_are_marked_as_unsigned_if_required():
    messages = (user("hi"), assistant("", ONE, TWO), result(ONE), result(TWO))
    newer = (await accepted(*messages))["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in newer] == [UNSIGNED, None]
    older = (await accepted(*messages, given={"model": "gemini-2.5-fake"}))["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in older] == [None, None]


@pytest.mark.parametrize(
    "layout", ["nonsense", [{"text": 99}], [{"call": "x", "own": True}], [None], [], {"a": 1}]
)
async def test_an_invalid_layout_is_ignored(layout: Any):
    body = await accepted(user("hi"), assistant("a", ONE, extras={"gemini": layout}), result(ONE))
    assert [p.keys() - {"thoughtSignature"} for p in body["contents"][1]["parts"]] == [
        {"text"},
        {"functionCall"},
    ]


# The fake itself

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
    """The status and the message of the error."""
    target = f"/v1beta/models/{model}:streamGenerateContent?alt=sse"
    given = {"x-goog-api-key": "AIza-fake", **headers}
    response = await FakeGemini([DONE])(Request("POST", target, given, msgspec.json.encode(body)))
    if response.status == 200:
        return 200, ""
    assert isinstance(response.body, bytes)
    error = msgspec.json.decode(response.body)["error"]
    assert error["code"] == response.status
    return response.status, error["message"]


async def test_the_fake_accepts_valid_requests():
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
async def test_the_fake_refuses_what_the_real_api_refuses(change: dict[str, Any], words: str):
    status, told = await put({"contents": [HI], **change})
    assert status == 400
    assert words in told


async def test_the_fake_needs_a_valid_key_and_a_known_model():
    assert (await put({"contents": [HI]}, **{"x-goog-api-key": "no"}))[0] == 400
    assert (await put({"contents": [HI]}, **{"x-goog-api-key": ""}))[0] == 403
    assert (await put({"contents": [HI]}, model="gemini-nope"))[0] == 404
