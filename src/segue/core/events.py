"""Events that a running Turn emits. Code that displays a turn needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from segue.core.errors import UserError
from segue.core.session import Usage
from segue.core.text import is_empty
from segue.core.transcript import Message, Role, ToolCall


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the agent's text."""

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
    """The turn waits for the user to approve this exact call."""

    call: ToolCall
    what: str
    """Description of the exact action, for the user to read."""


@dataclass(frozen=True, slots=True)
class Compressing:
    """The conversation is too long for the model and is being summarised first."""


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """This Message was appended to the transcript."""

    message: Message


@dataclass(frozen=True, slots=True)
class UsageAdded:
    usage: Usage


@dataclass(frozen=True, slots=True)
class TurnDone:
    """The turn is complete."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn failed. Everything added before the failure stays."""

    error: UserError


@dataclass(frozen=True, slots=True)
class TurnInterrupted:
    """The turn was stopped. Everything added before that stays."""


@dataclass(frozen=True, slots=True)
class TurnPaused:
    """The turn stopped at a safe point, and can be continued here or elsewhere. Tool calls at the
    end of the transcript that have no result yet have not started."""


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
    | TurnPaused
)

NO_ANSWER = "The agent gave no answer. Ask again, or rephrase your message."
"""Shown at the end of a turn in which the agent produced no visible text."""


def speaks(event: Event) -> bool:
    """Return whether the event adds visible text from the agent."""
    return (
        isinstance(event, MessageAdded)
        and event.message.role is Role.ASSISTANT
        and not is_empty(event.message.content)
    )
