"""What a running Turn emits. Whoever shows a turn to a person reads these, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from segue.core.errors import UserError
from segue.core.session import Usage
from segue.core.text import is_empty
from segue.core.transcript import Message, Role, ToolCall


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of what the agent says."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    call: ToolCall
    result: str
    ok: bool


@dataclass(frozen=True, slots=True)
class ApprovalNeeded:
    """The turn waits for a person to allow this very call."""

    call: ToolCall
    what: str
    """What exactly will be done, for the person to read."""


@dataclass(frozen=True, slots=True)
class Compressing:
    """The conversation has become too long for the model, and is told in fewer words first."""


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """The transcript has grown by this Message."""

    message: Message


@dataclass(frozen=True, slots=True)
class UsageAdded:
    usage: Usage


@dataclass(frozen=True, slots=True)
class TurnDone:
    """The agent has said what it had to say."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn could not go on. What was said until then stays."""

    error: UserError


@dataclass(frozen=True, slots=True)
class TurnInterrupted:
    """Somebody stopped it. What was said until then stays."""


Event = (
    TextDelta
    | ToolStarted
    | ToolFinished
    | ApprovalNeeded
    | Compressing
    | MessageAdded
    | UsageAdded
    | TurnDone
    | TurnFailed
    | TurnInterrupted
)

NO_ANSWER = "The agent gave no visible answer. Ask again, or put it differently."
"""What a person is shown at the end of a turn in which the agent said nothing that can be seen."""


def speaks(event: Event) -> bool:
    """Whether the agent said something that a person can see."""
    return (
        isinstance(event, MessageAdded)
        and event.message.role is Role.ASSISTANT
        and not is_empty(event.message.content)
    )
