"""The transactions of a turn.

`begin` repairs what a crash left of the last turn, appends what the user said and assigns its inbox
entry to the session. `add` appends a message of the agent, queues it for the chat and, if it is the
answer, finishes the entry.

The report of a job whose session is in use is sent aside: it is queued at once, and the session's
next turn appends it, because only the holder appends. So a turn need not know jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from segue.approvals import queries as approvals
from segue.core import provenance
from segue.core.address import Address, HomeChannel
from segue.core.provenance import Provenance
from segue.core.session import Lease, MovingTurn, Note, Session, Usage
from segue.core.text import is_empty, local_time, one_line, tokens_in
from segue.core.transcript import Message, Outcome, Role, ToolCall, prompted
from segue.store import bindings, inbox, leases, outbox, owners, pages, sessions, transcripts
from segue.store.base import Topic, Tx, reads, writes
from segue.store.outbox import Draft
from segue.store.values import moment

_REPORT_KEY = "report:"
"""How the outbox key of a report begins that is sent aside."""


class AsideReport(Struct, frozen=True, kw_only=True):
    """A report that was sent while its session was in use elsewhere, or waited for its owner."""

    no: int
    job: str
    """The name of its job."""
    address: Address
    body: str
    is_appended: bool
    """Whether the session's transcript has it."""


class ReportAuthors(Struct, frozen=True):
    """Whose words the messages of a report have."""

    job: Provenance
    """The authors of the job's name."""
    body: Provenance


def report_authors(stored: str, instead_of: int | None) -> Provenance:
    """Whose words a report has. The platform wrote why it stands in for another."""
    by = provenance.parse(stored)
    return by if instead_of is None else by | provenance.UNKNOWN


def report_messages(
    tx: Tx, lease: Lease, intro: str, body: str, by: ReportAuthors
) -> list[Message]:
    """The report as messages of a transcript. The prompt makes it a turn, as models expect."""
    now = moment(tx.now)
    last = transcripts.tail(tx, lease.session_id, 0)
    open_calls = approvals.unfinished(tx, lease.session_id, last, now)
    asked = prompted(intro, now, provenance.PROGRAM | by.job)
    said = Message(Role.ASSISTANT, body, now, tokens=tokens_in(body), provenance=by.body)
    return [*open_calls, asked, said]


def set_report_aside(tx: Tx, no: int, session_id: str, body: str) -> str:
    """Leave it to the session's next turn to append the report, as it is sent, and return the key
    with which to queue it."""
    sql = "UPDATE reports SET aside = :id, sent_body = :body WHERE no = :no"
    tx.change(sql, id=session_id, body=body, no=no)
    tx.nudge(Topic.JOBS)
    return f"{_REPORT_KEY}{no}"


def reports_aside(tx: Tx, session_id: str) -> tuple[AsideReport, ...]:
    """The reports that were sent aside from that session, oldest first."""
    rows = tx.rows(
        "SELECT r.no, j.name, r.address, r.sent_body, r.placed FROM reports r"
        " JOIN runs u ON u.id = r.run_id JOIN jobs j ON j.id = u.job_id"
        " WHERE r.aside = :id ORDER BY r.no",
        id=session_id,
    )
    return tuple(
        AsideReport(no=no, job=job, address=Address.parse(key), body=body, is_appended=bool(placed))
        for no, job, key, body, placed in rows
    )


def append_reports(tx: Tx, lease: Lease) -> None:
    """Append the reports that were sent aside, for the holder of the session, before its turn."""
    rows = tx.rows(
        "SELECT r.no, r.address, r.sent_body, r.provenance, r.instead_of, j.id, j.name, j.zone,"
        " j.provenance, u.due FROM reports r"
        " JOIN runs u ON u.id = r.run_id JOIN jobs j ON j.id = u.job_id"
        " WHERE r.aside = :id AND r.placed = 0 ORDER BY r.no",
        id=lease.session_id,
    )
    for no, key, body, authors, instead_of, job_id, name, zone, job_authors, due in rows:
        when = local_time(moment(due), zone)
        intro = (
            f'[Job {job_id}, "{name}", which was due at {when}, has reported on'
            f" {Address.parse(key)} meanwhile:]"
        )
        by = ReportAuthors(
            job=provenance.parse(job_authors), body=report_authors(authors, instead_of)
        )
        seq = transcripts.append(tx, lease, report_messages(tx, lease, intro, body, by))
        tx.change("UPDATE reports SET placed = 1 WHERE no = :no", no=no)
        pages.appended(tx, f"{_REPORT_KEY}{no}", lease.session_id, seq)


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


@reads
def read(tx: Tx, session_id: str) -> SessionData:
    session = sessions.found(tx, session_id)
    return SessionData(
        session=session,
        notes=owners.list_notes(tx, session.owner),
        homes=owners.homes(tx, session.owner),
        granted=approvals.granted(tx, session_id),
    )


@writes
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
        paused = end_pause(tx, lease) or paused
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
        append_reports(tx, lease)
        transcripts.append(tx, lease, [said])
        inbox.take(tx, inbox_ids, lease.session_id)
    elif repairs:
        transcripts.append(tx, lease, repairs)
    return TurnStart(data, repairs=repairs)


@writes
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
    name = one_line(sessions.typed_name(tx, session))
    return f"{name}, which was here before, answers:\n\n{body}"


def end_pause(tx: Tx, lease: Lease) -> bool:
    """Return whether the session's last turn was paused for a handoff and nothing has happened in
    it since. From now on it no longer counts as paused: a tool call of it may start."""
    sql = (
        "UPDATE handoffs SET mid_turn = :goes_on WHERE mid_turn = :paused"
        " AND (session_no, seq) = (SELECT no, last_seq FROM sessions WHERE id = :id)"
    )
    changed = tx.change(
        sql,
        goes_on=MovingTurn.GOES_ON.value,
        paused=MovingTurn.PAUSED.value,
        id=lease.session_id,
    )
    return changed > 0
