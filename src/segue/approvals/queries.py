"""Approvals: questions to the owner before a tool runs.

Each approval is for one exact call, is answered once and used once:

waiting ──answer──▶ answered ──use──▶ used
   │ └──time────▶ expired  │
   └──────the session moves or ends──▶ void

They are in the store so that the answer reaches the turn, whichever process resumes it.

A call is allowed only after the owner has seen all of it. What they have seen is in the outbox: the
key of a message that shows the whole call says so (`whole_key`), and the call has been seen once
such a message was sent.

A grant allows a call for the rest of its session, wherever the session moves. It is deleted with
the session.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from segue.core.address import Address
from segue.core.approval import Answer
from segue.core.errors import ApprovalNotShown, UserError
from segue.core.session import Lease, Ticks
from segue.core.transcript import Message, Outcome, Transcript
from segue.store import leases
from segue.store.base import Row, Topic, Tx, reads, writes
from segue.store.values import beyond, moment, text


class ApprovalState(StrEnum):
    WAITING = "waiting"
    ANSWERED = "answered"
    USED = "used"
    VOID = "void"
    EXPIRED = "expired"


class Visibility(StrEnum):
    """How much of a call its owner has seen."""

    WHOLE = "whole"
    SENDING = "sending"
    """A message that shows all of it is on its way."""
    PARTLY = "partly"


_QUESTION = "approval:"
"""The prefix of their outbox keys."""

_OVER = {
    ApprovalState.ANSWERED: "it was answered already",
    ApprovalState.USED: "it was answered already",
    ApprovalState.VOID: "the conversation has moved on",
    ApprovalState.EXPIRED: "its time is up",
}


class Approval(Struct, frozen=True, kw_only=True):
    """One question and its state."""

    id: int
    session_id: str
    call_id: str
    fingerprint: str
    """Identifies the exact call that was asked about."""
    what: str
    """What the call will do, as shown to the owner."""
    address: Address
    """Where the question was asked. It can only be answered there."""
    owner: str
    """The owner of the session. Only they can answer."""
    asked: datetime
    until: Ticks
    state: ApprovalState
    answer: Answer | None
    in_run: bool
    """Whether it is asked in the run of a job, which keeps no grant for later runs."""


_SELECT = """
    SELECT a.id, s.id, a.call_id, a.fingerprint, a.what, a.address, s.owner, a.asked, a.until,
           a.state, a.answer,
           EXISTS (SELECT 1 FROM jobs j WHERE j.session_id = s.id AND j.busy = 1)
    FROM approvals a JOIN sessions s ON s.no = a.session_no
