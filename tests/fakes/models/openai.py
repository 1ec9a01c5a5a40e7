"""A strict fake of OpenAI's chat completions API.

It accepts and refuses the same requests as the real API, with the same error texts. Sources: the
API reference (platform.openai.com/docs/api-reference/chat/create and …/chat-streaming) for fields,
roles and chunks; the guide to error codes (platform.openai.com/docs/guides/error-codes) for
statuses; public issues for the exact error texts, named where they are used. Texts marked "from
memory" were not found in any of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from segue.core.transcript import ToolCall
from segue.testing.http import Request, Response, serving
from tests.fakes import pictures
from tests.fakes.models.travel import AT_ONCE, Travel, travelling

Json = dict[str, Any]

FIELDS = frozenset({
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "messages", "metadata", "modalities", "model", "n",
    "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key",
    "prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "seed",
    "service_tier", "stop", "store", "stream", "stream_options", "temperature", "tool_choice",
    "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
})  # fmt: skip
"""The fields of a request, from the API reference."""

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_NAME = 64
_LONGEST_ID = 40
_LONGEST_DESCRIPTION = 1024
_DATA_URL = re.compile(r"data:(?P<kind>[^;,]*);base64,(?P<data>.*)", re.DOTALL)
_LARGEST_PICTURE = 20 * 1024 * 1024


# Scripted answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A complete answer, streamed as the API reference shows it."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    """The finish reason. If empty, `stop` or `tool_calls`, depending on `calls`."""
    prompt_tokens: int = 20
    completion_tokens: int = 10
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """Raw response bytes, for servers that deviate from the reference."""

    body: bytes
    kind: str = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error response."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Answer = Say | Stream | Failure


def refusal(
    status: int, message: str, *, kind: str = "invalid_request_error", **more: Any
) -> Failure:
    """An error in OpenAI's format. `more` can contain param, code and headers."""
    headers = more.pop("headers", {})
    error = {"message": message, "type": kind, "param": None, "code": None, **more}
    return Failure(status=status, body=msgspec.json.encode({"error": error}), headers=headers)


def too_many(retry_after: str | None = None) -> Failure:
    """The rate limit error (guide to error codes: 429)."""
    return refusal(
        429,
        "Rate limit reached for gpt-test in organization org-test on requests per min (RPM): "
        "Limit 3, Used 3, Requested 1. Please try again in 20s.",
        kind="requests",
        code="rate_limit_exceeded",
        headers={} if retry_after is None else {"Retry-After": retry_after},
    )


def no_quota() -> Failure:
    """The error for an exhausted quota (guide to error codes: also 429)."""
    return refusal(
        429,
        "You exceeded your current quota, please check your plan and billing details. For more "
        "information on this error, read the docs: "
        "https://platform.openai.com/docs/guides/error-codes/api-errors.",
        kind="insufficient_quota",
        code="insufficient_quota",
    )


def too_long() -> Failure:
    """The context length error (webtimemachine/wtm2#579, ikechan8370/chatgpt-plugin#219)."""
    return refusal(
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "204308 tokens. Please reduce the length of the messages.",
        param="messages",
        code="context_length_exceeded",
    )


def server_error(status: int = 500) -> Failure:
    """A server error (guide to error codes: 500 and 503)."""
    text = {
        500: "The server had an error while processing your request. Sorry about that!",
        503: "The engine is currently overloaded, please try again later.",
    }
    return refusal(status, text.get(status, "Bad gateway"), kind="server_error")


# The server


