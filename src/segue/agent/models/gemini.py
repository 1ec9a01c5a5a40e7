"""Google's Gemini API, generateContent with streaming: the chunks of an answer, the body of a
request, and the client, with its errors.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.agent.models.base import Call, End, Piece, Prompt, Stop, Text, ToolSpec, as_object
from segue.agent.models.catalog import ApiFormat
from segue.agent.models.hosted import IMAGE, HostedModel, Refusal, encoded, passing
from segue.agent.models.messages import Json, Unlaid, by_turns, layout_of
from segue.core import errors
from segue.core.errors import ModelCutOff, ModelError, ModelRefused
from segue.core.images import KINDS
from segue.core.session import Usage
from segue.core.transcript import Image, Message, ToolCall

EXTRAS = "gemini"

_REFUSALS = ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
_STOPS = {
    "STOP": Stop.DONE,
    "MAX_TOKENS": Stop.LENGTH,
    **dict.fromkeys(_REFUSALS, Stop.REFUSED),
}

_Json = dict[str, Any]


class _FunctionCall(Struct):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(Struct):
    parts: list[_Part] = []


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None


class _UsageMetadata(Struct, rename="camel"):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    cached_content_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0


class _GeminiError(Struct):
    code: int = 0
    message: str = ""
    status: str = ""


class _GeminiChunk(Struct, rename="camel"):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: _UsageMetadata | None = None
    error: _GeminiError | None = None


_CHUNKS = msgspec.json.Decoder(_GeminiChunk)


class _GeminiAnswer:
    """An answer, assembled from its parts."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: list[ToolCall] = []
        self._layout: list[_Json] = []
        self._reason = ""
        self._message = ""
        self._tokens = _UsageMetadata()

    def take(self, news: _GeminiChunk) -> Iterator[str]:
        """Yield the new text for the user."""
        if news.prompt_feedback and (blocked := news.prompt_feedback.block_reason):
            reason = f"the prompt was blocked ({blocked})"
            raise ModelRefused(provider=self._provider, reason=reason)
        self._tokens = news.usage_metadata or self._tokens
        for candidate in news.candidates[:1]:
            self._reason = candidate.finish_reason or self._reason
            self._message = candidate.finish_message or self._message
            for part in candidate.content.parts if candidate.content else ():
                if text := self._part(part):
                    yield text

    def _part(self, part: _Part) -> str:
        """Record the part so that it can be sent back, and return its text for the user."""
        signature = {"signature": part.thought_signature} if part.thought_signature else {}
        if part.function_call is not None:
            call = part.function_call
            # Calls of older models have no ids.
            made = ToolCall(call.id or f"call_{secrets.token_hex(8)}", call.name, _arguments(call))
            self._calls.append(made)
            own = {"own": True} if call.id else {}
            self._layout.append({"call": made.id, **own, **signature})
            return ""
        if not part.text or part.thought:
            return ""
        # Signed parts stay separate. Unsigned ones are a single text, split for streaming.
        if self._layout and not signature and self._layout[-1].keys() == {"text"}:
            self._layout[-1]["text"] += len(part.text)
        else:
            self._layout.append({"text": len(part.text), **signature})
        return part.text

    def rest(self) -> Iterator[Piece]:
        """Yield the calls and the End. Raise ModelError if the answer did not end normally."""
        if not self._reason:
            raise ModelCutOff(provider=self._provider)
        stop = _STOPS.get(self._reason)
        if stop is None:
            reason = self._message.strip().rstrip(".") or f"it stopped with {self._reason}"
            raise ModelError(provider=self._provider, reason=reason)
        calls = self._calls if stop is not Stop.REFUSED else []
        yield from map(Call, calls)
        kept = any(item.keys() - {"text", "call"} for item in self._layout)
        yield End(
            stop=Stop.CALLS if calls and stop is Stop.DONE else stop,
            usage=self._usage(),
            extras={EXTRAS: self._layout} if kept and len(calls) == len(self._calls) else {},
        )

    def _usage(self) -> Usage:
        tokens = self._tokens
        return Usage(
            input=tokens.prompt_token_count + tokens.tool_use_prompt_token_count,
            output=tokens.candidates_token_count + tokens.thoughts_token_count,
            cached=tokens.cached_content_token_count,
        )


def _arguments(call: _FunctionCall) -> str:
    written = bytes(call.args).decode()
    return written if written.startswith("{") else "{}"


_SEEN = KINDS - {"image/gif"}
"""The picture types in the documentation, except HEIC and HEIF, which no other provider accepts."""
UNSIGNED = "skip_thought_signature_validator"
"""The documented placeholder signature for calls made by another model."""

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
_NAME_LIMIT = 64

_KEPT = frozenset({
    "title", "description", "nullable", "pattern", "minimum", "maximum", "minItems", "maxItems",
    "minLength", "maxLength", "minProperties", "maxProperties",
})  # fmt: skip
_ABOUT = frozenset({"title", "description", "nullable"})
_FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_MAX_DEPTH = 10
"""The maximum depth, because a schema can contain itself."""


