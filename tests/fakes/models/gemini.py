"""A strict fake of the Gemini API, for tests and for trying out the program.

The requests that it refuses, and the error texts, come from:

- the API reference (ai.google.dev: generateContent, Schema and FunctionDeclaration, Thought
  signatures, Image understanding) for fields, the format of answers, the rule that signatures are
  sent back, the image formats and the limit of 20 MB per request;
- error texts quoted in public issues on github.com: google-gemini/gemini-cli 4231 (too many
  tokens), 14183 and 15568 (responses and their calls), 26486 (calls after a user's turn), 8883
  (quota), continuedev/continue 8785 (missing signature), openswarm-ai/openswarm 24 and
  zed-industries/zed 53919 (schemas), vercel/ai 3775 and router-for-me/CLIProxyAPI 1292 (empty
  parts), musistudio/claude-code-router 845 (base64), charmbracelet/crush 995 (image formats),
  google-gemini/gemini-cli 5064 (data that is not an image), google-gemini/
  deprecated-generative-ai-android 26 (too large);
- memory, where a comment says so.

It is stricter than the real API in three ways: roles must alternate; a response must have the name
(and the id, if there is one) of the call in the same position; and only user messages may contain
images.
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

UNSIGNED = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
"""Values that the documentation allows in place of a signature, for calls of another model."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_TOP = frozenset({"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"})
_DATA = frozenset({"text", "inlineData", "functionCall", "functionResponse"})
_KINDS = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
_LARGEST_REQUEST = 20 * 1024 * 1024
_PICTURE_TOKENS = 1120
_SCHEMA = frozenset({
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems",
    "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength",
    "pattern", "example", "anyOf", "propertyOrdering", "default", "items", "minimum", "maximum",
})  # fmt: skip
_FORMATS = {
    "STRING": {"enum", "date-time"},
    "NUMBER": {"float", "double"},
    "INTEGER": {"int32", "int64"},
}
_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The model's answer: each chunk of parts becomes one event of the stream."""

    chunks: Sequence[Sequence[Json]] = ()
    finish: str = "STOP"
    finish_message: str | None = None
    usage: Mapping[str, int] = field(
        default_factory=lambda: {"promptTokenCount": 12, "candidatesTokenCount": 7}
    )
    travel: Travel = AT_ONCE


Reply = Answer | Stream | Failure
Script = Iterable[Reply] | Callable[[Json], Reply]

OVERLOADED = Failure(
    status=503, kind="UNAVAILABLE", message="The model is overloaded. Please try again later."
)


def text(words: str, **more: Any) -> Json:
    return {"text": words, **more}


def call(name: str, *, signature: str = "", call_id: str = "", **args: Any) -> Json:
    """A part with a function call. Newer models add a signature and an id."""
    signed = {"thoughtSignature": signature} if signature else {}
    numbered = {"id": call_id} if call_id else {}
    return {"functionCall": {"name": name, "args": args, **numbered}, **signed}