class FakeOpenAI:
    """Answers from a script: one item per request, or a function of the request."""

    def __init__(
        self,
        script: Iterable[Answer] | Callable[[Json], Answer],
        *,
        key: str | None = "sk-test",
        models: Iterable[str] = ("gpt-test",),
        limits: Iterable[str] = ("max_tokens", "max_completion_tokens"),
        images: bool = True,
        travel: Travel = AT_ONCE,
    ) -> None:
        self._script = script if callable(script) else iter(script)
        self._key = key
        self._models = tuple(models)
        self._limits = frozenset(limits)
        self._images = images
        self.travel = travel
        """How streams are delivered from now on."""
        self.requests: list[Json] = []
        """The body of every request that was valid JSON, refused or not."""
        self.received: list[Request] = []
        """Every request."""
        self.left = asyncio.Event()
        """Set when a client disconnects in the middle of an answer."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Serve and yield the base URL as a user would configure it."""
        async with serving(self._handle) as url:
            yield f"{url}/v1"

    async def _handle(self, request: Request) -> Response:
        self.received.append(request)
        if (request.method, request.target) == ("GET", "/v1/models"):
            return self._list(request)
        answer = self._refuse(request) or self._next()
        if isinstance(answer, Failure):
            return Response(answer.status, answer.headers, answer.body)
        options = cast("Json", self.requests[-1].get("stream_options") or {})
        usage = bool(options.get("include_usage"))
        if isinstance(answer, Say):
            answer = Stream(_stream(answer, self.requests[-1]["model"], usage=usage))
        body = travelling(answer.body, self.travel, self.left)
        return Response(200, {"Content-Type": answer.kind}, body)

    def _list(self, request: Request) -> Response:
        """List the models (API reference: models/list)."""
        if wrong := self._bad_key(request.headers.get("authorization", "")):
            return Response(wrong.status, wrong.headers, wrong.body)
        known = {"object": "model", "created": 1_700_000_000, "owned_by": "fake"}
        data = [{"id": name, **known} for name in self._models]
        return Response(body=msgspec.json.encode({"object": "list", "data": data}))

    def _next(self) -> Answer:
        if callable(self._script):
            return self._script(self.requests[-1])
        return next(self._script, refusal(400, "The script of this fake is at its end."))

    def _refuse(self, request: Request) -> Failure | None:
        if request.method != "POST" or request.target != "/v1/chat/completions":
            # As reported for mistyped URLs; from memory.
            url = f"Invalid URL ({request.method} {request.target})"
            return refusal(404, url)
        if wrong := self._bad_key(request.headers.get("authorization", "")):
            return wrong
        try:
            body = cast("Json", msgspec.json.decode(request.body, type=dict))
        except msgspec.DecodeError:
            # From memory.
            return refusal(400, "We could not parse the JSON body of your request.")
        self.requests.append(body)
        return next(self._complaints(body), None)

    def _bad_key(self, given: str) -> Failure | None:
        """Check the API key (guide to error codes: 401; the texts are from memory)."""
        scheme, _, key = given.partition(" ")
        if self._key is None or (scheme == "Bearer" and key == self._key):
            return None
        if not key:
            return refusal(
                401,
                "You didn't provide an API key. You need to provide your API key in an "
                "Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
            )
        return refusal(
            401,
            f"Incorrect API key provided: {key[:3]}***. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
        )

    def _complaints(self, body: Json) -> Iterator[Failure]:
        for name in body.keys() - FIELDS:
            # davidmigloz/langchain_dart#712, yuanjua/chiken#21
            yield refusal(400, f"Unrecognized request argument supplied: {name}")
        for name in ("model", "messages"):
            if name not in body:
                # From memory.
                text = f"Missing required parameter: '{name}'."
                yield refusal(400, text, param=name, code="missing_required_parameter")
        if body.get("model") not in self._models:
            # Guide to error codes: 404; the text is from memory.
            text = (
                f"The model `{body.get('model')}` does not exist or you do not have access to it."
            )
            yield refusal(404, text, code="model_not_found")
        yield from self._bad_limit(body)
        if "stream_options" in body and not body.get("stream"):
            # API reference: "Only set this when you set stream: true"; the text is from memory.
            text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
            yield refusal(400, text, param="stream_options")
        yield from _bad_tools(body)
        yield from _bad_messages(body.get("messages"))
        if not self._images and b'"image_url"' in msgspec.json.encode(body["messages"]):
            # roboflow/awesome-openai-vision-api-experiments#11
            text = "Invalid content type. image_url is only supported by certain models."
            yield refusal(400, text, param="messages.[1].content.[0].type")

    def _bad_limit(self, body: Json) -> Iterator[Failure]:
        """devnullvoid/dms-ai-assistant#12, sipeed/picoclaw#16."""
        for name in body.keys() & {"max_tokens", "max_completion_tokens"} - self._limits:
            other = next(iter(self._limits), "nothing")
            text = (
                f"Unsupported parameter: '{name}' is not supported with this model. "
                f"Use '{other}' instead."
            )
            yield refusal(400, text, param=name, code="unsupported_parameter")
        if {"max_tokens", "max_completion_tokens"} <= body.keys():
            # From memory.
            text = "Setting 'max_tokens' and 'max_completion_tokens' together is not supported."
            yield refusal(400, text, code="invalid_parameter_combination")


