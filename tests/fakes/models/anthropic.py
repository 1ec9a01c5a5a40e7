"""A strict fake of Anthropic's Messages API, for tests and for trying out the program.

The requests that it refuses, and the error texts, come from:

- the API reference (platform.claude.com/docs: API errors, Streaming messages, Prompt caching, Stop
  reasons, Preserved thinking, Vision) for statuses, the format of errors and streams, the fields,
  the image formats, the limit of 8000 pixels and the limit of 32 MB per request;
- error texts quoted in public issues on github.com: lobehub/lobehub 1496 (roles must alternate),
  anthropics/claude-code 8210 (calls without results), tghamm/Anthropic.SDK 50 (too many cache
  marks), jobrunr/JavaClaw 36 (no prefill), cg-dot/vertexai-cf-workers 16 and
  earendil-works/pi 424 (images over 5 MiB, measured as base64), anthropics/claude-code 13131 (wrong
  media type) and 4778 (too many pixels);
- memory, where a comment says so.

It is stricter than the real API in one way: today's API merges consecutive messages of one role.
This fake refuses them, as the API did until 2024.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import msgspec

from segue.testing.http import Request, Response
from tests.fakes import pictures
from tests.fakes.models.strict import Failure, Json, Refused, Stream, StrictFake, tokens
from tests.fakes.models.travel import AT_ONCE, Travel

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOP = frozenset(
    {"model", "max_tokens", "messages", "stream", "system", "tools", "tool_choice", "temperature"}
)
_FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    # type: required fields, optional fields
    "text": (frozenset({"text"}), frozenset({"cache_control"})),
    "tool_use": (frozenset({"id", "name", "input"}), frozenset({"cache_control"})),
    "tool_result": (
        frozenset({"tool_use_id"}),
        frozenset({"content", "is_error", "cache_control"}),
    ),
    "image": (frozenset({"source"}), frozenset({"cache_control"})),
    "thinking": (frozenset({"thinking", "signature"}), frozenset()),
    "redacted_thinking": (frozenset({"data"}), frozenset()),
}
_SAYS = {
    "user": frozenset({"text", "image", "tool_result"}),
    "assistant": frozenset({"text", "tool_use", "thinking", "redacted_thinking"}),
}
_MARKS = 4
_KINDS = ("image/jpeg", "image/png", "image/gif", "image/webp")
_LARGEST_PICTURE = 5 * 1024 * 1024
_WIDEST_PICTURE = 8000
_LARGEST_REQUEST = 32 * 1024 * 1024
_PICTURE_TOKENS = 1600


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The model's answer: complete content blocks, as the non-streaming API returns them."""

    content: Sequence[Json] = ()
    stop: str = "end_turn"
    usage: Mapping[str, int] = field(
        default_factory=lambda: {"input_tokens": 12, "output_tokens": 7}
    )
    travel: Travel = AT_ONCE


Reply = Answer | Stream | Failure
Script = Iterable[Reply] | Callable[[Json], Reply]