class FakeGemini(StrictFake[Answer]):
    """The Gemini API with scripted answers. Its base URL is the server's URL plus `/v1beta`.

    Thought signatures are valid if this server issued them, unless `accepts_signatures` is off.
    """

    BAD = "INVALID_ARGUMENT"

    def __init__(
        self,
        script: Script,
        *,
        key: str = "AIza-fake",
        models: Sequence[str] = ("gemini-2.5-fake", "gemini-3-fake"),
        context: int = 1_048_576,
        page: int = 1000,
    ) -> None:
        super().__init__(script, key=key, models=models, context=context, page=page)
        self._signatures: set[str] = set()
        self.accepts_signatures = True

    def _check(self, request: Request) -> str:
        model = self._check_call(request)
        body = self._parse(request)
        self.requests.append(body)
        known = self._signatures if self.accepts_signatures else frozenset[str]()
        _Check(body, known | UNSIGNED, strict=model.startswith("gemini-3")).everything()
        self._check_length(body)
        return model

    def _streamed(self, answer: Answer, model: str) -> bytes:
        parts = [part for chunk in answer.chunks for part in chunk]
        self._signatures |= {p["thoughtSignature"] for p in parts if "thoughtSignature" in p}
        return sse(answer, model)

    def _refusal(self, failure: Failure) -> Response:
        error: Json = {"code": failure.status, "message": failure.message, "status": failure.kind}
        if failure.details:
            error["details"] = failure.details
        return Response(failure.status, failure.headers, msgspec.json.encode({"error": error}))

    def _check_call(self, request: Request) -> str:
        path = re.fullmatch(
            r"/v1beta/models/([^/:?]+):streamGenerateContent\?alt=sse", request.target
        )
        if request.method != "POST" or path is None:
            raise _Refused("Requested entity was not found.", 404, "NOT_FOUND")
        self._check_key(request)
        if path[1] not in self._models:
            raise _Refused(
                f"models/{path[1]} is not found for API version v1beta, or is not supported for "
                "generateContent. Call ListModels to see the list of available models and their "
                "supported methods.",
                404,
                "NOT_FOUND",
            )
        return path[1]

    def _list(self, request: Request) -> Response:
        """Return a page of models (API reference: models.list), including one that only embeds.

        The refusals are from memory.
        """
        url = urlsplit(request.target)
        query = dict(parse_qsl(url.query))
        if url.path != "/v1beta/models":
            raise _Refused("Requested entity was not found.", 404, "NOT_FOUND")
        self._check_key(request)
        size = int(query.pop("pageSize", "50"))
        begin = int(query.pop("pageToken", "0"))
        if query or not 1 <= size <= 1000:
            raise _Refused("Invalid query parameters.")
        listed = [
            {"name": f"models/{name}", "supportedGenerationMethods": ["generateContent"]}
            for name in self._models
        ]
        vectors = {"name": "models/vectors-fake", "supportedGenerationMethods": ["embedContent"]}
        listed = [vectors, *listed]
        end = begin + min(size, self._page)
        more = {"nextPageToken": str(end)} if end < len(listed) else {}
        return Response(body=msgspec.json.encode({"models": listed[begin:end], **more}))

    def _check_key(self, request: Request) -> None:
        key = request.headers.get("x-goog-api-key")
        if not key:  # From memory.
            raise _Refused(
                "Method doesn't allow unregistered callers (callers without established identity). "
                "Please use API Key or other form of API consumer identity to call this API.",
                403,
                "PERMISSION_DENIED",
            )
        if key != self._key:
            info = {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
            }
            raise _Refused("API key not valid. Please pass a valid API key.", details=[info])

    def _parse(self, request: Request) -> Json:
        if len(request.body) > _LARGEST_REQUEST:
            raise _Refused(f"Request payload size exceeds the limit: {_LARGEST_REQUEST} bytes.")
        try:
            return msgspec.json.decode(request.body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise _Refused("Invalid JSON payload received.") from error

    def _check_length(self, body: Json) -> None:
        data = [p["inlineData"]["data"] for p in _all_parts(body) if "inlineData" in p]
        length = tokens(body, data, _PICTURE_TOKENS)
        if length > self._context:
            raise _Refused(
                f"The input token count ({length}) exceeds the maximum number of tokens allowed "
                f"({self._context})."
            )


class _Refused(Refused):
    def __init__(
        self,
        message: str,
        status: int = 400,
        kind: str = FakeGemini.BAD,
        details: Sequence[Json] = (),
    ) -> None:
        super().__init__(Failure(status=status, kind=kind, message=message, details=details))


class _Check:
    """The checks that the API makes before the model sees the request."""

    def __init__(self, body: Json, signatures: Iterable[str], *, strict: bool) -> None:
        self._body = body
        self._signatures = frozenset(signatures)
        self._strict = strict

    def everything(self) -> None:
        body = self._body
        _known(body, _TOP, "")
        config = body.get("generationConfig", {})
        _known(config, {"maxOutputTokens", "temperature"}, "generation_config")
        if not isinstance(config.get("maxOutputTokens", 1), int):
            raise _Refused("Invalid value at 'generation_config.max_output_tokens' (TYPE_INT32)")
        system = body.get("systemInstruction")
        if system is not None:
            self._parts(system, "system_instruction")
        for i, tool in enumerate(cast("list[Json]", body.get("tools", []))):
            _known(tool, {"functionDeclarations"}, f"tools[{i}]")
            for j, declared in enumerate(tool["functionDeclarations"]):
                _declaration(declared, f"tools[{i}].function_declarations[{j}]")
        self._contents(cast("list[Json]", body.get("contents", [])))

    def _contents(self, contents: list[Json]) -> None:
        if not contents:
            raise _Refused("* GenerateContentRequest.contents: contents is not specified\n")
        for i, content in enumerate(contents):
            _known(content, {"role", "parts"}, f"contents[{i}]")
            if content.get("role") not in ("user", "model"):
                raise _Refused("Please use a valid role: user, model.")
            self._parts(content, f"contents[{i}]")
        for i, content in enumerate(contents):
            self._order(contents[i - 1] if i else None, content)
        if contents[-1]["role"] != "user":  # From memory.
            raise _Refused(
                "Please ensure that multiturn requests ends with a user role or a function "
                "response."
            )
        if self._strict:
            self._signed(contents)

    def _parts(self, content: Json, where: str) -> None:
        parts = cast("list[Json]", content.get("parts", []))
        if not parts:
            raise _Refused(
                f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.\n"
            )
        for i, part in enumerate(parts):
            _known(part, _DATA | {"thought", "thoughtSignature"}, f"{where}.parts[{i}]")
            data = _DATA & part.keys()
            if len(data) != 1 or part.get("text") == "":
                raise _Refused(
                    f"* GenerateContentRequest.{where}.parts[{i}].data: required oneof field "
                    "'data' must have one initialized field\n"
                )
            if part.get("thoughtSignature", next(iter(UNSIGNED))) not in self._signatures:
                raise _Refused("Corrupted thought signature.")
            self._function(part, f"{where}.parts[{i}]")
            if "inlineData" in part:
                if content.get("role") != "user":
                    raise _Refused("Please use a valid role: user, model.")
                _picture(part["inlineData"], f"{where}.parts[{i}].inline_data")

    def _function(self, part: Json, where: str) -> None:
        for kind, value in (("functionCall", "args"), ("functionResponse", "response")):
            if kind not in part:
                continue
            function = part[kind]
            _known(function, {"name", "id", value}, f"{where}.{_snake(kind)}")
            if not _NAME.fullmatch(function.get("name", "")):
                raise _Refused(
                    f"* GenerateContentRequest.{where}.{_snake(kind)}.name: Name cannot be empty "
                    "or has characters that are not allowed.\n"
                )
            if not isinstance(function.get(value, {}), dict):
                raise _Refused(f"Invalid value at '{where}.{_snake(kind)}.{value}' (Struct)")

    def _order(self, before: Json | None, content: Json) -> None:
        calls = _functions(content, "functionCall")
        responses = _functions(content, "functionResponse")
        asked = _functions(before, "functionCall") if before else []
        if before and before["role"] == content["role"]:
            raise _Refused(
                "Please ensure that multiturn requests alternate between user and model."
            )
        if (calls and content["role"] != "model") or (responses and content["role"] != "user"):
            raise _Refused("Please use a valid role: user, model.")
        if calls and before is None:
            raise _Refused(
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
        if responses and not asked:
            raise _Refused(
                "Please ensure that function response turn comes immediately after a function "
                "call turn."
            )
        if len(responses) != len(asked):
            raise _Refused(
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )
        for made, given in zip(asked, responses, strict=True):
            if (made["name"], made.get("id")) != (given["name"], given.get("id")):
                raise _Refused(f"The response to {made['name']} bears another name or id.")

    def _signed(self, contents: list[Json]) -> None:
        """Check that in the current turn the first call of every step has a signature."""
        begun = max(
            (i for i, content in enumerate(contents)
             if content["role"] == "user" and any(
                 {"text", "inlineData"} & part.keys() for part in content["parts"])),
            default=0,
        )  # fmt: skip
        for i, content in enumerate(contents[begun:], begun):
            first = next((part for part in content["parts"] if "functionCall" in part), None)
            if first and "thoughtSignature" not in first:
                raise _Refused(
                    "Function call is missing a thought_signature in functionCall parts. This is "
                    "required for tools to work correctly, and missing thought_signature may lead "
                    "to degraded model performance. Additional data, function call "
                    f"`default_api:{first['functionCall']['name']}` , position {i}."
                )


def _picture(given: Json, where: str) -> None:
    _known(given, {"mimeType", "data"}, where)
    data = pictures.decoded(given.get("data"))
    if data is None:
        raise _Refused(
            f"Invalid value at '{where}.data' (TYPE_BYTES), Base64 decoding failed for "
            f'"{given.get("data")}"'
        )
    if given.get("mimeType") not in _KINDS:
        raise _Refused(f"Unsupported MIME type: {given.get('mimeType')}")
    if pictures.looks_like(data) is None:
        raise _Refused(
            "Unable to process input image. Please retry or report in "
            "https://developers.generativeai.google/guide/troubleshooting"
        )


def _all_parts(body: Json) -> list[Json]:
    return [part for content in body["contents"] for part in content["parts"]]


def _functions(content: Json, kind: str) -> list[Json]:
    return [part[kind] for part in content["parts"] if kind in part]


def _declaration(declared: Json, where: str) -> None:
    _known(declared, {"name", "description", "parameters"}, where)
    if not _NAME.fullmatch(declared.get("name", "")):
        raise _Refused(f"* GenerateContentRequest.{where}.name: Invalid function name.\n")
    if "parameters" in declared:
        parameters = declared["parameters"]
        _schema(parameters, f"{where}.parameters")
        if parameters.get("type") != "OBJECT" or not parameters.get("properties"):
            raise _Refused(
                f"* GenerateContentRequest.{where}.parameters.properties: should be non-empty for "
                "OBJECT type\n"
            )


def _schema(schema: Json, where: str) -> None:
    _known(schema, _SCHEMA, where)
    kind = schema.get("type")
    if isinstance(kind, list):
        raise _Refused(_unknown("type", where, "Proto field is not repeating, cannot start list."))
    if kind is not None and kind not in _TYPES:
        raise _Refused(f"Invalid value at '{where}.type' ({where}.Type), \"{kind}\"")
    if "enum" in schema and (
        kind != "STRING" or not all(isinstance(v, str) for v in schema["enum"])
    ):
        raise _Refused(f"* GenerateContentRequest.{where}.enum: only allowed for STRING type\n")
    if "format" in schema and schema["format"] not in _FORMATS.get(str(kind), set()):
        raise _Refused(
            f"* GenerateContentRequest.{where}.format: only 'enum' and 'date-time' are supported "
            "for STRING type\n"
        )
    if kind == "ARRAY" and "items" not in schema:
        raise _Refused(f"* GenerateContentRequest.{where}.items: missing field.\n")
    _inner_schemas(schema, where)


def _inner_schemas(schema: Json, where: str) -> None:
    properties = cast("dict[str, Json]", schema.get("properties", {}))
    for i, name in enumerate(schema.get("required", ())):
        if name not in properties:
            raise _Refused(
                f"* GenerateContentRequest.{where}.required[{i}]: property is not defined\n"
            )
    for i, inner in enumerate(properties.values()):
        _schema(inner, f"{where}.properties[{i}].value")
    for i, inner in enumerate(cast("list[Json]", schema.get("anyOf", []))):
        _schema(inner, f"{where}.any_of[{i}]")
    if "items" in schema:
        _schema(schema["items"], f"{where}.items")


def _known(given: Json, names: Iterable[str], where: str) -> None:
    for name in given.keys() - set(names):
        raise _Refused(_unknown(name, where, "Cannot find field."))


def _unknown(name: str, where: str, why: str) -> str:
    place = f" at '{where}'" if where else ""
    return f'Invalid JSON payload received. Unknown name "{name}"{place}: {why}'


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)


def sse(answer: Answer, model: str = "gemini-3-fake") -> bytes:
    """Return an answer as a stream. Every event is a whole GenerateContentResponse.

    The last event has the finish reason; the stream has no other end marker.
    """
    events: list[Json] = []
    chunks = answer.chunks or ((),)
    for i, chunk in enumerate(chunks):
        candidate: Json = {"content": {"parts": list(chunk), "role": "model"}, "index": 0}
        if not chunk:
            del candidate["content"]
        if i == len(chunks) - 1:
            candidate["finishReason"] = answer.finish
            if answer.finish_message:
                candidate["finishMessage"] = answer.finish_message
        total = sum(answer.usage.get(k, 0) for k in ("promptTokenCount", "candidatesTokenCount"))
        usage = {**answer.usage, "totalTokenCount": total}
        about = {"usageMetadata": usage, "modelVersion": model, "responseId": "fake"}
        events.append({"candidates": [candidate], **about})
    return b"".join(map(event, events))


def event(data: Json) -> bytes:
    """Encode one server-sent event. The API ends its lines with CR LF."""
    return b"data: %s\r\n\r\n" % msgspec.json.encode(data)
