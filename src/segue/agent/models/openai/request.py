"""Builds the request body, in a message order and a dialect that the server accepts."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from segue.agent.models import plain
from segue.agent.models.base import Prompt, ToolSpec, as_user, by_agent, is_object
from segue.agent.models.http import encoded
from segue.agent.models.pictures import shown
from segue.core.images import KINDS
from segue.core.text import whole
from segue.core.transcript import Image, Message, Role, ToolCall

IMAGE_URL = "image_url"

_Pictures = Sequence[Image | str]
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDialect:
    """The few fields on which compatible servers differ."""

    LESSONS = 3

    limit: str
    usage: bool = True
    images: bool = True

    def without(self, field: str) -> ServerDialect:
        if field == "stream_options":
            return replace(self, usage=False)
        if field == IMAGE_URL:
            return replace(self, images=False)
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
        return replace(self, limit=other[field])


def limit_at(host: str) -> str:
    """The name of the field that limits the length of the answer.

    OpenAI's newer models reject `max_tokens`. Ollama and many other servers know only that field,
    and would silently leave the answer without a limit.
    """
    ours = host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))
    return "max_completion_tokens" if ours else "max_tokens"


def build(prompt: Prompt, *, model: str, dialect: ServerDialect, small: bool = False) -> bytes:
    """Build the request body."""
    request: dict[str, Any] = {
        "model": model,
        "messages": _messages(prompt, KINDS if dialect.images else (), small=small),
        "stream": True,
        dialect.limit: prompt.max_tokens,
    }
    if dialect.usage:
        request["stream_options"] = {"include_usage": True}
    if small:
        # A small model's most likely token is its best; the rest is mostly noise. Without a
        # penalty, though, it repeats one sentence forever.
        request |= {"temperature": 0, "frequency_penalty": 0.4}
    elif prompt.tools:
        request["tools"] = [_tool(tool) for tool in prompt.tools]
    return encoded(request)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(prompt: Prompt, kinds: Collection[str], *, small: bool) -> list[dict[str, Any]]:
    """The system message and the conversation, in an order that the strictest server accepts.

    OpenAI accepts any order. But the chat templates of Mistral, Gemma and others, which vLLM and
    llama.cpp apply, fail unless user and assistant alternate, starting with the user. Mistral's own
    API requires an assistant message between a tool result and the next user message. So
    consecutive messages of one role are merged, and missing ones are filled in with a text in
    brackets.
    """
    system = prompt.system
    answered = bool(prompt.messages) and prompt.messages[-1].role is Role.TOOL
    wanted = small and not answered and plain.are_wanted(prompt.messages)
    if wanted and (tools := plain.describe(prompt.tools)):
        system = f"{system}\n\n{tools}".strip()
    sent: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    entry_of = _plain_entry if small else _entry
    last = "system"
    for message, pictures in shown(prompt.messages, kinds):
        entry = entry_of(message, pictures)
        if entry is None:
            continue
        role = entry["role"]
        if role == last and role != "tool" and "tool_calls" not in sent[-1]:
            _merge(sent[-1], entry)
            continue
        if role == "assistant" and last == "system":
            sent.append({"role": "user", "content": "[The beginning is left out.]"})
        elif role == "user" and last == "tool":
            sent.append({"role": "assistant", "content": "[I was interrupted.]"})
        sent.append(entry)
        last = role
    if small and answered:
        sent[-1]["content"] = plain.ask_for_words(sent[-1]["content"])
    return sent


def _merge(into: dict[str, Any], entry: dict[str, Any]) -> None:
    before, after = into["content"], entry["content"]
    into |= entry
    if isinstance(before, list) or isinstance(after, list):
        into["content"] = [*_parts(before), *_parts(after)]
    else:
        into["content"] = "\n\n".join(text for text in (before, after) if text)


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return cast("list[dict[str, Any]]", content)
    return [_part(content)] if content else []


def _entry(message: Message, pictures: _Pictures) -> dict[str, Any] | None:
    """The message in wire format, or None if it is empty."""
    if message.role is Role.TOOL:
        call_id = _sendable_id(message.tool_call_id or "")
        return {"role": "tool", "tool_call_id": call_id, "content": message.content}
    if not by_agent(message):
        return {"role": "user", "content": _as_user(message, pictures)}
    if message.tool_calls:
        calls = [_sent_call(call) for call in message.tool_calls]
        return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    return {"role": "assistant", "content": message.content} if message.content else None


def _plain_entry(message: Message, pictures: _Pictures) -> dict[str, Any] | None:
    """Like `_entry`, for a model that sees tools only as text."""
    if message.role is Role.TOOL:
        return {"role": "user", "content": plain.result_text(message.tool_name, message.content)}
    if not by_agent(message):
        return {"role": "user", "content": _as_user(message, pictures)}
    texts = [message.content, *(plain.call_text(call) for call in message.tool_calls)]
    said = "\n".join(text for text in texts if text)
    return {"role": "assistant", "content": said} if said else None


def _as_user(message: Message, pictures: _Pictures) -> str | list[dict[str, Any]]:
    """A plain string, which every server can read, or a list of parts if there are pictures."""
    parts = [part for part in (*pictures, as_user(message)) if part]
    if any(isinstance(part, Image) for part in parts):
        return [_part(part) for part in parts]
    return "\n\n".join(map(str, parts))


def _part(content: Image | str) -> dict[str, Any]:
    if isinstance(content, str):
        return {"type": "text", "text": content}
    url = f"data:{content.media_type};base64,{base64.b64encode(content.data).decode()}"
    return {"type": IMAGE_URL, IMAGE_URL: {"url": url}}


def _sent_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": _sendable_name(call.name), "arguments": _sendable(call.arguments)}
    return {"id": _sendable_id(call.id), "type": "function", "function": function}


def _sendable(arguments: str) -> str:
    """The arguments as written, or wrapped if they are not a JSON object. vLLM and llama.cpp parse
    them for their templates, and would otherwise reject every later request of the conversation."""
    arguments = whole(arguments)
    if not arguments.strip():
        return "{}"
    if is_object(arguments):
        return arguments
    return msgspec.json.encode({"invalid": arguments}).decode()


def _sendable_id(call_id: str) -> str:
    """Shorten the id: OpenAI accepts 40 characters, and ids of other providers may be longer."""
    if len(call_id) <= 40:
        return call_id
    return "call_" + hashlib.sha256(whole(call_id).encode()).hexdigest()[:32]


def _sendable_name(name: str) -> str:
    """Make the name valid. The model may have invented one that OpenAI does not accept back."""
    return _NOT_IN_NAME.sub("_", name)[:64] or "unknown"
