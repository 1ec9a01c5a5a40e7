"""Helpers for the tests of the OpenAI client against a strict server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

from segue.agent.models.base import Call, Piece, Prompt, Text, ToolSpec
from segue.agent.models.openai import OpenAIModel, ServerDialect, build
from segue.core.session import Usage
from segue.core.transcript import Message, ToolCall
from tests.agent.models import answers
from tests.agent.models.answers import HASTE
from tests.fakes.models.openai import Answer, FakeOpenAI, Stream, sse

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
DIALECT = ServerDialect(limit="max_tokens")

# In OpenAI's format, shortened: non-ASCII text, two parallel calls, usage.
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
    return answers.ask(*messages, tools=(READ,), **more)


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
    return await answers.heard(model, prompt or ask())


async def hear_stream(*chunks: Any, **more: Any) -> list[Piece]:
    async with talking([Stream(sse(*chunks))], **more) as (_, model):
        return await hear(model)


def sent(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    body = build(ask(*messages), model="m", dialect=DIALECT, **more)
    return json.loads(body)["messages"]


def fragment(index: int | None, call_id: str | None = None, **function: Any) -> dict[str, Any]:
    known = {"index": index, "id": call_id}
    return {**{k: v for k, v in known.items() if v is not None}, "function": function}
