"""Reports: what the runs of jobs say, and where.

waiting ──▶ queued    it is in the transcript there and in the outbox, which has the rest
kept                  it is only in the job's session
failed                there is no such place

If the job says so, another report stands in for one that failed, at the next home channel.

A report is part of the conversation at its address: one transaction appends it to the transcript
there and queues it, so that the agent knows what it said when its owner replies. It waits while
another process works on that session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime, tzinfo

from msgspec import Struct

from segue.approvals import queries as approvals
from segue.core import provenance
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import AddressTaken, BadJob, no_home_channel
from segue.core.provenance import Provenance
from segue.core.reset import ResetPolicies
from segue.core.session import Session, clean_title
from segue.core.text import local_time, short_reason
from segue.jobs.queries import jobs
from segue.jobs.values import LOCAL, AllHomes, Job, Report, ReportState, Target
from segue.store import (
    bindings,
    doors,
    gateways,
    inbox,
    leases,
    outbox,
    owners,
    pages,
    sessions,
    transcripts,
)
from segue.store.base import Row, Topic, Tx, reads, writes
from segue.store.bindings import BoundSession
from segue.store.values import address_or_none, micros, moment, text
from segue.turns import queries
from segue.turns.queries import ReportAuthors

_HOLDER = "a gateway, for a moment"
_SELECT = (
    "SELECT r.no, r.run_id, r.target, r.address, r.body, r.state, r.error, r.made, r.instead_of,"
    " o.state, o.error FROM reports r LEFT JOIN outbox o ON o.key = r.key"
)


def make(tx: Tx, job: Job, run_id: int, body: str, by: Provenance) -> None:
    """Report `body`, which has these authors, at every place that the job delivers to."""
    for target, address, problem in _places(tx, job):
        _add(tx, run_id, str(target), address, body, by, problem=problem)


def _add(
    tx: Tx,
    run_id: int,
    target: str,
    address: Address | None,
    body: str,
    by: Provenance,
    *,
    problem: str = "",
    instead_of: int | None = None,
) -> None:
    state = ReportState.WAITING if address else ReportState.KEPT
    tx.insert(
        "reports",
        run_id=run_id,
        target=text(target),
        address=address.key if address else None,
        body=text(body),
        state=(ReportState.FAILED if problem else state).value,
        error=short_reason(text(problem)) if problem else None,
        made=tx.now,
        instead_of=instead_of,
        provenance=provenance.encode(by),
    )
    tx.nudge(Topic.JOBS)


def asks_at(tx: Tx, job: Job) -> Address | None:
    """Where a run of the job asks for approvals: the first place that it delivers to. None if it
    has none. A place that no gateway serves comes last: no one could answer there."""
    served = _served(tx)
    places = [address for _, address, _ in _places(tx, job) if address]
    return min(places, key=lambda address: address.platform not in served, default=None)


def _served(tx: Tx) -> set[Platform]:
    return {platform for gateway in gateways.alive(tx) for platform in gateway.platforms}


def _places(tx: Tx, job: Job) -> list[tuple[Target, Address | None, str]]:
    """Each target of the job, with its address, or with the reason why it has none. Neither for a
    target that is only the job's session. Of two targets with the same address, the first one."""
    found: dict[Address | str, tuple[Target, Address | None, str]] = {}
    for target, address, problem in _resolved(tx, job):
        found.setdefault(address or str(target), (target, address, problem))
    return list(found.values())


def _resolved(tx: Tx, job: Job) -> Iterator[tuple[Target, Address | None, str]]:
    homes = {home.platform: home.address for home in owners.homes(tx, job.owner)}
    for target in job.deliver:
        if isinstance(target, AllHomes):
            yield from ((target, _place(tx, job, home), "") for home in homes.values())
            if not homes:
                yield target, None, "There is no home channel. Type /sethome in a chat."
        elif target.platform is None:
            yield target, job.origin, ""
        elif target == LOCAL:
            yield target, None, ""
        elif target.chat_id is not None:
            chat = _chat(tx, job.owner, target.platform, target.chat_id, homes.values())
            yield target, chat, "" if chat else f"{target} is not one of your chats."
        elif home := homes.get(target.platform):
            yield target, _place(tx, job, home), ""
        else:
            yield target, None, f"There is no home channel on {target}. Type /sethome in a chat."