def build(model: str, prompt: Prompt, *, signed: bool, kinds: Collection[str] = _SEEN) -> Json:
    """Build the request body. `signed` includes the signatures of earlier answers, and `kinds` are
    the media types of the pictures to include."""
    parts = _Parts(signed=signed, stand_in=_wants_signatures(model))
    body: Json = {
        "contents": by_turns(prompt.messages, parts, kinds),
        "generationConfig": {"maxOutputTokens": prompt.max_tokens},
    }
    if prompt.system.strip():
        body["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    if prompt.tools:
        body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in prompt.tools]}]
    return body


def _wants_signatures(model: str) -> bool:
    """True from Gemini 3 on, where the first call of every step must be signed."""
    return not model.startswith(("gemini-1", "gemini-2"))


def _tool(spec: ToolSpec) -> Json:
    declared: Json = {"name": spec.name, "description": spec.description}
    # The API rejects an object without properties, but accepts a function without parameters.
    if spec.parameters.get("properties"):
        declared["parameters"] = _schema(spec.parameters, spec.parameters)
    return declared


class _Sent:
    """A call in wire format that is waiting for its result."""

    def __init__(self, call: ToolCall) -> None:
        self.id = call.id
        self.call: Json = {"name": _tool_name(call.name), "args": as_object(call)}
        self.part: Json = {"functionCall": self.call}


def _text(words: str) -> list[Json]:
    return [{"text": words}] if words.strip() else []


class _Parts:
    """Messages as the parts of `contents`."""

    role: ClassVar[str] = "model"
    parts: ClassVar[str] = "parts"
    text = staticmethod(_text)

    def __init__(self, *, signed: bool, stand_in: bool) -> None:
        self._signed = signed
        self._stand_in = stand_in
        self._waiting: list[_Sent] = []

    def picture(self, picture: Image) -> Json:
        return {"inlineData": {"mimeType": picture.media_type, "data": picture.data}}

    def answer(self, message: Message) -> list[Json]:
        self._waiting, parts = _said(message, signed=self._signed)
        if self._stand_in and self._waiting:
            self._waiting[0].part.setdefault("thoughtSignature", UNSIGNED)
        return parts

    def result(self, message: Message) -> Json:
        """The result, with the name of its call, and the id if the call was sent with one."""
        answered: Json = {"name": _tool_name(message.tool_name or "")}
        for i, sent in enumerate(self._waiting):
            if sent.id == message.tool_call_id:
                answered = {key: sent.call[key] for key in ("name", "id") if key in sent.call}
                del self._waiting[i]
                break
        return {"functionResponse": {**answered, "response": {"output": message.content}}}


def _said(message: Message, *, signed: bool) -> tuple[list[_Sent], list[Json]]:
    """The calls and the parts of an answer."""
    if signed and (kept := layout_of(message, EXTRAS)):
        calls = [_Sent(call) for call in message.tool_calls]
        if parts := _laid_out(kept, message, calls):
            return calls, parts
    # Built again, because a layout that did not fit may have added signatures to some of them.
    calls = [_Sent(call) for call in message.tool_calls]
    return calls, _text(message.content) + [sent.part for sent in calls]


def _laid_out(kept: list[Any], message: Message, calls: list[_Sent]) -> list[Json] | None:
    """The parts as received, with signatures and ids, or None if the layout no longer matches the
    message."""
    parts: list[Json] = []
    left = Unlaid(message, calls)
    for item in kept:
        match item:
            case {"text": int(length), **more}:
                piece = _text(left.text(length))
            case {"call": str(call), **more} if sent := left.call(call):
                piece = [sent.part]
                if more.get("own"):
                    sent.call["id"] = call
            case _:
                return None
        if piece and "signature" in more:
            piece[0]["thoughtSignature"] = more["signature"]
        parts += piece
    return parts if left.is_nothing else None


def _tool_name(name: str) -> str:
    """Make the name valid. A model of another provider may have invented it."""
    clean = _NOT_IN_NAME.sub("_", name)
    return (clean if clean[:1].isalpha() or clean[:1] == "_" else f"_{clean}")[:_NAME_LIMIT]


# JSON schemas: the API supports only a subset


