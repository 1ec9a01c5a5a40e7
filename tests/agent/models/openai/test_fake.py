"""The requests that the fake OpenAI refuses."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import pytest

from segue.system.http import tls
from tests.fakes.models.openai import FakeOpenAI, Say
from tests.fakes.pictures import BMP, png


async def post(fake: FakeOpenAI, body: dict[str, Any], key: str = "sk-test") -> tuple[int, Any]:
    async with fake.serving() as url, httpx2.AsyncClient(verify=tls(trust_env=False)) as http:
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
async def test_the_fake_refuses_invalid_requests(
    change: dict[str, Any], status: int, code: str | None, text: str
):
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


async def test_the_fake_refuses_a_wrong_key_and_requests_beyond_its_script():
    assert (await post(FakeOpenAI([]), {}, key="sk-no"))[1]["code"] == "invalid_api_key"
    status, error = await post(FakeOpenAI([]), {"model": "gpt-test", "messages": [HI]})
    assert (status, error["message"]) == (400, "The script of this fake is at its end.")