def _place(tx: Tx, job: Job, home: Address) -> Address:
    """Where reports go in a home channel. The page shows a conversation for each job."""
    if home.platform is not Platform.WEB:
        return home
    page = pages.begin(tx, job.owner, job.name, key=f"job:{job.id}")
    return replace(home, thread_id=page.id)


def _chat(
    tx: Tx, owner: str, platform: Platform, chat_id: str, homes: Collection[Address]
) -> Address | None:
    """The owner's chat with this id, or None."""
    kinds = (Address(platform=platform, chat_type=kind, chat_id=chat_id) for kind in ChatType)
    sql = (
        "SELECT d.address FROM doors d JOIN sessions s ON s.no = d.session_no"
        " WHERE s.owner = :owner AND d.chat = :chat ORDER BY d.address LIMIT 1"
    )
    rows = [row for chat in kinds for row in tx.rows(sql, owner=owner, chat=chat.key)]
    known = (*homes, *(Address.parse(key) for (key,) in rows))
    chats = [a for a in known if (a.platform, a.chat_id) == (platform, chat_id)]
    # The chat itself, rather than one of its threads.
    return min(chats, key=lambda a: (a.thread_id is not None, a.key), default=None)


@reads
def check(tx: Tx, owner: str, targets: Collection[Target], *, verbatim: bool = False) -> None:
    """Raise HandoffError or BadJob if a report could not be delivered to one of `targets`.
    `verbatim`: the report is not the agent's, so it would not be in the job's session either."""
    if verbatim and not {*targets} - {LOCAL}:
        reason = "no one would see that text; type /sethome in a chat first, or name a place"
        raise BadJob(reason=reason)
    homes = {home.platform: home.address for home in owners.homes(tx, owner)}
    for target in targets:
        if isinstance(target, AllHomes):
            if not homes:
                raise BadJob(reason="there is no home channel; type /sethome in a chat first")
        elif target.chat_id is not None and target.platform is not None:
            if _chat(tx, owner, target.platform, target.chat_id, homes.values()) is None:
                raise BadJob(reason=f"{target} is not one of your chats")
        elif target.platform not in (None, Platform.LOCAL, *homes):
            raise no_home_channel(target.platform)


# Sending


@reads
def waiting(tx: Tx, platforms: Collection[Platform]) -> tuple[Report, ...]:
    """The reports on these platforms that are not queued yet, oldest first."""
    rows = tx.rows(f"{_SELECT} WHERE r.state = 'waiting' ORDER BY r.no")
    found = map(_report, rows)
    return tuple(
        report for report in found if report.address and report.address.platform in platforms
    )


class SentReport(Struct, frozen=True, kw_only=True):
    """What became of a report that need not wait: it is queued, or it has failed."""

    ended: Session | None = None
    """The expired session that it ended at its address, about which no notes are saved yet."""