def _schema(source: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Json:
    """Convert `source`, dropping what Gemini rejects. References are resolved in `root`."""
    source = _resolved(source, root)
    about = {key: source[key] for key in _ABOUT & source.keys()}
    if depth == _MAX_DEPTH:
        return {**about, "type": "STRING"}
    if options := _options(source):
        real = [option for option in options if option.get("type") != "null"]
        chosen = [_schema(option, root, depth + 1) for option in real]
        null = {"nullable": True} if len(real) < len(options) else {}
        if len(real) == 1:
            return {**chosen[0], **about, **null}
        return {**about, **null, "anyOf": chosen}
    clean: Json = {key: source[key] for key in _KEPT & source.keys()}
    if named := source.get("type") or ("object" if "properties" in source else ""):
        clean["type"] = str(named).upper()
    if source.get("format") in _FORMATS:
        clean["format"] = source["format"]
    values: list[Any] = [source["const"]] if "const" in source else list(source.get("enum", ()))
    if values and all(isinstance(value, str) for value in values):
        clean |= {"type": "STRING", "enum": values}
    return clean | _nested(source, root, depth)


def _options(source: Mapping[str, Any]) -> list[Json]:
    """The alternatives in `source`. A list of types also counts as alternatives."""
    types: Any = source.get("type")
    if isinstance(types, list):
        return [{**source, "type": name} for name in cast("list[str]", types)]
    options: Any = source.get("anyOf") or source.get("oneOf") or []
    return [cast("Json", option) for option in options if isinstance(option, Mapping)]


def _resolved(source: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace a $ref with the schema it points to. Keys next to the $ref take precedence."""
    target: Any = root
    reference = source.get("$ref")
    if not isinstance(reference, str):
        return source
    for step in reference.removeprefix("#").strip("/").split("/"):
        target = cast("Json", target).get(step) if isinstance(target, Mapping) else None
    beside = {key: value for key, value in source.items() if key != "$ref"}
    return {**cast("Json", target), **beside} if isinstance(target, Mapping) else beside


def _nested(source: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Json:
    clean: Json = {}
    if properties := cast("Json", source.get("properties")):
        clean["properties"] = {k: _schema(v, root, depth + 1) for k, v in properties.items()}
        if required := [name for name in source.get("required", ()) if name in properties]:
            clean["required"] = required
    if source.get("type") == "array":
        items = source.get("items")
        known = cast("Json", items) if isinstance(items, Mapping) else {"type": "string"}
        clean["items"] = _schema(known, root, depth + 1)
    return clean


_SIGNATURE = "signature"
_NOTHING_LEFT = re.compile(r"\bcredits?\b|prepay|limit: 0\b")
_WAIT = re.compile(r"retry in|retrydelay")


class _GeminiRefusal(Struct):
    error: _GeminiError


_REFUSAL: msgspec.json.Decoder[_GeminiRefusal | list[_GeminiRefusal]] = msgspec.json.Decoder(
    _GeminiRefusal | list[_GeminiRefusal]
)


class GeminiModel(HostedModel):
    """A Google model, accessed with an AI Studio key. Any other model or account rejects the
    signatures of earlier answers."""

    WIRE = ApiFormat.GEMINI
    SENT_BACK: ClassVar[Mapping[str, str]] = {EXTRAS: _SIGNATURE}

    async def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        model = self._model.removeprefix("models/")  # the collection
        kinds = _SEEN if IMAGE in included else ()
        asked = build(model, prompt, signed=_SIGNATURE in included, kinds=kinds)
        path = f"/models/{quote(model, safe='')}:streamGenerateContent?alt=sse"
        answer = _GeminiAnswer(self._client.provider)
        async with aclosing(self._client.events(path, encoded(asked))) as events:
            async for event in events:
                news = self._read(event.data, _CHUNKS)
                if news.error is not None:
                    raise self._fault(news.error.code, news.error, event.data)
                for text in answer.take(news):
                    yield Text(text)
        for piece in answer.rest():
            yield piece

    def _translate(self, refusal: Refusal) -> errors.ModelError:
        decoded = _REFUSAL.decode(refusal.body)
        error = (decoded[0] if isinstance(decoded, list) else decoded).error
        return self._fault(refusal.status, error, refusal.body)

    def _fault(self, status: int, error: _GeminiError, body: str) -> errors.ModelError:
        """Translate an API error. `body` is the complete response, with the details."""
        reason = error.message.strip().rstrip(".") or error.status
        return self._error(_kind(status, error.status, reason.lower(), body.lower()), reason)


def _kind(status: int, name: str, said: str, everything: str) -> type[errors.ModelError]:
    match status:
        case 401 | 403:
            return errors.BadKey
        case 404:
            return errors.UnknownModel
        case 413:
            return errors.ContextTooLong
        case 429:
            # Every quota error mentions billing. A temporary one says when to retry.
            waits = _WAIT.search(everything)
            spent = _NOTHING_LEFT.search(said) or ("billing" in said and not waits)
            return errors.NoCredit if spent else errors.ModelBusy
        case _ if status < 500:
            if "api_key_invalid" in everything or "api key" in said:
                return errors.BadKey
            if "token count" in said and "exceeds" in said:
                return errors.ContextTooLong
            unpaid = name == "FAILED_PRECONDITION" and "billing" in said
            return errors.NoCredit if unpaid else errors.ModelRefused
        case _:
            return passing(status)
