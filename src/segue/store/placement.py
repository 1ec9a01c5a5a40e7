"""Placement: how the reports of jobs enter transcripts.

A report whose session is in use is sent aside: it is queued at once, and the session's next turn
appends it, because only the holder appends. This module is apart from `reports` so that a turn does
not load what jobs need.
"""

from __future__ import annotations

from msgspec import Struct

from segue.core import provenance
from segue.core.address import Address
from segue.core.job import local_time
from segue.core.lease import Lease
from segue.core.provenance import Provenance
from segue.core.text import tokens_in
from segue.core.transcript import Message, Role, prompted
from segue.store import approvals, pages, transcripts
from segue.store.base import Topic, Tx
from segue.store.values import moment

_KEY = "report:"
"""How the outbox key of a report begins that is sent aside."""


class AsideReport(Struct, frozen=True, kw_only=True):
    """A report that was sent while its session was in use elsewhere, or waited for its owner."""

    no: int
    job: str
    """The name of its job."""
    address: Address
    body: str
    is_placed: bool
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


def messages(tx: Tx, lease: Lease, intro: str, body: str, by: ReportAuthors) -> list[Message]:
    """The report as messages of a transcript. The prompt makes it a turn, as models expect."""
    now = moment(tx.now)
    last = transcripts.tail(tx, lease.session_id, 0)
    open_calls = approvals.unfinished(tx, lease.session_id, last, now)
    asked = prompted(intro, now, provenance.PROGRAM | by.job)
    said = Message(Role.ASSISTANT, body, now, tokens=tokens_in(body), provenance=by.body)
    return [*open_calls, asked, said]


def set_aside(tx: Tx, no: int, session_id: str, body: str) -> str:
    """Leave it to the session's next turn to append the report, as it is sent, and return the key
    with which to queue it."""
    sql = "UPDATE reports SET aside = :id, sent_body = :body WHERE no = :no"
    tx.change(sql, id=session_id, body=body, no=no)
    tx.nudge(Topic.JOBS)
    return f"{_KEY}{no}"


def aside(tx: Tx, session_id: str) -> tuple[AsideReport, ...]:
    """The reports that were sent aside from that session, oldest first."""
    rows = tx.rows(
        "SELECT r.no, j.name, r.address, r.sent_body, r.placed FROM reports r"
        " JOIN runs u ON u.id = r.run_id JOIN jobs j ON j.id = u.job_id"
        " WHERE r.aside = :id ORDER BY r.no",
        id=session_id,
    )
    return tuple(
        AsideReport(no=no, job=job, address=Address.parse(key), body=body, is_placed=bool(placed))
        for no, job, key, body, placed in rows
    )


def place(tx: Tx, lease: Lease) -> None:
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
        seq = transcripts.append(tx, lease, messages(tx, lease, intro, body, by))
        tx.change("UPDATE reports SET placed = 1 WHERE no = :no", no=no)
        pages.appended(tx, f"{_KEY}{no}", lease.session_id, seq)
