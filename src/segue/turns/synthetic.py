"""Turns that the program starts, with a prompt that no user wrote, such as to confirm a handoff.
The caller decides what to do with the result."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from segue.core.errors import UserError
from segue.core.events import MessageAdded, TurnFailed, UsageAdded
from segue.core.session import Usage
from segue.core.transcript import Kind, Message, Transcript, spoken
from segue.turns.brain import Brain

MAX_STEPS = 4
"""The maximum number of model responses in the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTurn:
    """The result of a synthetic turn."""

    messages: tuple[Message, ...]
    """The prompt and everything after it, ready to be appended."""
    usage: Usage
    error: UserError | None = None
    """Why the turn failed, or None."""


async def take(brain: Brain, window: Transcript, prompt: str, now: datetime) -> SyntheticTurn:
    asked = structs.replace(spoken(prompt, now), kind=Kind.SYNTHETIC)
    messages = [*window.unfinished(now), asked]
    usage, error = Usage(), None
    transcript = Transcript((*window, *messages))
    async with contextlib.aclosing(brain.turn(transcript, asyncio.Event())) as events:
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
    return SyntheticTurn(messages=tuple(messages), usage=usage, error=error)
