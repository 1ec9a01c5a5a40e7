"""Parses the response: assembles the parts into the pieces of an answer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from segue.agent.models.base import Call, End, Piece, Stop
from segue.core.errors import ModelCutOff, ModelError, ModelRefused
from segue.core.session import Usage
from segue.core.transcript import ToolCall

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


class GeminiError(Struct):
    code: int = 0
    message: str = ""
    status: str = ""


class GeminiChunk(Struct, rename="camel"):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: _UsageMetadata | None = None
    error: GeminiError | None = None


NEWS = msgspec.json.Decoder(GeminiChunk)


class GeminiAnswer:
    """An answer, assembled from its parts."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: list[ToolCall] = []
        self._layout: list[_Json] = []
        self._reason = ""
        self._message = ""
        self._tokens = _UsageMetadata()

    def take(self, news: GeminiChunk) -> Iterator[str]:
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
