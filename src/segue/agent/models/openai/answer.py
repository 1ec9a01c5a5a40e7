"""Parses the response: assembles the chunks into the pieces of an answer."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import Struct

from segue.agent.models import plain
from segue.agent.models.base import Call, End, Piece, Stop, Text, is_object
from segue.core.session import Usage
from segue.core.transcript import ToolCall


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _Fragment(Struct):
    index: int | None = None
    id: str | int | None = None
    function: _Function | None = None


class _ChunkDelta(Struct):
    content: Any = None
    refusal: str | None = None
    tool_calls: list[_Fragment] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _ChunkDelta | None = None
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None


class _ChunkUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _ChunkUsage | None = None
    error: Any = None
    object: Any = None


CHUNKS = msgspec.json.Decoder(Chunk)
_STOPS = {
    "tool_calls": Stop.CALLS,
    "function_call": Stop.CALLS,
    "length": Stop.LENGTH,
    "content_filter": Stop.REFUSED,
}


class OpenAIAnswer:
    """An answer, assembled from its chunks."""

    def __init__(self, plain_tools: Iterable[str]) -> None:
        self._reader = plain.Reader(frozenset(plain_tools))
        self._calls = _Calls()
        self._usage = Usage()
        self._stop: Stop | None = None
        self._refused = False

    @property
    def finished(self) -> bool:
        return self._stop is not None

    def read(self, chunk: Chunk) -> Iterator[Piece]:
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index or self.finished:
                continue
            if choice.delta is not None:
                yield from self._delta(choice.delta)
            if choice.finish_reason:
                yield from self._finish(_STOPS.get(choice.finish_reason, Stop.DONE))

    def end(self) -> End:
        return End(stop=self._stop or Stop.DONE, usage=self._usage)

    def _delta(self, delta: _ChunkDelta) -> Iterator[Piece]:
        self._refused = self._refused or bool(delta.refusal)
        if text := self._reader.feed(_text(delta.content) + (delta.refusal or "")):
            yield Text(text)
        for fragment in delta.tool_calls or ():
            self._calls.add(fragment)

    def _finish(self, stop: Stop) -> Iterator[Piece]:
        whole = stop is not Stop.LENGTH
        held = self._reader.end(_new_id(), whole=whole)
        calls = list(self._calls.complete(whole=whole))
        if isinstance(held, ToolCall):
            calls.append(held)
        elif held:
            yield Text(held)
        yield from (Call(call) for call in calls)
        if stop in {Stop.DONE, Stop.CALLS}:
            # Several servers send "stop" even after calls, and some send "tool_calls" without any.
            stop = Stop.CALLS if calls else Stop.REFUSED if self._refused else Stop.DONE
        self._stop = stop


@dataclass(slots=True)
class _Building:
    """A tool call that is still incomplete."""

    index: int | None
    id: str
    name: str
    arguments: list[str]


class _Calls:
    """Assembles tool calls from their fragments.

    OpenAI numbers the calls and sends the id only with the first fragment. Other servers omit the
    number or the id, repeat the id or the name in every fragment, or number every call 0.
    """

    def __init__(self) -> None:
        self._calls: list[_Building] = []

    def add(self, fragment: _Fragment) -> None:
        call_id = "" if fragment.id is None else str(fragment.id)
        function = fragment.function or _Function()
        name = function.name or ""
        call = self._goes_on(fragment.index, call_id, name)
        if call is None:
            call = _Building(fragment.index, call_id, name, [])
            self._calls.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        if function.arguments is not None:
            call.arguments.append(_arguments(function.arguments))

    def complete(self, *, whole: bool) -> Iterator[ToolCall]:
        """Yield the calls. If the answer was cut short, skip those that may be incomplete."""
        taken: set[str] = set()
        for call in self._calls:
            arguments = "".join(call.arguments)
            if not whole and not is_object(arguments):
                continue
            call_id = call.id if call.id and call.id not in taken else _new_id()
            taken.add(call_id)
            yield ToolCall(id=call_id, name=call.name, arguments=arguments.strip() or "{}")

    def _goes_on(self, index: int | None, call_id: str, name: str) -> _Building | None:
        """The call that a fragment belongs to, or None if it starts a new one."""
        same = [c for c in self._calls if index is None or c.index == index]
        if call_id:
            known = [c for c in same if c.id == call_id]
            unnamed = [c for c in same[-1:] if not c.id and index is not None]
            return (known or unnamed or [None])[-1]
        if not same:
            return None
        last = same[-1]
        if name and last.name and (name != last.name or is_object("".join(last.arguments))):
            return None
        return last


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _text(content: Any) -> str:
    """The text of a delta. The content is a string, or a list of parts on some servers."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = (cast("dict[str, Any]", p).get("text") for p in parts if isinstance(p, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _usage(tokens: _ChunkUsage) -> Usage:
    details = tokens.prompt_tokens_details or _Details()
    return Usage(
        input=tokens.prompt_tokens or 0,
        output=tokens.completion_tokens or 0,
        cached=details.cached_tokens or 0,
    )


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"
