"""Tool calls as plain text, for models that are too small for the tool API.

A small model writes a call as JSON in its answer, and repeats the call if it sees the result as a
tool message. So the system prompt describes the tools, and calls and results are sent as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from segue.agent.models.base import ToolSpec
from segue.core.text import whole
from segue.core.transcript import Message, Role, ToolCall

_CLOSERS = {"<tool_call>": "</tool_call>", "<tools>": "</tools>", "```json": "```", "```": "```"}
_NAMES = ("name", "tool", "tool_name", "function", "function_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_HOW = """\
To use a tool, answer with only JSON: {"name": "<tool>", "arguments": {"<argument>": "<value>"}}"""
_OR_WORDS = "If no tool is needed, answer in words."
# Without an example, a small model uses the name of the command as the name of the tool.
_EXAMPLES = {"shell": 'For example: {"name": "shell", "arguments": {"command": "pwd"}}'}
_WORK = re.compile(
    r"""\b(?:files?|folders?|director(?:y|ies)|read|list|ls|cat|run|execute|commands?|shell|script
        |path|disk|process(?:es)?|remind)\b
    |   \w\.[a-z]\w{0,4}\b | [~\w.]/\w | `""",
    re.IGNORECASE | re.VERBOSE,
)
_KEYS = (*_NAMES, *_ARGUMENTS, "type", "id")


# Prompt


def are_wanted(messages: Sequence[Message]) -> bool:
    """True if the last message looks like work for a tool. If a small model sees tools, it turns
    everything into a call, even a name that the user mentions."""
    said = next((m for m in reversed(messages) if m.role is not Role.ASSISTANT), None)
    return said is not None and (said.role is Role.TOOL or bool(_WORK.search(said.content)))


def describe(tools: Iterable[ToolSpec]) -> str:
    """Describe the tools briefly. Empty if there are none."""
    tools = list(tools)
    if not tools:
        return ""
    lines = [f"- {tool.name}({_signature(tool.parameters)}): {_brief(tool)}" for tool in tools]
    examples = [_EXAMPLES[tool.name] for tool in tools if tool.name in _EXAMPLES]
    return "\n".join(("Tools:", *lines, _HOW, *examples, _OR_WORDS))


def call_text(call: ToolCall) -> str:
    """The call, formatted as the model would have written it."""
    try:
        arguments: Any = msgspec.json.decode(whole(call.arguments) or "{}")
    except msgspec.DecodeError:
        arguments = call.arguments
    return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)


def result_text(name: str | None, content: str) -> str:
    """A tool's result, formatted as a message from the user."""
    return f"Result of {name or 'the tool'}:\n{content}"


def ask_for_words(text: str) -> str:
    """Append a request to answer in words. After results alone, with the tools still described, a
    small model makes the same call again."""
    return f"{text}\n\nNow answer me in words, without JSON."


def _signature(schema: Mapping[str, Any]) -> str:
    """The required parameters. A small model fills in optional ones with nonsense."""
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
    required = cast("Collection[str]", schema.get("required") or ())
    return ", ".join(f"{name}{_kind(properties.get(name, {}))}" for name in required)


def _kind(about: Mapping[str, Any]) -> str:
    kind = about.get("type", "string")
    return "" if kind == "string" else f": {kind}"


def _brief(tool: ToolSpec) -> str:
    """The first sentence of the description."""
    return tool.description.strip().partition("\n")[0].partition(". ")[0].rstrip(".")


# Answer


class Reader:
    """Separates tool calls from text while an answer streams in. Text is passed on immediately;
    only text that may still become a call is held back."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""
        self._open = 0
        self._words = not names

    def feed(self, text: str) -> str:
        """Take the next piece, and return the text that can be shown now."""
        if self._words:
            return text
        inside = len(self._held.lstrip()) > _MAX_OPENING
        self._held += text
        self._open += text.count("{") - text.count("}")
        # In the middle of a long call there is nothing to decide until a brace closes it.
        if (inside and self._open > 0) or may_be_call(self._held):
            return ""
        self._words = True
        return self._take()

    def end(self, call_id: str, *, whole: bool = True) -> ToolCall | str:
        """Return the held-back text as a tool call if it is one, otherwise unchanged."""
        held = self._take()
        return (read_call(held, self._names, call_id) if whole else None) or held

    def _take(self) -> str:
        held = self._held
        self._held = ""
        return held


def may_be_call(text: str) -> bool:
    """True if `text` is a call, or could become one with more text."""
    text = text.lstrip()
    for opener, closer in (*_CLOSERS.items(), ("", "")):
        if opener.startswith(text):
            return True
        if text.startswith(opener):
            rest = text[len(opener) :].lstrip()
            if _may_be_object(rest, closer):
                return True
    return False


def read_call(text: str, names: Collection[str], call_id: str) -> ToolCall | None:
    """Parse `text` as a call to one of the tools `names`, or return None."""
    text = text.strip()
    for opener, closer in (*_CLOSERS.items(), ("", "")):
        if text.startswith(opener):
            inner = text[len(opener) :].removesuffix(closer).strip()
            # Small models often omit the last brace.
            for candidate in (inner, inner + "}"):
                found, rest = _split(candidate)
                if found is not None and not rest:
                    return _call(found, names, call_id)
    return None


def _may_be_object(text: str, closer: str) -> bool:
    if not text:
        return True
    if text[0] != "{":
        return False
    inner = text[1:].lstrip()
    if not any(inner.startswith(key) or key.startswith(inner) for key in _QUOTED):
        return False
    found, rest = _split(text)
    return found is None or closer.startswith(rest)


def _split(text: str) -> tuple[dict[str, Any] | None, str]:
    """Split `text` into the JSON object at its start (None while incomplete) and the rest."""
    if not text.startswith("{") or "}" not in text:
        return None, text
    try:
        found, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None, text
    return cast("dict[str, Any]", found), text[end:].strip()


def _call(found: dict[str, Any], names: Collection[str], call_id: str) -> ToolCall | None:
    inner = found.get("function")
    if isinstance(inner, dict):
        return _call(cast("dict[str, Any]", inner), names, call_id)
    key = next((k for k in _NAMES if _bare(found.get(k)) in names), None)
    if key is None:
        return None
    given = next((found[k] for k in _ARGUMENTS if k in found), None)
    if given is None:
        given = {k: v for k, v in found.items() if k not in {key, "type", "id", *_ARGUMENTS}}
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return ToolCall(id=call_id, name=_bare(found[key]), arguments=arguments)


def _bare(name: Any) -> str:
    """The tool name in `read` or `read(path)`, or an empty string if `name` is not a string."""
    return name.partition("(")[0].strip() if isinstance(name, str) else ""


# Not strict: small models write literal line breaks inside strings.
_DECODER = json.JSONDecoder(strict=False)
_QUOTED = tuple(f'"{key}"' for key in _KEYS)
_MAX_OPENING = 64