# Checks


def _bad_tools(body: Json) -> Iterator[Failure]:
    if body.get("tools") == []:
        yield _empty("tools")
    for i, tool in enumerate(cast("list[Json]", body.get("tools") or ())):
        function = cast("Json", tool.get("function") or {})
        yield from _bad_name(function.get("name"), f"tools[{i}].function.name")
        # nanbingxyz/5ire#33
        yield from _too_long(
            function.get("description") or "",
            _LONGEST_DESCRIPTION,
            f"tools[{i}].function.description",
        )
        schema = cast("Json", function.get("parameters") or {"type": "object"})
        if schema.get("type") != "object":
            # From memory.
            yield refusal(
                400,
                f"Invalid schema for function '{function.get('name')}': schema must be a JSON "
                f"Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'.",
                param=f"tools[{i}].function.parameters",
                code="invalid_function_parameters",
            )


def _bad_messages(messages: Any) -> Iterator[Failure]:
    if not messages:
        yield _empty("messages")
        return
    waiting: set[str] = set()
    for i, message in enumerate(cast("list[Json]", messages)):
        role = message.get("role")
        if role not in _ROLES:
            # Formatted like other errors with the code invalid_value; from memory.
            known = ", ".join(f"'{r}'" for r in _ROLES[:-1])
            yield refusal(
                400,
                f"Invalid value: '{role}'. Supported values are: {known}, and '{_ROLES[-1]}'.",
                param=f"messages[{i}].role",
                code="invalid_value",
            )
        if waiting and role != "tool":
            yield _unanswered(waiting, i)
        if role == "tool":
            yield from _bad_result(message, waiting, i)
        elif role == "assistant":
            yield from _bad_calls(message, i)
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
        yield from _bad_content(message, i)
    if waiting:
        yield _unanswered(waiting, len(messages))


def _unanswered(waiting: set[str], i: int) -> Failure:
    """sdcb/chats#132, router-for-me/CLIProxyAPI#2798."""
    return refusal(
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(sorted(waiting)),
        param=f"messages.[{i}].role",
    )


def _bad_result(message: Json, waiting: set[str], i: int) -> Iterator[Failure]:
    """sdcb/chats#132, including its spelling."""
    call_id = message.get("tool_call_id")
    if call_id not in waiting:
        yield refusal(
            400,
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            param=f"messages.[{i}].role",
        )
    waiting.discard(cast("str", call_id))


def _bad_calls(message: Json, i: int) -> Iterator[Failure]:
    if message.get("tool_calls") == []:
        yield _empty(f"messages[{i}].tool_calls")
    for j, call in enumerate(cast("list[Json]", message.get("tool_calls") or ())):
        where = f"messages[{i}].tool_calls[{j}]"
        # langmanus/langmanus#119
        yield from _too_long(call["id"], _LONGEST_ID, f"{where}.id")
        # mcp-use/mcp-use#90
        yield from _bad_name(call["function"]["name"], f"{where}.function.name")
        if call.get("type") != "function" or not isinstance(call["function"]["arguments"], str):
            # From memory.
            text = f"Invalid type for '{where}.function.arguments': expected a string."
            yield refusal(400, text, param=where, code="invalid_type")


def _bad_content(message: Json, i: int) -> Iterator[Failure]:
    """API reference: content is required "unless tool_calls … is specified".

    The text is from memory.
    """
    if message.get("content") is None and not message.get("tool_calls"):
        yield refusal(
            400,
            "Invalid value for 'content': expected a string, got null.",
            param=f"messages.[{i}].content",
        )
    if isinstance(message.get("content"), list):
        parts = cast("list[Json]", message["content"])
        if not parts:
            yield _empty(f"messages[{i}].content")
        for j, part in enumerate(parts):
            yield from _bad_part(part, message, i, j)


