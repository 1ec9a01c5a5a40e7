"""Compaction: a summary joins the transcript, and the model's window starts from it. Nothing is
deleted: history, search, export and undo still see everything."""

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
"""How much of the model's room may be taken before a turn begins."""
KEPT = 0.25
"""How much of it the newest turns may take that stay word for word."""
MOST_KEPT_TURNS = 2
_LEAST = 2
"""Fewer messages than this are not worth a summary."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """What the model sees from now on, and the summary with which it begins."""

    summary: Message
    window: Transcript


def is_due(window: Transcript, room: int) -> bool:
    """Whether too little of `room` would be left, even without the oldest tool output."""
    limit = int(room * FULL)
    if window.trimmed(limit).tokens <= limit:
        return False
    return len(window) - _keeps(window.messages, room) >= _LEAST


async def compress(
    store: Store, lease: Lease, model: Model, window: Transcript, room: int, now: datetime
) -> Compressed:
    """Tell all but the newest turns of `window` in fewer words, and keep that in the store.
    NothingToCompress when that is too little; ModelError when the model cannot."""
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
    """How many of the newest messages stay as they are: whole turns, and in any case a message
    that nobody has answered yet."""
    left = room * KEPT
    kept = turns = 0
    for count, message in enumerate(reversed(messages), 1):
        left -= message.tokens
        if message.kind is Kind.SUMMARY or turns == MOST_KEPT_TURNS or (left < 0 and count > 1):
            break
        if message.role is Role.USER:
            kept, turns = count, turns + 1
    return kept
