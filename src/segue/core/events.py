"""Events that a running Turn emits. Code that displays a turn needs nothing else."""

from __future__ import annotations

from msgspec import Struct

from segue.core.approval import Description
from segue.core.errors import UserError
from segue.core.session import Usage
from segue.core.text import is_empty
from segue.core.transcript import Message, Role, ToolCall


class TextDelta(Struct, frozen=True):
    """The next piece of the agent's text."""

    text: str


class ToolStarted(Struct, frozen=True):
    call: ToolCall


class ToolFinished(Struct, frozen=True):
    call: ToolCall
    result: str
    ok: bool


class ApprovalNeeded(Struct, frozen=True):
    """The turn waits for the user to approve this exact call."""

    call: ToolCall
    what: Description


class Compressing(Struct, frozen=True):
    """The conversation is too long for the model and is being summarised first."""


class MessageAdded(Struct, frozen=True):
    """This Message was appended to the transcript."""

    message: Message


class UsageAdded(Struct, frozen=True):
    usage: Usage


class TurnDone(Struct, frozen=True):
    """The turn is complete."""


class TurnFailed(Struct, frozen=True):
    """The turn failed. Everything added before the failure stays."""

    error: UserError


class TurnInterrupted(Struct, frozen=True):
    """The turn was stopped. Everything added before that stays."""


class TurnPaused(Struct, frozen=True):
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
