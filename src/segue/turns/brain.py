"""The brain protocol: what a turn needs from an agent. `agents` makes the built-in one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from segue.core.approval import Answer, Approve, Description
from segue.core.context import Context
from segue.core.events import Event
from segue.core.session import Note, Session, Summary
from segue.core.transcript import ToolCall, Transcript


async def deny_all(call: ToolCall, what: Description, fingerprint: str) -> Answer:
    """Deny every call: there is no user to ask."""
    return Answer.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattended:
    """What a turn may do that no user reads along, as its owner decided before."""

    allows: tuple[str, ...] = ()
    """Names of tools, and commands that begin with these words, that need no question. Nothing else
    does, even if the settings or the session allow it."""
    may_change_jobs: bool = False
    written: str = ""
    """What the owner wrote then. Pages named there are fetched without asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The session that a brain works for, and what it may do there."""

    session: Session
    context: Context
    notes: Sequence[Note]
    approve: Approve
    granted: frozenset[str]
    """Fingerprints of the calls that the owner has allowed for the session."""
    grant: Callable[[str], Awaitable[None]]
    """Saves the fingerprint of a call that the owner allows for the session."""
    now: Callable[[], datetime]
    only: Collection[str] | None = None
    """The only tools it has. They need no approval. None for all tools, with approvals."""
    unattended: Unattended | None = None
    """What it may do if no user reads along, as in the run of a job."""
    max_steps: int | None = None
    """The maximum number of model responses in a turn. None for the default."""


class Brain(Protocol):
    """An agent that is ready to work on one assignment. It stores nothing."""

    @property
    def room(self) -> int:
        """The number of tokens of a transcript that it can read at once."""
        ...

    def turn(
        self,
        transcript: Transcript,
        interrupt: asyncio.Event,
        not_begun: Sequence[ToolCall] = (),
        pause: asyncio.Event | None = None,
    ) -> AsyncGenerator[Event]:
        """Answer the last message of `transcript`. Set `interrupt` to stop immediately, `pause` to
        stop at the next safe point: no tool runs, and no answer is half written.

        The last event is TurnDone, TurnFailed, TurnInterrupted or TurnPaused. `not_begun` are the
        tool calls at the end of the transcript that are known not to have started. The turn runs
        them first.
        """
        ...

    async def summarise(self, transcript: Transcript) -> Summary:
        """Summarise the conversation. Raise ModelError on failure."""
        ...

    async def title(self, transcript: Transcript) -> str:
        """A title for the conversation, or an empty string. Raise ModelError on failure."""
        ...

    def describe(self) -> str:
        """List the tools and their permissions, in lines for the user."""
        ...


class Brains(Protocol):
    """Makes the brains for the turns of one store."""

    async def open(self, assignment: Assignment) -> Brain:
        """Return a brain for this assignment. Raise ModelError if its model cannot be used."""
        ...

    async def model(self, wanted: str | None) -> str:
        """The full name of the model `wanted`, or of the default one. Raise ModelError."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