"""
_OPEN = "(a.state = 'answered' OR (a.state = 'waiting' AND a.until > :ticks))"


@writes
def ask(
    tx: Tx,
    lease: Lease,
    call_id: str,
    fingerprint: str,
    what: str,
    address: Address,
    *,
    seconds: float,
) -> Approval:
    """Return the open approval for this call, or create one.

    Open means waiting, or answered but not used yet. Raise SessionMoved if the lease was lost.
    """
    no, _ = leases.own(tx, lease)
    sql = (
        f"{_SELECT} WHERE a.session_no = :no AND a.call_id = :call"
        f" AND a.fingerprint = :fingerprint AND {_OPEN} ORDER BY a.id DESC LIMIT 1"
    )
    known = tx.row(sql, no=no, call=text(call_id), fingerprint=text(fingerprint), ticks=tx.ticks)
    if known:
        return _approval(tx, known)
    # An open approval for the same call with another fingerprint, such as for another file, is
    # void.
    tx.change(
        "UPDATE approvals SET state = 'void' WHERE session_no = :no AND call_id = :call"
        " AND state IN ('waiting', 'answered')",
        no=no,
        call=text(call_id),
    )
    tx.insert(
        "approvals",
        session_no=no,
        call_id=text(call_id),
        fingerprint=text(fingerprint),
        what=text(what),
        address=address.key,
        asked=tx.now,
        until=tx.after(seconds),
        state="waiting",
    )
    tx.nudge(Topic.SESSIONS)
    newest = f"{_SELECT} WHERE a.session_no = :no ORDER BY a.id DESC LIMIT 1"
    return _approval(tx, tx.one(newest, no=no))


@writes
def give(tx: Tx, approval_id: int, owner: str, address: Address, answer: Answer) -> Approval:
    """Record the answer and wake the turn that waits for it.

    Raise UserError if the approval does not belong to this owner and this address, or, with the
    reason, if it is no longer waiting. Raise ApprovalNotShown if it would allow what they have not
    seen all of.
    """
    asked = get(tx, approval_id)
    if asked is None or (asked.owner, asked.address) != (owner, address):
        raise unknown_question(approval_id)
    is_waiting = asked.state is ApprovalState.WAITING
    if is_waiting and answer is not Answer.NEVER and visibility(tx, asked) is not Visibility.WHOLE:
        raise ApprovalNotShown(number=approval_id)
    sql = (
        "UPDATE approvals SET state = 'answered', answer = :answer"
        " WHERE id = :id AND state = 'waiting' AND until > :ticks"
    )
    changed = tx.change(sql, answer=answer.value, id=approval_id, ticks=tx.ticks)
    now = get(tx, approval_id) or asked
    if not changed:
        raise question_closed(_OVER[now.state])
    tx.nudge(Topic.APPROVALS)
    return now


def unknown_question(number: int) -> UserError:
    return UserError(
        f"There is no question {number} in this chat. Type /show to see the one that is open here,"
        " or answer it in the chat that asked it."
    )


def question_closed(reason: str) -> UserError:
    return UserError(
        f"That question is closed: {reason}. Send your request again if you still want it done."
    )


def part_key(approval_id: int) -> str:
    """The outbox key of a question that shows a part of its call."""
    return f"{_QUESTION}{approval_id}"


def is_question(key: str) -> bool:
    """Whether a message with this outbox key shows a call, or its outcome."""
    return key.startswith(_QUESTION)


def whole_key(approval_id: int, name: str) -> str:
    """The outbox key of a message that shows the whole call. A call can be shown several times,
    under different names."""
    return f"{part_key(approval_id)}:whole:{name}"


@reads
def visibility(tx: Tx, asked: Approval) -> Visibility:
    """How much of the call was shown where the question was asked."""
    rows = tx.rows(
        f"SELECT state FROM outbox WHERE {tx.starting('key')}",
        start=whole_key(asked.id, ""),
        beyond=beyond(whole_key(asked.id, "")),
    )
    states = {row[0] for row in rows}
    if "sent" in states:
        return Visibility.WHOLE
    return Visibility.SENDING if states & {"queued", "sending"} else Visibility.PARTLY


@writes
def use(tx: Tx, lease: Lease, approval_id: int) -> Answer | None:
    """Use up the answer and return it, or None if there is no unused answer. Raise SessionMoved
    if the lease was lost."""
    no, _ = leases.own(tx, lease)
    sql = (
        "UPDATE approvals SET state = 'expired'"
        " WHERE id = :id AND session_no = :no AND state = 'waiting' AND until <= :ticks"
    )
    tx.change(sql, id=approval_id, no=no, ticks=tx.ticks)
    used = tx.row(
        "UPDATE approvals SET state = 'used'"
        " WHERE id = :id AND session_no = :no AND state = 'answered' RETURNING answer",
        id=approval_id,
        no=no,
    )
    return Answer(used[0]) if used else None


@reads
def get(tx: Tx, approval_id: int) -> Approval | None:
    row = tx.row(f"{_SELECT} WHERE a.id = :id", id=approval_id)
    return _approval(tx, row) if row else None


@reads
def waiting(tx: Tx, session_id: str) -> Approval | None:
    """The session's newest approval that is waiting, or answered but not used."""
    sql = f"{_SELECT} WHERE s.id = :id AND {_OPEN} ORDER BY a.id DESC LIMIT 1"
    row = tx.row(sql, id=session_id, ticks=tx.ticks)
    return _approval(tx, row) if row else None