def _bad_part(part: Json, message: Json, i: int, j: int) -> Iterator[Failure]:
    """Check one part of a message. The API knows more types of parts; Segue does not send them."""
    kind = part.get("type")
    where = f"messages[{i}].content[{j}]"
    if kind not in ("text", "image_url"):
        # aallam/openai-kotlin#320
        text = f"Invalid value: '{kind}'. Supported values are: 'text' and 'image_url'."
        yield refusal(400, text, param=f"{where}.type", code="invalid_value")
    elif kind not in part:
        # From memory.
        text = f"Missing required parameter: '{where}.{kind}'."
        yield refusal(400, text, param=f"{where}.{kind}", code="missing_required_parameter")
    elif kind == "image_url" and message["role"] != "user":
        # openai/openai-node#1030, OpenHands/OpenHands#7700
        yield refusal(
            400,
            f"Invalid 'messages[{i}]'. Image URLs are only allowed for messages with role 'user', "
            f"but this message with role '{message['role']}' contains an image URL.",
            param=f"messages[{i}]",
            code="invalid_value",
        )
    elif kind == "image_url":
        yield from _bad_picture(part["image_url"])


def _bad_picture(given: Json) -> Iterator[Failure]:
    """Check a picture in a data: URL. Other URLs are refused, as the fake cannot fetch them."""
    url = _DATA_URL.fullmatch(given.get("url", ""))
    if url is None or not url["kind"].startswith("image/"):
        # langgenius/dify#11527
        text = "Invalid MIME type. Only image types are supported."
        yield refusal(400, text, code="invalid_image_format")
        return
    data = pictures.decoded(url["data"])
    if data is None:
        # From memory.
        yield refusal(400, "Invalid base64 image_url.", code="invalid_base64")
    elif pictures.looks_like(data) is None or len(data) > _LARGEST_PICTURE:
        # CosmosShadow/gptpdf#6, STranslate/STranslate#277. The media type in the URL is not
        # checked.
        text = (
            "You uploaded an unsupported image. Please make sure your image is below 20 MB in size "
            "and is of one the following formats: ['png', 'jpeg', 'gif', 'webp']."
        )
        yield refusal(400, text, code="invalid_image_format")


def _bad_name(name: Any, where: str) -> Iterator[Failure]:
    """xinnan-tech/xiaozhi-esp32-server#1466."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield refusal(
            400,
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'.",
            param=where,
            code="invalid_value",
        )
    else:
        yield from _too_long(name, _LONGEST_NAME, where)


def _too_long(text: str, longest: int, where: str) -> Iterator[Failure]:
    """nanbingxyz/5ire#33, mrexodia/ida-pro-mcp#129."""
    if len(text) > longest:
        yield refusal(
            400,
            f"Invalid '{where}': string too long. Expected a string with maximum length {longest}, "
            f"but got a string with length {len(text)} instead.",
            param=where,
            code="string_above_max_length",
        )


def _empty(where: str) -> Failure:
    """From memory."""
    return refusal(
        400,
        f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        param=where,
        code="empty_array",
    )


# Streaming


def sse(*chunks: Json | str) -> bytes:
    """Encode chunks as server-sent events."""
    texts = (c if isinstance(c, str) else msgspec.json.encode(c).decode() for c in chunks)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def delta(finish: str | None = None, **content: Any) -> Json:
    """A chunk with one choice."""
    return chunk([{"index": 0, "delta": content, "finish_reason": finish}])


def chunk(choices: list[Json], model: str = "gpt-test", **more: Any) -> Json:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    return {**head, "choices": choices, **more}


def _stream(say: Say, model: str, *, usage: bool) -> bytes:
    """Stream an answer (API reference: the chat completion chunk object).

    The usage chunk has no choices.
    """
    chunks = [delta(role="assistant", content="")]
    chunks += [delta(content=part) for part in _parts(say.text, 8)]
    for i, call in enumerate(say.calls):
        function = {"name": call.name, "arguments": ""}
        begun = {"index": i, "id": call.id, "type": "function", "function": function}
        chunks.append(delta(tool_calls=[begun]))
        chunks += [
            delta(tool_calls=[{"index": i, "function": {"arguments": part}}])
            for part in _parts(call.arguments, 8)
        ]
    chunks.append(delta(say.finish or ("tool_calls" if say.calls else "stop")))
    if usage:
        tokens = {
            "prompt_tokens": say.prompt_tokens,
            "completion_tokens": say.completion_tokens,
            "total_tokens": say.prompt_tokens + say.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": say.cached_tokens},
        }
        chunks.append(chunk([], model, usage=tokens))
    return sse(*chunks, "[DONE]")


def _parts(text: str, size: int) -> Iterator[str]:
    return (text[i : i + size] for i in range(0, len(text), size))