OVERLOADED = Failure(status=529, kind="overloaded_error", message="Overloaded")


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def tool_use(call_id: str, name: str, **given: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def thinking(thought: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": thought, "signature": signature}


class FakeAnthropic(StrictFake[Answer]):
    """Anthropic's Messages API with scripted answers.

    Thinking signatures are valid if this server issued them, unless `accepts_thinking` is off.
    """

    CONTENT_TYPE = "text/event-stream; charset=utf-8"
    BAD = "invalid_request_error"

    def __init__(
        self,
        script: Script,
        *,
        key: str = "sk-ant-fake",
        models: Sequence[str] = ("claude-fake",),
        context: int = 200_000,
        page: int = 1000,
    ) -> None:
        super().__init__(script, key=key, models=models, context=context, page=page)
        self._signatures: set[str] = set()
        self.accepts_thinking = True

    def _check(self, request: Request) -> str:
        self._check_call(request)
        body = self._parse(request)
        self.requests.append(body)
        _Check(body, self._signatures if self.accepts_thinking else frozenset()).everything()
        self._check_model(body)
        return body["model"]

    def _streamed(self, answer: Answer, model: str) -> bytes:
        self._signatures |= {b["signature"] for b in answer.content if b["type"] == "thinking"}
        return sse(answer, model)

    def _refusal(self, failure: Failure) -> Response:
        error = {"type": failure.kind, "message": failure.message}
        body = {"type": "error", "error": error, "request_id": "req_011CfakefakefakefakeFake"}
        return Response(failure.status, failure.headers, msgspec.json.encode(body))

    def _list(self, request: Request) -> Response:
        """Return a page of models (API reference: List Models). The refusals are from memory."""
        url = urlsplit(request.target)
        query = dict(parse_qsl(url.query))
        if url.path != "/v1/models":
            raise _Refused("Not Found", 404, "not_found_error")
        self._check_headers(request)
        limit = int(query.pop("limit", "20"))
        after = query.pop("after_id", "")
        if query or not 1 <= limit <= 1000 or after not in ("", *self._models):
            raise _Refused("Invalid query parameters")
        rest = self._models[self._models.index(after) + 1 :] if after else self._models
        page = rest[: min(limit, self._page)]
        body = {
            "data": [
                {
                    "type": "model",
                    "id": name,
                    "display_name": name.title(),
                    "created_at": "2026-01-01T00:00:00Z",
                }
                for name in page
            ],
            "has_more": len(page) < len(rest),
            "first_id": page[0] if page else None,
            "last_id": page[-1] if page else None,
        }
        return Response(body=msgspec.json.encode(body))

    def _check_call(self, request: Request) -> None:
        if request.method != "POST" or request.target != "/v1/messages":
            raise _Refused("Not Found", 404, "not_found_error")
        self._check_headers(request)

    def _check_headers(self, request: Request) -> None:
        if "x-api-key" not in request.headers:
            raise _Refused("x-api-key header is required", 401, "authentication_error")
        if request.headers["x-api-key"] != self._key:
            raise _Refused("invalid x-api-key", 401, "authentication_error")
        if "anthropic-version" not in request.headers:
            raise _Refused("anthropic-version: header is required")

    def _parse(self, request: Request) -> Json:
        if len(request.body) > _LARGEST_REQUEST:  # The text is from memory.
            raise _Refused("Request exceeds the maximum size", 413, "request_too_large")
        try:
            return msgspec.json.decode(request.body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise _Refused("The request body is not valid JSON") from error

    def _check_model(self, body: Json) -> None:
        if body["model"] not in self._models:
            raise _Refused(f"model: {body['model']}", 404, "not_found_error")
        length = tokens(body, _pictures(body), _PICTURE_TOKENS)
        if length > self._context:
            raise _Refused(f"prompt is too long: {length} tokens > {self._context} maximum")


class _Refused(Refused):
    def __init__(self, message: str, status: int = 400, kind: str = FakeAnthropic.BAD) -> None:
        super().__init__(Failure(status=status, kind=kind, message=message))


class _Check:
    """The checks that the API makes before the model sees the request."""

    def __init__(self, body: Json, signatures: Iterable[str]) -> None:
        self._body = body
        self._signatures = frozenset(signatures)
        self._marks = 0
        self._seen: set[str] = set()

    def everything(self) -> None:
        body = self._body
        for name in ("model", "max_tokens", "messages"):
            if name not in body:
                raise _Refused(f"{name}: Field required")
        _extra(body, _TOP, "")
        if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
            raise _Refused("max_tokens: Input should be greater than or equal to 1")
        if body.get("stream") is not True:
            raise _Refused("stream: this server only streams")
        self._tools()
        self._system()
        self._messages()
        if self._marks > _MARKS:
            raise _Refused(
                f"A maximum of 4 blocks with cache_control may be provided. Found {self._marks}."
            )

    def _tools(self) -> None:
        tools = cast("list[Json]", self._body.get("tools", []))
        names = [tool.get("name", "") for tool in tools]
        for i, tool in enumerate(tools):
            _extra(
                tool, {"name", "description", "input_schema", "cache_control"}, f"tools.{i}.custom."
            )
            if not _NAME.fullmatch(names[i]):
                raise _Refused(
                    f"tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
                )
            if tool.get("input_schema", {}).get("type") != "object":
                raise _Refused(f"tools.{i}.custom.input_schema.type: Field required")
            self._mark(tool, f"tools.{i}.custom")
        if len(set(names)) < len(names):
            raise _Refused("tools: Tool names must be unique.")
        if "tool_choice" in self._body and not tools:
            raise _Refused("tool_choice: may only be specified while providing tools")

    def _system(self) -> None:
        system = self._body.get("system", "x")
        blocks = [text(system)] if isinstance(system, str) else cast("list[Json]", system)
        for i, block in enumerate(blocks):
            self._block(block, f"system.{i}", frozenset({"text"}))

    def _messages(self) -> None:
        messages = cast("list[Json]", self._body["messages"])
        if not messages:
            raise _Refused("messages: at least one message is required")
        if messages[0].get("role") != "user":
            raise _Refused('messages: first message must use the "user" role')  # From memory.
        calls: list[str] = []
        for i, message in enumerate(messages):
            _extra(message, {"role", "content"}, f"messages.{i}.")
            role = message["role"]
            if i and role == messages[i - 1]["role"]:
                raise _Refused(
                    'messages: roles must alternate between "user" and "assistant", but found '
                    f'multiple "{role}" roles in a row'
                )
            blocks = self._content(message, f"messages.{i}")
            self._results(blocks, calls, i)
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if messages[-1]["role"] == "assistant":
            raise _Refused(
                "This model does not support assistant message prefill. "
                "The conversation must end with a user message."
            )

    def _content(self, message: Json, where: str) -> list[Json]:
        content = message["content"]
        blocks = [text(content)] if isinstance(content, str) else cast("list[Json]", content)
        if not blocks:
            raise _Refused(f"{where}: all messages must have non-empty content")
        for i, block in enumerate(blocks):
            self._block(block, f"{where}.content.{i}", _SAYS[message["role"]])
        if "thinking" in blocks[-1]["type"]:  # From memory.
            raise _Refused(f"{where}: The final block in an assistant message cannot be `thinking`")
        return blocks

    def _block(self, block: Json, where: str, allowed: frozenset[str]) -> None:
        kind = block.get("type", "")
        if kind not in allowed:
            raise _Refused(f"{where}: Input tag '{kind}' found using 'type' does not match any of "
                           f"the expected tags: {', '.join(sorted(allowed))}")  # fmt: skip
        must, may = _FIELDS[kind]
        for name in must - block.keys():
            raise _Refused(f"{where}.{kind}.{name}: Field required")
        _extra(block, {"type"} | must | may, f"{where}.{kind}.")
        self._mark(block, where)
        match kind:
            case "text":
                _text(block["text"], where)
            case "tool_use":
                self._use(block, where)
            case "tool_result":
                content = block.get("content", "x")
                for i, inner in enumerate([] if isinstance(content, str) else content):
                    self._block(inner, f"{where}.content.{i}", frozenset({"text", "image"}))
            case "image":
                _picture(block["source"], f"{where}.image.source")
            case "thinking" if block["signature"] not in self._signatures:
                raise _Refused(
                    f"{where}: Invalid `signature` in `thinking` block. The block is bound to a "
                    "different conversation. Remove the block, or set "
                    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                )
            case _:
                pass

    def _use(self, block: Json, where: str) -> None:
        if not _ID.fullmatch(block["id"]):
            raise _Refused(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not _NAME.fullmatch(block["name"]):
            raise _Refused(
                f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
        if not isinstance(block["input"], dict):
            raise _Refused(f"{where}.tool_use.input: Input should be a valid dictionary")
        if block["id"] in self._seen:
            raise _Refused("messages: `tool_use` ids must be unique")
        self._seen.add(block["id"])
        if not self._body.get("tools"):  # From memory.
            raise _Refused(
                "Requests which include `tool_use` or `tool_result` blocks must define tools"
            )

    def _results(self, blocks: list[Json], calls: list[str], i: int) -> None:
        """Check that results come first in a message, one for each call of the message before."""
        answered: list[str] = []
        for block in blocks:
            if block["type"] != "tool_result":
                break
            answered.append(block["tool_use_id"])
        if missing := [call for call in calls if call not in answered]:
            raise _Refused(
                f"messages.{i - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for j, call in enumerate(given):
            if call not in calls:
                raise _Refused(
                    f"messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result` "
                    f"blocks: {call}. Each `tool_result` block must have a corresponding "
                    "`tool_use` block in the previous message."
                )
        if len(set(given)) < len(given):
            raise _Refused(
                f"messages.{i}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {given[-1]}"
            )

    def _mark(self, block: Json, where: str) -> None:
        if "cache_control" in block:
            self._marks += 1
            if block["cache_control"].get("type") != "ephemeral":
                raise _Refused(f"{where}.cache_control: Input tag does not match 'ephemeral'")


def _extra(given: Json, known: Iterable[str], where: str) -> None:
    for name in given.keys() - set(known):
        raise _Refused(f"{where}{name}: Extra inputs are not permitted")


def _text(words: Any, where: str) -> None:
    if not isinstance(words, str):
        raise _Refused(f"{where}.text.text: Input should be a valid string")
    if not words:
        raise _Refused("messages: text content blocks must be non-empty")
    if not words.strip():
        raise _Refused("messages: text content blocks must contain non-whitespace text")


def _picture(source: Json, where: str) -> None:
    """Check an image. Texts that are not in the issues listed above are from memory."""
    if source.get("type") != "base64":  # The API also takes URLs and files. Segue sends neither.
        raise _Refused(f"{where}: Input tag '{source.get('type')}' does not match 'base64'")
    where = f"{where}.base64"
    _extra(source, {"type", "media_type", "data"}, f"{where}.")
    if source.get("media_type") not in _KINDS:
        known = ", ".join(f"'{kind}'" for kind in _KINDS[:-1])
        raise _Refused(f"{where}.media_type: Input should be {known} or '{_KINDS[-1]}'")
    data = pictures.decoded(source.get("data"))
    if data is None:
        raise _Refused(f"{where}.data: Invalid base64 data")
    if not data:
        raise _Refused(f"{where}: image cannot be empty")
    if (given := len(source["data"])) > _LARGEST_PICTURE:
        raise _Refused(
            f"{where}: image exceeds 5 MB maximum: {given} bytes > {_LARGEST_PICTURE} bytes"
        )
    if (found := pictures.looks_like(data)) is None:
        raise _Refused("Could not process image")
    if found != source["media_type"]:
        raise _Refused(
            f"{where}.data: Image does not match the provided media type {source['media_type']}"
        )
    if max(pictures.size(data)) > _WIDEST_PICTURE:
        raise _Refused(
            f"{where}.data: At least one of the image dimensions exceed max allowed size: "
            f"{_WIDEST_PICTURE} pixels"
        )


def _pictures(body: Json) -> list[str]:
    """The base64 of all images in user messages."""
    blocks = (b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"])
    return [block["source"]["data"] for block in blocks if block["type"] == "image"]


def sse(answer: Answer, model: str = "claude-fake") -> bytes:
    """Return an answer as a stream of events in the order of the reference.

    message_start, the blocks (each start, deltas, stop) with one ping, message_delta with the
    totals, message_stop.
    """
    usage = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **answer.usage}
    message: Json = {
        "id": "msg_01Fake",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(answer.content):
        empty, deltas = _in_deltas(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "ping"}] if not index else []
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": answer.stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": usage})
    events.append({"type": "message_stop"})
    return b"".join(map(event, events))


def event(data: Json) -> bytes:
    """Encode one server-sent event, named after its type."""
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), msgspec.json.encode(data))


def _in_deltas(block: Json) -> tuple[Json, list[Json]]:
    match block["type"]:
        case "text":
            pieces = [{"type": "text_delta", "text": bit} for bit in _bits(block["text"])]
            return {**block, "text": ""}, pieces
        case "tool_use":
            written = msgspec.json.encode(block["input"]).decode() if block["input"] else ""
            bits = ["", *_bits(written)]
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": bit} for bit in bits
            ]
        case "thinking":
            pieces = [{"type": "thinking_delta", "thinking": b} for b in _bits(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*pieces, signed]
        case _:
            return block, []


def _bits(whole: str, size: int = 16) -> list[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]
