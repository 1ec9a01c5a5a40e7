"""Builds the request body: the conversation and the tools."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, ClassVar

from segue.agent.models import layout
from segue.agent.models.alternation import by_turns
from segue.agent.models.arguments import as_object
from segue.agent.models.base import Prompt, ToolSpec
from segue.agent.models.gemini.answer import EXTRAS
from segue.agent.models.gemini.schema import schema
from segue.core.images import KINDS
from segue.core.transcript import Image, Message, ToolCall

SEEN = KINDS - {"image/gif"}
"""The picture types in the documentation, except HEIC and HEIF, which no other provider accepts."""
UNSIGNED = "skip_thought_signature_validator"
"""The documented placeholder signature for calls made by another model."""

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
_NAME_LIMIT = 64

_Json = dict[str, Any]


def build(model: str, prompt: Prompt, *, signed: bool, kinds: Collection[str] = SEEN) -> _Json:
    """Build the request body.

    `signed` includes the signatures of earlier answers, and `kinds` are the media types of the
    pictures to include.
    """
    parts = _Parts(signed=signed, stand_in=_wants_signatures(model))
    body: _Json = {
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


def _tool(spec: ToolSpec) -> _Json:
    declared: _Json = {"name": spec.name, "description": spec.description}
    # The API rejects an object without properties, but accepts a function without parameters.
    if spec.parameters.get("properties"):
        declared["parameters"] = schema(spec.parameters, spec.parameters)
    return declared


class _Sent:
    """A call in wire format that is waiting for its result."""

    def __init__(self, call: ToolCall) -> None:
        self.id = call.id
        self.call: _Json = {"name": _tool_name(call.name), "args": as_object(call)}
        self.part: _Json = {"functionCall": self.call}


class _Parts:
    """Messages as the parts of `contents`."""

    role: ClassVar[str] = "model"
    parts: ClassVar[str] = "parts"

    def __init__(self, *, signed: bool, stand_in: bool) -> None:
        self._signed = signed
        self._stand_in = stand_in
        self._waiting: list[_Sent] = []

    def text(self, words: str) -> list[_Json]:
        return _text(words)

    def picture(self, picture: Image) -> _Json:
        return {"inlineData": {"mimeType": picture.media_type, "data": picture.data}}

    def answer(self, message: Message) -> list[_Json]:
        self._waiting, parts = _said(message, signed=self._signed)
        if self._stand_in and self._waiting:
            self._waiting[0].part.setdefault("thoughtSignature", UNSIGNED)
        return parts

    def result(self, message: Message) -> _Json:
        """The result, with the name of its call, and the id if the call was sent with one."""
        answered: _Json = {"name": _tool_name(message.tool_name or "")}
        for i, sent in enumerate(self._waiting):
            if sent.id == message.tool_call_id:
                answered = {key: sent.call[key] for key in ("name", "id") if key in sent.call}
                del self._waiting[i]
                break
        return {"functionResponse": {**answered, "response": {"output": message.content}}}


def _text(words: str) -> list[_Json]:
    return [{"text": words}] if words.strip() else []


def _said(message: Message, *, signed: bool) -> tuple[list[_Sent], list[_Json]]:
    """The calls and the parts of an answer."""
    if signed and (kept := layout.of(message, EXTRAS)):
        calls = [_Sent(call) for call in message.tool_calls]
        if parts := _laid_out(kept, message, calls):
            return calls, parts
    # Built again, because a layout that did not fit may have added signatures to some of them.
    calls = [_Sent(call) for call in message.tool_calls]
    return calls, _text(message.content) + [sent.part for sent in calls]


def _laid_out(kept: list[Any], message: Message, calls: list[_Sent]) -> list[_Json] | None:
    """The parts as received, with signatures and ids (see Answer).

    None if the layout no longer matches the message.
    """
    parts: list[_Json] = []
    left = layout.Unlaid(message, calls)
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
