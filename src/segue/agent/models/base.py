"""What a model is to the agent: a prompt goes in, pieces of the answer come out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Role, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model is told about it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of type object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Everything that one request to a model holds."""

    system: str
    messages: tuple[Message, ...]
    """Repaired (see Transcript.repaired): every tool call has its result right after it."""
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 4096


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, complete."""

    call: ToolCall


class Stop(StrEnum):
    """Why the model stopped."""

    DONE = "done"
    CALLS = "calls"
    LENGTH = "length"
    """It ran out of room for its answer."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The last piece of every answer that came to its end."""

    stop: Stop
    usage: Usage = field(default_factory=Usage)
    extras: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the provider wants to see again in the next request, verbatim. Kept beside the
    message under the provider's name; other providers ignore it."""


Piece = Text | Call | End


def by_agent(message: Message) -> bool:
    """Whether the model is shown `message` as something that it said itself."""
    said = message.kind is Kind.SAID or bool(message.tool_calls)
    return message.role is Role.ASSISTANT and said


def as_user(message: Message) -> str:
    """The text of any other message but a tool's, which the model is shown as the person's."""
    if message.kind is Kind.SUMMARY:
        return f"[A summary of our conversation up to here:]\n\n{message.content}"
    return message.content


class Model(Protocol):
    """A language model, reachable."""

    @property
    def name(self) -> str:
        """What a person would type to choose it: `anthropic/claude-…`, `openai/gpt-…`, `local`."""
        ...

    @property
    def context(self) -> int:
        """How many tokens of prompt and answer it can take in all."""
        ...

    @property
    def small(self) -> bool:
        """Whether it needs a tiny prompt, few tools and patience."""
        ...

    @property
    def images(self) -> bool:
        """Whether it can look at pictures. One that cannot is told that there was one."""
        ...

    def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """The answer, piece by piece, ending with End; or a ModelError.

        Closing the generator drops the connection, which cancels the request.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Closing twice does no harm."""
        ...
