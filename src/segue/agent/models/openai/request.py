"""What is sent: the conversation, in an order and a dialect that the server takes."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from segue.agent.models import plain
from segue.agent.models.arguments import is_object
from segue.agent.models.base import Prompt, ToolSpec, as_user, by_agent
from segue.agent.models.http import encoded
from segue.agent.models.pictures import shown
from segue.core.images import KINDS
from segue.core.text import whole
from segue.core.transcript import Image, Message, Role, ToolCall

IMAGE_URL = "image_url"

_Pictures = Sequence[Image | str]
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The few fields about which compatible servers disagree."""

    LESSONS = 3

    limit: str
    usage: bool = True
    images: bool = True

    def without(self, field: str) -> Dialect:
        if field == "stream_options":
            return replace(self, usage=False)
        if field == IMAGE_URL:
            return replace(self, images=False)
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
        return replace(self, limit=other[field])


def limit_at(host: str) -> str:
    """OpenAI's newer models refuse `max_tokens`; Ollama and many other servers know nothing else,
    and would leave the answer without a limit rather than complain."""
    ours = host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))
    return "max_completion_tokens" if ours else "max_tokens"


def build(prompt: Prompt, *, model: str, dialect: Dialect, small: bool = False) -> bytes:
    """The body of the request."""
    request: dict[str, Any] = {
        "model": model,
        "messages": _messages(prompt, KINDS if dialect.images else (), small=small),
        "stream": True,
        dialect.limit: prompt.max_tokens,
    }
    if dialect.usage:
        request["stream_options"] = {"include_usage": True}
    if small:
        # What a small model thinks most likely is its best; the rest is mostly noise. But left to
        # that alone, it says one sentence for ever.
        request |= {"temperature": 0, "frequency_penalty": 0.4}
    elif prompt.tools:
        request["tools"] = [_tool(tool) for tool in prompt.tools]
    return encoded(request)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _messages(prompt: Prompt, kinds: Collection[str], *, small: bool) -> list[dict[str, Any]]:
    """The system's message, then what was said, in an order that the strictest server takes.

    OpenAI takes any order. But the chat templates of Mistral, Gemma and others, which vLLM and
    llama.cpp apply, fail unless user and assistant take turns, beginning with the user; and
    Mistral's own API wants the assistant's word between a tool's result and the user's next one.
    So neighbours of one role become one message, and what is missing is said in brackets.
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
    """A message on the wire; None for one that says nothing."""
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
    """The same for a model that knows tools only as text."""
    if message.role is Role.TOOL:
        return {"role": "user", "content": plain.result_text(message.tool_name, message.content)}
    if not by_agent(message):
        return {"role": "user", "content": _as_user(message, pictures)}
    texts = [message.content, *(plain.call_text(call) for call in message.tool_calls)]
    said = "\n".join(text for text in texts if text)
    return {"role": "assistant", "content": said} if said else None


def _as_user(message: Message, pictures: _Pictures) -> str | list[dict[str, Any]]:
    """A text; or, where there are pictures to see, a list of parts, which not every server knows
    how to read."""
    told = [part for part in (*pictures, as_user(message)) if part]
    if any(isinstance(part, Image) for part in told):
        return [_part(part) for part in told]
    return "\n\n".join(map(str, told))


def _part(told: Image | str) -> dict[str, Any]:
    if isinstance(told, str):
        return {"type": "text", "text": told}
    url = f"data:{told.media_type};base64,{base64.b64encode(told.data).decode()}"
    return {"type": IMAGE_URL, IMAGE_URL: {"url": url}}


def _sent_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": _sendable_name(call.name), "arguments": _sendable(call.arguments)}
    return {"id": _sendable_id(call.id), "type": "function", "function": function}


def _sendable(arguments: str) -> str:
    """Arguments as written; wrapped when they are no JSON object, which vLLM and llama.cpp, who
    parse them for their templates, would refuse for the rest of the conversation."""
    arguments = whole(arguments)
    if not arguments.strip():
        return "{}"
    if is_object(arguments):
        return arguments
    return msgspec.json.encode({"invalid": arguments}).decode()


def _sendable_id(call_id: str) -> str:
    """OpenAI takes 40 characters; other providers' ids may be longer."""
    if len(call_id) <= 40:
        return call_id
    return "call_" + hashlib.sha256(whole(call_id).encode()).hexdigest()[:32]


def _sendable_name(name: str) -> str:
    """A model may have made up a name that OpenAI would not take back."""
    if _NAME.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"
