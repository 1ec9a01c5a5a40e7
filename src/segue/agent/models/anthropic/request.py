"""Builds the request body: the conversation with cache breakpoints."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, cast

from segue.agent.models.anthropic.answer import EXTRAS
from segue.agent.models.base import Prompt, ToolSpec, as_object
from segue.agent.models.parts import Json, Unlaid, by_turns, layout_of
from segue.core.images import KINDS
from segue.core.transcript import Image, Message, ToolCall

_MARK = {"type": "ephemeral"}
_MARKED_MESSAGES = 3
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LIMIT = 64


def build(model: str, prompt: Prompt, *, thinking: bool, kinds: Collection[str] = KINDS) -> Json:
    """Build the request body. `thinking` includes the thinking of earlier answers, and `kinds` are
    the media types of the pictures to include."""
    messages = by_turns(prompt.messages, _Blocks(thinking=thinking), kinds)
    body: Json = {
        "model": model,
        "max_tokens": prompt.max_tokens,
        "stream": True,
        "messages": messages,
    }
    if prompt.tools:
        body["tools"] = [_tool(spec) for spec in prompt.tools]
    elif names := _names_used(prompt.messages):
        # A conversation with tool calls must declare tools, even if none may be called now.
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        body["tool_choice"] = {"type": "none"}
    if prompt.system.strip():
        body["system"] = [{"type": "text", "text": prompt.system}]
    _mark(body)
    return body


def _mark(body: Json) -> None:
    """Set cache breakpoints, at most four: one after the tools and the system prompt, and the
    others at the end of the last user messages, where the previous requests ended."""
    if fixed := body.get("system") or body.get("tools"):
        fixed[-1]["cache_control"] = _MARK
    users = [m for m in body["messages"][-2 * _MARKED_MESSAGES :] if m["role"] == "user"]
    for message in users[-_MARKED_MESSAGES:]:
        message["content"][-1]["cache_control"] = _MARK


def _tool(spec: ToolSpec) -> Json:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _names_used(messages: Sequence[Message]) -> list[str]:
    return sorted({_tool_name(call.name) for m in messages for call in m.tool_calls})


def _text(words: str) -> list[Json]:
    return [{"type": "text", "text": words}] if words.strip() else []


class _Blocks:
    """Messages as content blocks."""

    role: ClassVar[str] = "assistant"
    parts: ClassVar[str] = "content"
    text = staticmethod(_text)

    def __init__(self, *, thinking: bool) -> None:
        self._thinking = thinking
        self._ids = _Ids()

    def picture(self, picture: Image) -> Json:
        source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
        return {"type": "image", "source": source}

    def answer(self, message: Message) -> list[Json]:
        calls = [self._use(call) for call in message.tool_calls]
        kept = layout_of(message, EXTRAS) if self._thinking else []
        laid_out = _laid_out(kept, message, calls) if kept else None
        return laid_out or _text(message.content) + calls

    def result(self, message: Message) -> Json:
        call_id = self._ids.of_result(message.tool_call_id or "")
        block: Json = {"type": "tool_result", "tool_use_id": call_id}
        if message.content.strip():
            block["content"] = message.content
        return block

    def _use(self, call: ToolCall) -> Json:
        return {
            "type": "tool_use",
            "id": self._ids.of_call(call.id),
            "name": _tool_name(call.name),
            "input": as_object(call),
        }


def _laid_out(kept: list[Any], message: Message, calls: list[Json]) -> list[Json] | None:
    """The blocks in their original order, or None if the layout no longer matches the message."""
    blocks: list[Json] = []
    left = Unlaid(message, calls)
    for item in kept:
        if isinstance(item, int):
            blocks += _text(left.text(item))
        elif isinstance(item, str) and (call := left.call(item)):
            blocks.append(call)
        elif isinstance(item, dict):
            blocks.append(cast("Json", item))
        else:
            return None
    whole = blocks and left.is_nothing
    return blocks if whole and "thinking" not in blocks[-1]["type"] else None


def _tool_name(name: str) -> str:
    """Make the name valid. A model of another provider may have invented it."""
    return _NOT_IN_NAME.sub("_", name)[:_NAME_LIMIT] or "_"


class _Ids:
    """Tool call ids that the API accepts: letters, digits, _ and -, each id used only once.

    Other providers have other rules, and some count from 0 in every answer. The same conversation
    always gets the same ids.
    """

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._times: dict[str, int] = {}
        self._waiting: list[tuple[str, str]] = []

    def of_call(self, raw: str) -> str:
        base = raw
        if not _ID.fullmatch(raw):
            base = "call_" + hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:24]
        given = base
        while given in self._given:
            self._times[base] = self._times.get(base, 0) + 1
            given = f"{base}_{self._times[base]}"
        self._given.add(given)
        self._waiting.append((raw, given))
        return given

    def of_result(self, raw: str) -> str:
        """The id of the oldest call named `raw` that has no result yet."""
        for i, (waiting, given) in enumerate(self._waiting):
            if waiting == raw:
                del self._waiting[i]
                return given
        return self.of_call(raw)
