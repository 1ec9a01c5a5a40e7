"""Compaction: append a summary to the transcript, so that the model's window starts from it.
Nothing is deleted: history, search, export and undo still see every message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from segue.core import provenance
from segue.core.errors import SessionError
from segue.core.session import Lease
from segue.core.text import tokens_in
from segue.core.transcript import Kind, Message, Role, Transcript
from segue.store import Store, transcripts
from segue.turns.brain import Brain

COMPACT_AT = 0.8
"""Compact before a turn if the window takes more than this share of the brain's room."""
KEPT_SHARE = 0.25
"""The share of the room that the newest turns, which stay word for word, may take."""
MAX_KEPT_TURNS = 2
_MIN_MESSAGES = 2
"""The fewest messages that are worth a summary."""


def is_due(window: Transcript, room: int) -> bool:
    """Whether `window` leaves too little of `room`, even without its oldest tool output, and has
    enough messages to summarise."""
    limit = int(room * COMPACT_AT)
    if window.trimmed(limit).tokens <= limit:
        return False
    return len(window) - _keeps(window.messages, room) >= _MIN_MESSAGES


async def compress(
    store: Store, lease: Lease, brain: Brain, window: Transcript, now: datetime
) -> Transcript:
    """Summarise all but the newest turns of `window`, and append the summary to the transcript.
    Return the new window, which starts with the summary. Raise SessionError if there is too
    little to summarise, or ModelError if the brain fails."""
    keeps = _keeps(window.messages, brain.room)
    split = len(window) - keeps
    if split < _MIN_MESSAGES:
        raise SessionError(
            "There is nothing to compress: the part of the conversation that is not summarised yet"
            " is too short."
        )
    condensed = Transcript(window.messages[:split], window.omitted)
    written = await brain.summarise(condensed)
    summary = Message(
        Role.SYSTEM,
        written.text,
        now,
        tokens=tokens_in(written.text),
        kind=Kind.SUMMARY,
        keeps=keeps,
        provenance=condensed.provenance | provenance.AGENT,
    )
    await transcripts.append(store, lease, [summary], usage=written.usage)
    return Transcript((summary, *window.messages[split:]))


def _keeps(messages: Sequence[Message], room: int) -> int:
    """How many of the newest messages stay: whole turns, and always an unanswered user message."""
    left = room * KEPT_SHARE
    kept = turns = 0
    for count, message in enumerate(reversed(messages), 1):
        left -= message.tokens
        if message.kind is Kind.SUMMARY or turns == MAX_KEPT_TURNS or (left < 0 and count > 1):
            break
        if message.role is Role.USER:
            kept, turns = count, turns + 1
    return kept
