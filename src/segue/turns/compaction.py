"""Compaction: append a summary to the transcript, so that the model's window starts from it.

Nothing is deleted: history, search, export and undo still see every message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from segue.agent.models.base import Model
from segue.agent.summaries import summarise
from segue.core.errors import NothingToCompress
from segue.core.lease import Lease
from segue.core.text import tokens_in
from segue.core.transcript import Kind, Message, Role, Transcript
from segue.store import Store

FULL = 0.8
"""Compact before a turn if the window takes more than this share of the model's room."""
KEPT = 0.25
"""The share of the room that the newest turns, which stay word for word, may take."""
MOST_KEPT_TURNS = 2
_LEAST = 2
"""The fewest messages that are worth a summary."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """The summary, and the model's window that starts with it."""

    summary: Message
    window: Transcript


def is_due(window: Transcript, room: int) -> bool:
    """Whether `window` leaves too little of `room`, even without its oldest tool output, and has
    enough messages to summarise."""
    limit = int(room * FULL)
    if window.trimmed(limit).tokens <= limit:
        return False
    return len(window) - _keeps(window.messages, room) >= _LEAST


async def compress(
    store: Store, lease: Lease, model: Model, window: Transcript, room: int, now: datetime
) -> Compressed:
    """Summarise all but the newest turns of `window`, and append the summary to the transcript.

    Raise NothingToCompress if there is too little to summarise, or ModelError if the model fails.
    """
    keeps = _keeps(window.messages, room)
    split = len(window) - keeps
    if split < _LEAST:
        raise NothingToCompress
    told = await summarise(model, Transcript(window.messages[:split]))
    summary = Message(
        Role.SYSTEM,
        told.text,
        now,
        tokens=tokens_in(told.text),
        kind=Kind.SUMMARY,
        keeps=keeps,
    )
    await store.transcripts.append(lease, [summary], usage=told.usage)
    return Compressed(summary, Transcript((summary, *window.messages[split:])))


def _keeps(messages: Sequence[Message], room: int) -> int:
    """How many of the newest messages stay as they are: whole turns, and always a user message that
    has no answer yet."""
    left = room * KEPT
    kept = turns = 0
    for count, message in enumerate(reversed(messages), 1):
        left -= message.tokens
        if message.kind is Kind.SUMMARY or turns == MOST_KEPT_TURNS or (left < 0 and count > 1):
            break
        if message.role is Role.USER:
            kept, turns = count, turns + 1
    return kept
