"""A turn of the program's own: the agent is asked something that nobody said, such as to confirm a
handoff. Whoever asks decides what becomes of it."""

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
"""The answers of the model that it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What came of it."""

    messages: tuple[Message, ...]
    """The prompt and everything after it, fit to be appended as it is."""
    usage: Usage
    error: UserError | None = None
    """Why it has no end, if it has none."""

    @property
    def said(self) -> str:
        """The agent's last words; empty when there are none."""
        spoken = [m.content for m in self.messages if m.role is Role.ASSISTANT]
        return spoken[-1].strip() if spoken and not self.error else ""


def prompted(text: str, at: datetime) -> Message:
    """What the program itself says to the agent."""
    return structs.replace(spoken(text, at), kind=Kind.SYNTHETIC)


async def nobody(call: ToolCall, what: str, fingerprint: str) -> Answer:
    """Where nobody can be asked, nothing is allowed."""
    return Answer.NEVER


async def take(agent: Agent, window: Transcript, prompt: str) -> Aside:
    asked = prompted(prompt, agent.now())
    messages = [*window.unfinished(asked.at), asked]
    agent = replace(agent, most_steps=MOST_STEPS, approve=nobody)
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
