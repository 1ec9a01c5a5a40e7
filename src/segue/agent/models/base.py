"""The model protocol: a prompt goes in, pieces of the answer come out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field

from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Role, ToolCall


class ToolSpec(Struct, frozen=True, kw_only=True):
    """The description of a tool that is sent to the model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of type object."""


class Prompt(Struct, frozen=True, kw_only=True):
    """The content of one request to a model."""

    system: str
    messages: tuple[Message, ...]
    """Repaired (see Transcript.repaired): every tool call is directly followed by its result."""
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 4096


class Text(Struct, frozen=True):
    """The next piece of the answer's text."""

    text: str


class Call(Struct, frozen=True):
    """A complete tool call."""

    call: ToolCall


class Stop(StrEnum):
    """Why the model stopped."""

    DONE = "done"
    CALLS = "calls"
    LENGTH = "length"
    """The answer reached its maximum length."""
    REFUSED = "refused"


class End(Struct, frozen=True, kw_only=True):
    """The last piece of every complete answer."""

    stop: Stop
    usage: Usage = field(default_factory=Usage)
    extras: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Content that the provider wants back verbatim in the next request. Stored with the message
    under the provider's name; other providers ignore it."""


Piece = Text | Call | End


def by_agent(message: Message) -> bool:
    """True if the model sees `message` as its own."""
    said = message.kind is Kind.SAID or bool(message.tool_calls)
    return message.role is Role.ASSISTANT and said


def as_user(message: Message) -> str:
    """The text of a message that the model sees as the user's: any but its own and tool results."""
    if message.kind is Kind.SUMMARY:
        return f"[A summary of our conversation up to here:]\n\n{message.content}"
    return message.content


_OBJECTS = msgspec.json.Decoder(dict[str, Any])
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(arguments: str) -> bool:
    """True if the arguments of a tool call are a JSON object. Sometimes they are not."""
    try:
        _RAW.decode(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def as_object(call: ToolCall) -> dict[str, Any]:
    """The arguments as a dict. Anything else, which small models write, is wrapped in one."""
    try:
        return _OBJECTS.decode(call.arguments or "{}")
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return {"arguments": call.arguments}


class Model(Protocol):
    """A language model that is ready for requests."""

    @property
    def name(self) -> str:
        """The name that the user types: `anthropic/claude-…`, `openai/gpt-…`, `local`."""
        ...

    @property
    def context(self) -> int:
        """The size of the context in tokens, for prompt and answer together."""
        ...

    @property
    def small(self) -> bool:
        """True if the model needs a minimal prompt, few tools and more time."""
        ...

    @property
    def images(self) -> bool:
        """True if the model accepts pictures. Others get a sentence in place of each picture."""
        ...

    def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """Stream the answer piece by piece, ending with End. Raise ModelError on failure. Closing
        the generator drops the connection, which cancels the request."""
        ...

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        ...
