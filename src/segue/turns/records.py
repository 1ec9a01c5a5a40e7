"""The transactions of a turn. For a chat message, `begin` assigns the inbox entry to the session,
and `add` appends the answer, queues it for the chat and finishes the entry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from segue.core.address import Address, HomeChannel
from segue.core.lease import Lease
from segue.core.note import Note
from segue.core.session import Session, Usage
from segue.core.text import is_empty, one_line
from segue.core.transcript import Message, Outcome, Role, ToolCall
from segue.store import (
    approvals,
    bindings,
    handoffs,
    inbox,
    leases,
    notes,
    outbox,
    owners,
    placement,
    sessions,
    transcripts,
)
from segue.store.base import Tx
from segue.store.outbox import Draft


class SessionData(Struct, frozen=True):
    """The session and its owner's data that a turn needs."""

    session: Session
    notes: tuple[Note, ...]
    homes: tuple[HomeChannel, ...]
    granted: frozenset[str]
    """The fingerprints of the calls that the owner allowed for the whole session."""


class TurnStart(Struct, frozen=True):
    """The state in which a turn starts."""

    data: SessionData
    repairs: tuple[Message, ...] = ()
    """Results for tool calls that a crash interrupted."""
    not_begun: tuple[ToolCall, ...] = ()
    """Tool calls that have not started: they wait for an approval, or the turn was paused."""


def read(tx: Tx, session_id: str) -> SessionData:
    session = sessions.found(tx, session_id)
    return SessionData(
        session=session,
        notes=notes.list_notes(tx, session.owner),
        homes=owners.homes(tx, session.owner),
        granted=approvals.granted(tx, session_id),
    )


def begin(
    tx: Tx,
    lease: Lease,
    said: Message | None,
    inbox_ids: Sequence[int],
    now: datetime,
    *,
    at: Address | None = None,
    paused: bool = False,
) -> TurnStart:
    """Complete the last turn, if a crash interrupted it, and append what the user said after it,
    and before that the reports of jobs that were sent to a thread of the session meanwhile.
    `paused`: the caller knows that the last turn was paused, even if no handoff says so.

    From now on the inbox entries wait for an answer from this session. Raise SessionMoved if the
    lease was lost or the session is no longer `at` this address, or SessionError if another session
    has already taken one of the entries.
    """
    data = read(tx, lease.session_id)
    if at is not None and data.session.address != at:
        raise leases.moved(tx, lease.session_id)
    newest = transcripts.tail(tx, lease.session_id, 0)
    if newest.unanswered:  # else a pause leaves nothing open
        paused = handoffs.end_pause(tx, lease) or paused
    if said is None and newest.unanswered:
        if paused:
            return TurnStart(data, not_begun=newest.unanswered)
        # Tools run in order: while one waits for approval, those after it wait too.
        asked = approvals.waiting(tx, lease.session_id)
        if asked is not None and asked.call_id == newest.unanswered[0].id:
            return TurnStart(data, not_begun=newest.unanswered)
    if paused:
        repairs = newest.unfinished(now, Outcome.NOT_BEGUN)
    else:
        repairs = approvals.unfinished(tx, lease.session_id, newest, now)
    if said is not None:
        if repairs:
            transcripts.append(tx, lease, repairs)
        placement.place(tx, lease)
        transcripts.append(tx, lease, [said])
        inbox.take(tx, inbox_ids, lease.session_id)
    elif repairs:
        transcripts.append(tx, lease, repairs)
    return TurnStart(data, repairs=repairs)


def add(
    tx: Tx,
    lease: Lease,
    message: Message,
    usage: Usage,
    *,
    inbox_ids: Sequence[int] = (),
    deliver_to: Address | None = None,
) -> None:
    """Append the agent's message, and queue its text for `deliver_to`. If it is the answer and not
    just a tool call, finish the inbox entries. Raise SessionMoved if the lease was lost."""
    seq = transcripts.append(tx, lease, [message], usage=usage)
    if message.role is not Role.ASSISTANT:
        return
    if deliver_to is not None and not is_empty(message.content):
        draft = Draft(
            key=f"{lease.session_id}/{seq}",
            address=deliver_to,
            body=_marked(tx, lease.session_id, deliver_to, message.content),
            session_id=lease.session_id,
        )
        outbox.enqueue(tx, draft)
    if not message.tool_calls:
        inbox.finish(tx, inbox_ids)


def _marked(tx: Tx, session_id: str, address: Address, body: str) -> str:
    """The answer, with the name of its session if another one has taken its place in the chat."""
    bound = bindings.get(tx, address)
    if bound is None or bound.session_id == session_id:
        return body
    session = sessions.found(tx, session_id)
    return (
        f"{one_line(sessions.calling(tx, session))}, which was set aside here, answers:\n\n{body}"
    )
