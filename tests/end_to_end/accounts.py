"""The invariants of every session once nothing is in progress, however often gateways were killed.

Telegram has no idempotency keys, so every message that may or may not have arrived must be
reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from segue.core.address import Address, Platform
from segue.core.handoff import Handoff, State
from segue.core.transcript import Kind, Role
from segue.core.transcript import Message as Said
from segue.store.outbox import Outgoing, OutgoingState
from segue.testing.telegram import Message, Topic


@dataclass(frozen=True, kw_only=True)
class Account:
    """Everything known about one session and its chat."""

    session_id: str
    moved: bool
    """Whether the session was handed off in the end, or stayed in the terminal."""
    said: Sequence[str]
    """What the user said."""
    handoffs: Sequence[Handoff]
    """Oldest first."""
    addresses: Sequence[Address]
    """The addresses bound to the session."""
    transcript: Sequence[Said]
    outgoing: Sequence[Outgoing]
    """Everything ever queued for the chat."""
    messages: Sequence[Message]
    """The bot's messages in the chat, as users see them."""
    topics: Sequence[Topic]


def violations(seen: Account) -> list[str]:
    """Return a description of every violated invariant."""
    return [
        *_place(seen),
        *_transcript(seen),
        *_topics(seen),
        *_settled(seen),
        *_shown(seen),
        *_reported(seen),
    ]


def _place(seen: Account) -> Iterator[str]:
    """The session is where its last handoff says."""
    if len(seen.addresses) != 1:
        yield f"it is in {len(seen.addresses)} places: {seen.addresses}"
        return
    (address,), last = seen.addresses, seen.handoffs[-1]
    if seen.moved and (last.state, last.thread) != (State.COMPLETED, address):
        yield f"it is at {address}, and its handoff to {last.thread} is {last.state}"
    if not seen.moved and (last.state, address.platform) != (State.FAILED, Platform.LOCAL):
        yield f"it should have stayed, and is at {address}; its handoff is {last.state}"
    for handoff in seen.handoffs[:-1]:
        if handoff.state is not State.FAILED or not handoff.error:
            yield f"handoff {handoff.id} is {handoff.state}, and another one came after it"


def _transcript(seen: Account) -> Iterator[str]:
    """Every message is there once, with one answer, and with a handoff prompt if the session
    moved."""
    said = [m for m in seen.transcript if m.role is not Role.SYSTEM]
    roles = [m.role for m in said]
    if roles != [Role.USER, Role.ASSISTANT] * (len(said) // 2):
        yield f"the roles are {roles}"
    prompts = sum(m.role is Role.USER and m.kind is Kind.SYNTHETIC for m in said)
    if prompts != seen.moved:
        yield f"it moved {int(seen.moved)} times, and the agent was told so {prompts} times"
    words = [m.content for m in said if m.role is Role.USER and m.kind is Kind.SAID]
    if words != [*seen.said]:
        yield f"its person said {seen.said}, and the transcript has {words}"


def _topics(seen: Account) -> Iterator[str]:
    """A handoff opens at most one topic, and records it, or fails without knowing of it."""
    known = Counter(h.thread.thread_id for h in seen.handoffs if h.thread and h.thread.thread_id)
    if any(count > 1 for count in known.values()):
        yield f"a topic is that of two handoffs: {known}"
    unknown = [topic for topic in seen.topics if not known[str(topic.id)]]
    failed = [h for h in seen.handoffs if h.state is State.FAILED and h.thread is None]
    if len(unknown) > len(failed):
        yield f"nobody knows of the topics {unknown}"


def _settled(seen: Account) -> Iterator[str]:
    for row in seen.outgoing:
        if row.state not in (OutgoingState.SENT, OutgoingState.UNCERTAIN):
            yield f"{row.key} is {row.state}: {row.error}"
        if row.state is OutgoingState.SENT and len(row.receipts) != 1:
            yield f"{row.key} was sent {len(row.receipts)} times"


def _shown(seen: Account) -> Iterator[str]:
    """Every sent message is shown once, in its place. An uncertain one is shown at most once."""
    shown = {str(message.id): message for message in seen.messages}
    for row in seen.outgoing:
        for receipt in row.receipts:
            message = shown.pop(receipt, None)
            if message is None or not _is_it(message, row):
                yield f"{row.key} was sent, and is not there: {message}"
    maybe = [row for row in seen.outgoing if row.state is OutgoingState.UNCERTAIN]
    for message in shown.values():
        row = next((row for row in maybe if _is_it(message, row)), None)
        if row is None:
            yield f"{message.text!r} is there, and nobody was sending it"
        else:
            maybe.remove(row)


def _is_it(message: Message, row: Outgoing) -> bool:
    thread = str(message.thread) if message.topic else None
    return thread == row.address.thread_id and _letters(message.text) == _letters(row.body)


def _letters(text: str) -> str:
    """Strip all markup."""
    return "".join(filter(str.isalnum, text))


def _reported(seen: Account) -> Iterator[str]:
    """Every uncertain message of the session is reported in its transcript."""
    told = [m.content for m in seen.transcript if m.role is Role.SYSTEM]
    for row in seen.outgoing:
        if row.state is not OutgoingState.UNCERTAIN:
            continue
        words = f"may not have arrived at {row.address}"
        ours = row.session_id == seen.session_id
        if not row.reported or (ours and not any(words in text for text in told)):
            yield f"{row.key} is uncertain, and nobody was told: {told}"