@writes
def send(
    tx: Tx, report: Report, policies: ResetPolicies, zone: tzinfo, cwd: str
) -> SentReport | None:
    """Append the report to the transcript at its address and queue it. Return None, and change
    nothing, if another process works on that session there, or moves it. If the session is in use
    elsewhere, or waits for an answer of its owner, the report is queued at once, and the session's
    next turn appends it."""
    sql = f"SELECT 1 FROM reports WHERE no = :no AND state = 'waiting' {tx.for_update}"
    if report.address is None or tx.row(sql, no=report.no) is None:
        return SentReport()
    tx.lock(report.address.key)
    owner, job_id, name, zone_name, authors, due = tx.one(
        "SELECT j.owner, j.id, j.name, j.zone, j.provenance, r.due FROM runs r"
        " JOIN jobs j ON j.id = r.job_id WHERE r.id = :id",
        id=report.run_id,
    )
    try:
        bound = _session(tx, owner, report.address, policies, zone, cwd, clean_title(name))
    except AddressTaken as error:
        fail(tx, report, str(error))
        return SentReport()
    session_id = bound.session.id
    (no,) = leases.locked(tx, session_id, "no")
    is_here = bound.session.address == report.address
    is_in_use = leases.get(tx, session_id) is not None or inbox.is_answering(tx, session_id)
    is_working = is_in_use and approvals.waiting(tx, session_id) is None
    if sessions.is_moving(tx, no) or (is_here and is_working):
        return None
    body = report.body + _reason(tx, report)
    if is_in_use:  # only the holder appends: see `turns.queries.append_reports`
        key = queries.set_report_aside(tx, report.no, session_id, body)
    else:
        when = local_time(moment(due), zone_name)
        intro = f'[Job {job_id}, "{name}", which was due at {when}, reports here:]'
        lease = leases.acquire(tx, session_id, _HOLDER, seconds=0)
        by = ReportAuthors(job=provenance.parse(authors), body=_authors(tx, report))
        seq = transcripts.append(tx, lease, queries.report_messages(tx, lease, intro, body, by))
        leases.release(tx, lease)
        key = f"{session_id}/{seq}"
    draft = outbox.Draft(
        key=key, address=report.address, body=body, session_id=session_id, is_report=True
    )
    outbox.enqueue(tx, draft)
    tx.change(
        "UPDATE reports SET state = 'queued', key = :key WHERE no = :no", key=key, no=report.no
    )
    return SentReport(ended=bound.ended_now)


def _reason(tx: Tx, report: Report) -> str:
    """Why the report comes to this place, if it stands in for another."""
    if report.instead_of is None:
        return ""
    failed = _report(tx.one(f"{_SELECT} WHERE r.no = :no", no=report.instead_of))
    return f"\n\n(It could not be delivered to {failed.target}: {failed.error})"


def _session(
    tx: Tx,
    owner: str,
    address: Address,
    policies: ResetPolicies,
    zone: tzinfo,
    cwd: str,
    title: str,
) -> BoundSession:
    """The session that a reply at `address` reaches. It is not moved there. `title` is that of a
    new one."""
    policy = policies.for_address(address)
    if bound := bindings.current(tx, address, owner, policy, zone):
        return bound
    door = doors.get(tx, address)
    if door is not None and bindings.get(tx, address) is None:
        session = sessions.found(tx, door.session_id)
        if session.owner != owner:
            raise AddressTaken
        if session.ended is None:
            return BoundSession(session=session)
    return bindings.get_or_create(
        tx, address, owner, policy=policy, zone=zone, cwd=cwd, model=None, title=title
    )


def _authors(tx: Tx, report: Report) -> Provenance:
    """Whose words the report has. The platform wrote why it stands in for another."""
    (stored,) = tx.one("SELECT provenance FROM reports WHERE no = :no", no=report.no)
    return queries.report_authors(stored, report.instead_of)


@writes
def fail(tx: Tx, report: Report, reason: str) -> None:
    """Give up a report that cannot be sent."""
    tx.change(
        "UPDATE reports SET state = 'failed', error = :error WHERE no = :no AND state = 'waiting'",
        error=short_reason(text(reason)),
        no=report.no,
    )


@reads
def failed(tx: Tx) -> tuple[Report, ...]:
    """The reports that failed and were not passed on yet, oldest first."""
    rows = tx.rows(
        f"{_SELECT} WHERE r.passed_on = 0 AND r.no IN ("
        "SELECT no FROM reports WHERE state = 'failed' AND passed_on = 0 UNION ALL"
        " SELECT f.no FROM outbox t JOIN reports f ON f.key = t.key"
        " WHERE t.state = 'failed' AND t.report = 1) ORDER BY r.no"
    )
    return tuple(map(_report, rows))


@writes
def pass_on(tx: Tx, report: Report) -> bool:
    """Let the next home channel stand in for a report that failed, if its job says so. Return
    whether it does. A home channel gets what a run says at most once."""
    return mark_passed_on(tx, report) and _stand_in(tx, report)


@writes
def mark_passed_on(tx: Tx, report: Report) -> bool:
    """Record that a report that failed needs no more attention. Return False if that is known."""
    sql = "UPDATE reports SET passed_on = 1 WHERE no = :no AND passed_on = 0 RETURNING key"
    if (row := tx.row(sql, no=report.no)) is None:
        return False
    outbox.decide(tx, row[0])
    return True


