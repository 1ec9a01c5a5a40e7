"""Turns that the program starts, with a prompt that no user wrote, such as to confirm a handoff.
The caller decides what to do with the result."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from datetime import datetime

from msgspec import structs

from segue.agent.loop import Agent
from segue.core.approval import Answer
from segue.core.errors import UserError
from segue.core.events import MessageAdded, TurnFailed, UsageAdded
from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Role, ToolCall, Transcript, spoken

MOST_STEPS = 4
"""The maximum number of model responses in the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """The result of a synthetic turn."""

    messages: tuple[Message, ...]
    """The prompt and everything after it, ready to be appended."""
    usage: Usage
    error: UserError | None = None
    """Why the turn failed, or None."""

    @property
    def said(self) -> str:
        """The agent's last message, or an empty string if there is none or the turn failed."""
        spoken = [m.content for m in self.messages if m.role is Role.ASSISTANT]
        return spoken[-1].strip() if spoken and not self.error else ""


def prompted(text: str, at: datetime) -> Message:
    """Return a message from the program to the agent."""
    return structs.replace(spoken(text, at), kind=Kind.SYNTHETIC)


async def deny_all(call: ToolCall, what: str, fingerprint: str) -> Answer:
    """Deny every call: there is no user to ask."""
    return Answer.NEVER


async def take(agent: Agent, window: Transcript, prompt: str) -> Aside:
    asked = prompted(prompt, agent.now())
    messages = [*window.unfinished(asked.at), asked]
    agent = replace(agent, most_steps=MOST_STEPS, approve=deny_all)
    usage, error = Usage(), None
    transcript = Transcript((*window, *messages))
    async with contextlib.aclosing(agent.turn(transcript, asyncio.Event())) as events:
        async for event in events:
            match event:
                case MessageAdded(message):
                    messages.append(message)
                case UsageAdded(more):
                    usage += more
                case TurnFailed(reason):
                    error = reason
                case _:
                    pass
    return Aside(messages=tuple(messages), usage=usage, error=error)
