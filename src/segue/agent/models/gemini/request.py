"""Builds the request body: the conversation and the tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, cast

from segue.agent.models.base import Prompt, ToolSpec, as_object
from segue.agent.models.gemini.answer import EXTRAS
from segue.agent.models.parts import Json, Unlaid, by_turns, layout_of
from segue.core.images import KINDS
from segue.core.transcript import Image, Message, ToolCall

SEEN = KINDS - {"image/gif"}
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


def build(model: str, prompt: Prompt, *, signed: bool, kinds: Collection[str] = SEEN) -> Json:
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