@reads
def stranded(tx: Tx, before: datetime) -> tuple[Report, ...]:
    """The reports that were made before this time and could be passed on, because no gateway serves
    their platform, or it cannot be reached."""
    rows = tx.rows(
        f"{_SELECT} JOIN runs u ON u.id = r.run_id JOIN jobs j ON j.id = u.job_id"
        " WHERE j.fallback = 1 AND r.made < :before AND r.no IN ("
        "SELECT no FROM reports WHERE state = 'waiting' UNION ALL"
        " SELECT q.no FROM outbox x JOIN reports q ON q.key = x.key"
        " WHERE x.state = 'queued' AND x.report = 1 AND x.receipts = '') ORDER BY r.no",
        before=micros(before),
    )
    served = _served(tx)
    found = map(_report, rows)
    return tuple(
        report
        for report in found
        if report.state is ReportState.QUEUED
        or (report.address and report.address.platform not in served)
    )


@writes
def give_up(tx: Tx, report: Report) -> None:
    """Fail a report that waits for a platform that cannot be reached, if another home channel can
    stand in for it."""
    if _next_home(tx, report) is None:
        return
    reason = f"{report.target} could not be reached in time."
    fail(tx, report, reason)
    (key,) = tx.one("SELECT key FROM reports WHERE no = :no", no=report.no)
    if key is not None:
        outbox.give_up(tx, key, reason)


def _stand_in(tx: Tx, report: Report) -> bool:
    home = _next_home(tx, report)
    if home is not None:
        _add(
            tx,
            report.run_id,
            home.platform,
            home,
            report.body,
            _authors(tx, report),
            instead_of=report.no,
        )
    return home is not None


def _next_home(tx: Tx, report: Report) -> Address | None:
    """The place that can stand in for this report, or None."""
    (job_id,) = tx.one("SELECT job_id FROM runs WHERE id = :id", id=report.run_id)
    job = jobs.get(tx, job_id)
    if job is None or not job.fallback:
        return None
    tried = {other.address for other in of(tx, report.run_id)}
    served = _served(tx)
    # By name of the platform, and first those that a gateway serves.
    homes = sorted(owners.homes(tx, job.owner), key=lambda home: home.platform not in served)
    places = (_place(tx, job, home.address) for home in homes)
    return next((place for place in places if place not in tried), None)


# Reading


@reads
def undelivered(tx: Tx, owner: str, since: datetime) -> tuple[tuple[Job, Report], ...]:
    """The reports of the owner's jobs since then that did not arrive, or may not have arrived, and
    for which no other stands in. Newest first."""
    rows = tx.rows(
        f"{_SELECT} JOIN runs u ON u.id = r.run_id JOIN jobs j ON j.id = u.job_id"
        " WHERE j.owner = :owner AND r.made >= :since"
        " AND (r.state = 'failed' OR o.state IN ('failed', 'uncertain'))"
        " AND NOT EXISTS (SELECT 1 FROM reports s WHERE s.run_id = r.run_id"
        " AND s.instead_of = r.no) ORDER BY r.no DESC",
        owner=owner,
        since=micros(since),
    )
    sql = "SELECT job_id FROM runs WHERE id = :id"
    found = [(jobs.get(tx, tx.one(sql, id=row[1])[0]), _report(row)) for row in rows]
    return tuple((job, report) for job, report in found if job)


@reads
def of(tx: Tx, run_id: int) -> tuple[Report, ...]:
    """The reports of a run, with what became of them."""
    rows = tx.rows(f"{_SELECT} WHERE r.run_id = :id ORDER BY r.no", id=run_id)
    return tuple(map(_report, rows))


def _report(row: Row) -> Report:
    no, run_id, target, address, body, state, error, made, instead_of, *sent = row
    sending, problem = sent
    found = ReportState(state)
    if found is ReportState.QUEUED:
        # The outbox forgets only what was sent.
        sending = "queued" if sending == "sending" else sending
        found = ReportState(sending or ReportState.SENT)
        error = problem
    return Report(
        no=no,
        run_id=run_id,
        target=target,
        address=address_or_none(address),
        body=body,
        state=found,
        made=moment(made),
        error=error,
        instead_of=instead_of,
    )