@reads
def waiting_at(tx: Tx, address: Address) -> tuple[Approval, ...]:
    """The approvals that can be answered at this address, oldest first."""
    rows = tx.rows(
        f"{_SELECT} WHERE a.address = :key AND a.state = 'waiting' AND a.until > :ticks"
        " ORDER BY a.id",
        key=address.key,
        ticks=tx.ticks,
    )
    return tuple(_approval(tx, row) for row in rows)


@reads
def list_waiting(tx: Tx, owner: str) -> tuple[Approval, ...]:
    """The approvals that wait for an answer of this owner, oldest first."""
    # In the order of the index of those that wait.
    rows = tx.rows(
        f"{_SELECT} WHERE a.state = 'waiting' AND a.until > :ticks AND s.owner = :owner"
        " ORDER BY a.address, a.id",
        owner=owner,
        ticks=tx.ticks,
    )
    return tuple(sorted((_approval(tx, row) for row in rows), key=lambda asked: asked.id))


@reads
def unfinished(
    tx: Tx, session_id: str, transcript: Transcript, at: datetime
) -> tuple[Message, ...]:
    """The results to append to a transcript that ends during tool calls. If the owner did not allow
    the first of these calls, none of them ran: tools run in order. Otherwise their effect is
    unknown."""
    calls = transcript.unanswered
    if not calls:
        return ()
    # An id can be used again in a later answer of the model, so an older question does not count.
    asking = next(m for m in reversed(transcript.messages) if calls[0] in m.tool_calls)
    sql = f"{_SELECT} WHERE s.id = :id AND a.call_id = :call ORDER BY a.id DESC LIMIT 1"
    row = tx.row(sql, id=session_id, call=text(calls[0].id))
    asked = _approval(tx, row) if row else None
    never_began = (
        asked is not None
        and asked.asked >= asking.at
        and (asked.state is not ApprovalState.USED or asked.answer is Answer.NEVER)
    )
    return transcript.unfinished(at, Outcome.NOT_BEGUN if never_began else Outcome.INTERRUPTED)


def _approval(tx: Tx, row: Row) -> Approval:
    """Return the approval in `row`. A waiting one past its deadline is expired, even if the row
    does not say so yet."""
    approval_id, session_id, call_id, fingerprint, what, *rest = row
    address, owner, asked, until, state, answer, in_run = rest
    approval = Approval(
        id=approval_id,
        session_id=session_id,
        call_id=call_id,
        fingerprint=fingerprint,
        what=what,
        address=Address.parse(address),
        owner=owner,
        asked=moment(asked),
        until=Ticks(until),
        state=ApprovalState(state),
        answer=None if answer is None else Answer(answer),
        in_run=bool(in_run),
    )
    if approval.state is ApprovalState.WAITING and tx.ticks >= until:
        return replace(approval, state=ApprovalState.EXPIRED)
    return approval


@writes
def grant(tx: Tx, lease: Lease, fingerprint: str) -> None:
    """Allow this exact call for the rest of the session. Raise SessionMoved if the lease was
    lost."""
    no, _ = leases.own(tx, lease)
    tx.insert(
        "grants",
        conflict="DO NOTHING",
        session_no=no,
        fingerprint=text(fingerprint),
        granted=tx.now,
    )


@reads
def granted(tx: Tx, session_id: str) -> frozenset[str]:
    """The fingerprints of the calls that are allowed for this session."""
    rows = tx.rows(
        "SELECT g.fingerprint FROM grants g JOIN sessions s ON s.no = g.session_no"
        " WHERE s.id = :id",
        id=session_id,
    )
    return frozenset(row[0] for row in rows)
