"""Runs of jobs, each claimed by one gateway.

A claim has a fence, as that of a handoff has: each change names it, so a gateway that comes back
too late changes nothing. One transaction makes a due time into a run and sets the next due time;
runs are unique by job and due time.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.approvals import queries as approvals
from segue.core import provenance
from segue.core.address import Address, Platform
from segue.core.provenance import Provenance
from segue.core.session import Lease, clean_title
from segue.core.text import local_time, short_reason
from segue.core.transcript import Message
from segue.jobs.queries import jobs, reports
from segue.jobs.values import (
    MAX_ATTEMPTS,
    MAX_FAILURES,
    Job,
    JobState,
    Report,
    Run,
    RunState,
    Seen,
    Skip,
    catch_up,
    day,
    next_due,
)
from segue.store import sessions, transcripts
from segue.store.base import (
    Row,
    Topic,
    Transactions,
    Tx,
    marks,
    reads,
    writes,
)
from segue.store.values import micros, moment, moment_or_none, text

LEASE_SECONDS = 10.0
"""How long a claim lasts without a heartbeat."""
JUMP = timedelta(minutes=1)
"""The clock was set back if it was later than this before."""
KEPT = 20
"""How many of a job's last runs are kept, however old they are."""
_PRUNED = 500
"""How many old runs one transaction checks."""
ABANDONED = "The gateway stopped during each attempt to run it."

_MICROSECOND = timedelta(microseconds=1)
_COLUMNS = (
    "id, job_id, due, state, started, missed_since, seq, attempt, fence, process, finished, error,"
    " asked, seen, tokens"
)


class Claim(Struct, frozen=True, kw_only=True):
    """A run that this gateway carries out."""

    job: Job
    run: Run
    session_id: str
    """The job's session. Empty if the agent has not been asked yet, and is not asked now."""
    asks_at: Address | None
    """Where it asks for approvals. None if there is no place to ask at."""


@writes
def ask(tx: Tx, owner: str, job_id: int) -> Run:
    """Ask for a run now, exclude the job's due times. Raise JobNotFound, or UserError while it
    runs."""
    jobs.idle(tx, owner, job_id)
    return _run(jobs.make_run(tx, job_id, asked=True, returning=_COLUMNS) or ())


# Claiming


@writes
def claim(
    tx: Tx,
    *,
    seconds: float = LEASE_SECONDS,
    exclude: Collection[int] = (),
    only_texts: bool = False,
) -> Claim | None:
    """Claim a run: one that its owner asked for, one whose gateway is gone and that is not in
    `exclude`, or one that is due. Return None if there is none. `only_texts`: only a run that
    delivers a text as it is, for a gateway that has no room for others.

    Runs that were missed for too long are recorded as skipped along the way.
    """
    _turn_back(tx)
    for run in _open(tx):
        if run.id in exclude or (job := jobs.get(tx, run.job_id)) is None:
            continue
        if (job.is_text or not only_texts) and (taken := _take_over(tx, job, run, seconds)):
            return taken
    while job := jobs.next_overdue(tx, only_texts=only_texts):
        if (run := _due(tx, job, seconds)) is not None:
            return _claimed(tx, job, run)
    return None


def _turn_back(tx: Tx) -> None:
    """If the clock was set back, jobs have run in what is the future now, and their next due times
    are too late. Set those to the first due time that has no run."""
    now = tx.now + JUMP // _MICROSECOND
    sql = "SELECT id FROM runs WHERE started <= :now ORDER BY id DESC LIMIT 1"
    (last,) = tx.row(sql, now=now) or (0,)
    ahead = tx.rows("SELECT job_id FROM runs WHERE id > :last", last=last)
    # Checking a condition leaves no run.
    ahead += tx.rows("SELECT id FROM jobs WHERE only_if IS NOT NULL AND checked > :now", now=now)
    for (job_id,) in dict.fromkeys(ahead):
        job = jobs.get(tx, job_id)
        if job is None or job.state is JobState.PAUSED:
            continue
        due = next_due(job, moment(tx.now))
        while due is not None and _has_run(tx, job_id, due):
            due = next_due(job, due)
        if due is not None and (job.due is None or due < job.due):
            jobs.update(tx, job_id, state=JobState.ENABLED.value, due=micros(due))


def _has_run(tx: Tx, job_id: int, due: datetime) -> bool:
    sql = "SELECT 1 FROM runs WHERE job_id = :id AND due = :due"
    return tx.row(sql, id=job_id, due=micros(due)) is not None


def _open(tx: Tx) -> list[Run]:
    """The runs that wait for a gateway: none has claimed them, or it is gone."""
    skip = f"{tx.for_update} SKIP LOCKED" if tx.for_update else ""
    # The plus keeps SQLite from walking through every run there ever was in the order of its id.
    rows = tx.rows(
        f"SELECT {_COLUMNS}, lease_until FROM runs WHERE state IN ('waiting', 'running')"
        f" ORDER BY +id {skip}"
    )
    runs = [(_run(row[:-1]), row[-1]) for row in rows]
    dead = {name for name in {run.claimed_by for run, _ in runs} if name and tx.dead(name)}
    return [
        run
        for run, until in runs
        if run.state is RunState.WAITING or run.claimed_by in dead or tx.ticks >= until
    ]


def _take_over(tx: Tx, job: Job, run: Run, seconds: float) -> Claim | None:
    if run.attempt >= MAX_ATTEMPTS:
        _end(tx, job, run, RunState.FAILED, error=ABANDONED)
        return None
    row = tx.row(
        "UPDATE runs SET state = 'running', fence = fence + 1, attempt = attempt + 1,"
        " process = :process, lease_until = :until"
        f" WHERE id = :id AND fence = :fence RETURNING {_COLUMNS}",
        process=tx.process,
        until=tx.after(seconds),
        id=run.id,
        fence=run.fence,
    )
    return _claimed(tx, job, _run(row)) if row else None


def _due(tx: Tx, job: Job, seconds: float) -> Run | None:
    """Make the job's due time into a run and set the next one. None if it was skipped."""
    if job.due is None:
        return None
    now = moment(tx.now)
    decided = catch_up(job.schedule, job.due, now, until=job.until)
    after = decided.due
    notice = ""
    if isinstance(decided, Skip):
        notice = _too_late(job, decided)
    elif not job.is_reminder and (used := tokens_today(tx, job)) >= job.token_limit:
        _, tomorrow = day(now, job.zone)
        after = tomorrow - _MICROSECOND
        notice = _out_of_tokens(job, used)
    is_skipped = bool(notice)
    row = tx.insert(
        "runs",
        conflict="DO NOTHING",
        returning=_COLUMNS,
        job_id=job.id,
        due=micros(decided.due),
        state=(RunState.SKIPPED if is_skipped else RunState.RUNNING).value,
        started=tx.now,
        missed_since=None if decided.missed_since is None else micros(decided.missed_since),
        attempt=0 if is_skipped else 1,
        fence=0 if is_skipped else 1,
        process=None if is_skipped else tx.process,
        lease_until=None if is_skipped else tx.after(seconds),
        finished=tx.now if is_skipped else None,
        error=short_reason(text(notice)) if is_skipped else None,
    )
    run = _run(row) if row else None  # None if the clock was set back: it has run already
    jobs.recheck_old_runs(tx, job.id)
    _advance(tx, job, after, is_running=run is not None and not is_skipped)
    if run is not None and is_skipped:
        by = provenance.PROGRAM | job.provenance
        reports.make(tx, job, run.id, f'Job {job.id}, "{job.name}": {notice}', by)
    return None if is_skipped else run


def _advance(tx: Tx, job: Job, after: datetime, *, is_running: bool) -> None:
    """Set the first due time later than `after`."""
    counts = is_running and job.only_if is None  # else it counts once its condition holds
    left = None if job.runs is None else job.runs - counts
    later = next_due(replace(job, runs=left), after)
    jobs.update(
        tx,
        job.id,
        due=None if later is None else micros(later),
        state=(JobState.DONE if later is None else JobState.ENABLED).value,
        runs=left,
        busy=int(is_running),
    )


@reads
def tokens_today(tx: Tx, job: Job) -> int:
    """How many tokens the job's runs have used since midnight in its zone."""
    today, _ = day(moment(tx.now), job.zone)
    sql = "SELECT coalesce(sum(tokens), 0) FROM runs WHERE job_id = :id AND started >= :today"
    return int(tx.one(sql, id=job.id, today=micros(today))[0])


def _claimed(tx: Tx, job: Job, run: Run) -> Claim:
    session_id = job.session_id
    asks_agent = not job.verbatim and (job.only_if is None or run.seen is not None)
    if asks_agent and (session_id is None or sessions.get(tx, session_id) is None):
        title = clean_title(f"job {job.id}: {job.name}")
        session_id = sessions.create(
            tx, job.owner, Platform.LOCAL, title=title, cwd=job.cwd, model=job.model
        ).id
        jobs.update(tx, job.id, session_id=session_id)
        job = replace(job, session_id=session_id)
    asks_at = reports.asks_at(tx, job)
    return Claim(job=job, run=run, session_id=session_id or "", asks_at=asks_at)


# Running


@writes
def check(tx: Tx, claimed: Claim, seen: Seen) -> Claim | None:
    """Compare what the job's condition sees now with what it saw before. Return the claim to go on
    with if it has changed, or if the owner asked for the run. Otherwise the run is over and leaves
    no record, and the return value is None, as it is if the claim was lost.

    The first check only records what there is.
    """
    run = claimed.run
    if not _change(tx, run, "seen = :seen", seen=jobs.seen_json(seen)):
        return None
    if (job := jobs.locked(tx, run.job_id)) is None:
        return None
    is_same = job.only_if == claimed.job.only_if  # it may have been edited meanwhile
    jobs.update(tx, job.id, checked=tx.now, checks=job.checks + 1)
    has_changed = is_same and job.seen is not None and job.seen.digest != seen.digest
    if has_changed or run.asked:
        _count(tx, job)
        return _claimed(tx, job, replace(run, seen=seen))
    tx.change("DELETE FROM runs WHERE id = :id", id=run.id)
    jobs.update(tx, job.id, busy=0, failures=0)
    if is_same:
        jobs.update(tx, job.id, seen=jobs.seen_json(seen))
    return None


def _count(tx: Tx, job: Job) -> None:
    """Count a run of a job with a condition."""
    if job.runs:
        jobs.update(tx, job.id, runs=job.runs - 1)
        if job.runs == 1 and job.state is JobState.ENABLED:
            jobs.update(tx, job.id, state=JobState.DONE.value, due=None)


@marks
def heartbeat(tx: Tx, claimed: Claim, *, seconds: float = LEASE_SECONDS) -> bool:
    """Extend the claim. Return False, like every change to a claim, if it is no longer the newest:
    stop."""
    return _change(tx, claimed.run, "lease_until = :until", until=tx.after(seconds))


@marks
def release(tx: Tx, claimed: Claim) -> bool:
    """Leave the run to the next gateway, which continues it. This attempt does not count."""
    change = "lease_until = :now, attempt = attempt - 1"
    tx.nudge(Topic.JOBS)
    return _change(tx, claimed.run, change, now=tx.ticks)


@writes
def begin(tx: Tx, claimed: Claim, lease: Lease, prompt: Message) -> int | None:
    """Append the prompt to the job's session, once for each run, and return its seq. None if the
    claim was lost."""
    if not _change(tx, claimed.run, "seq = seq"):
        return None
    (known,) = tx.one("SELECT seq FROM runs WHERE id = :id", id=claimed.run.id)
    if known is not None:
        return known
    sessions.void_approvals(tx, lease.session_id)
    last = transcripts.tail(tx, lease.session_id, 0)
    repairs = approvals.unfinished(tx, lease.session_id, last, prompt.at)
    seq = transcripts.append(tx, lease, [*repairs, prompt])
    spent = _tokens_of(tx, lease.session_id)
    _change(tx, claimed.run, "seq = :seq, spent = :spent", seq=seq, spent=spent)
    return seq


def _tokens_of(tx: Tx, session_id: str | None) -> int:
    """How many tokens a session has used."""
    sql = "SELECT input_tokens + output_tokens FROM sessions WHERE id = :id"
    row = tx.row(sql, id=session_id)
    return row[0] if row else 0


@reads
def tokens_left(tx: Tx, claimed: Claim) -> int:
    """How many tokens the run may still use. One that takes place in any case may use those of a
    whole day."""
    job = claimed.job
    run = claimed.run
    (before,) = tx.one("SELECT spent FROM runs WHERE id = :id", id=run.id)
    earlier = 0 if job.is_reminder or run.asked else tokens_today(tx, job)
    return job.token_limit - earlier - (_tokens_of(tx, claimed.session_id) - before)


@writes
def finish(tx: Tx, claimed: Claim, report: str | None) -> bool:
    """End the run, and report at every place that the job delivers to. None for nothing to
    report."""
    state = RunState.SILENT if report is None else RunState.REPORTED
    return _end(tx, claimed.job, claimed.run, state, report=report)


@writes
def fail(tx: Tx, claimed: Claim, reason: str) -> bool:
    """End the run as failed. After MAX_FAILURES in a row, the job is paused."""
    return _end(tx, claimed.job, claimed.run, RunState.FAILED, error=reason)


def _end(
    tx: Tx, job: Job, run: Run, state: RunState, *, report: str | None = None, error: str = ""
) -> bool:
    ended = _change(
        tx,
        run,
        "state = :state, lease_until = NULL, finished = :now, error = :error,"
        " tokens = CASE WHEN seq IS NULL THEN 0 ELSE :tokens - spent END",
        state=state.value,
        now=tx.now,
        tokens=_tokens_of(tx, job.session_id),
        error=short_reason(text(error)) if error else None,
    )
    current = jobs.locked(tx, job.id)
    if not ended or current is None:
        return False
    failures = current.failures + 1 if error else 0
    jobs.update(tx, job.id, busy=0, failures=failures)
    if run.seen is not None and not error and current.only_if == job.only_if:
        # After a failure, the next check finds the same change again.
        jobs.update(tx, job.id, seen=jobs.seen_json(run.seen))
    is_paused = failures >= MAX_FAILURES and current.state is JobState.ENABLED
    if is_paused:
        why = f"It failed {failures} times in a row. The last time: {error}"
        paused = JobState.PAUSED.value
        jobs.update(tx, job.id, state=paused, due=None, error=short_reason(text(why)))
    if error and (failures == 1 or is_paused):
        failed = _failed(job, error, is_paused=is_paused)
        # An error may quote anything, such as the output of a command.
        reports.make(tx, job, run.id, failed, provenance.UNKNOWN | job.provenance)
    elif report is not None:
        reports.make(tx, job, run.id, report, _authors(tx, job))
    return True


def _authors(tx: Tx, job: Job) -> Provenance:
    """Whose words a report of the job may have. The agent may repeat what it has read."""
    if job.verbatim or job.session_id is None:
        return job.provenance
    return transcripts.authors(tx, job.session_id)


def _change(tx: Tx, run: Run, change: str, **values: Any) -> bool:
    """Change a running run if `run` is its newest claim."""
    sql = f"UPDATE runs SET {change} WHERE id = :id AND state = 'running' AND fence = :fence"
    return tx.change(sql, id=run.id, fence=run.fence, **values) == 1


def _failed(job: Job, error: str, *, is_paused: bool) -> str:
    if job.is_reminder:
        return f"Reminder: {job.prompt}\n\n(The agent could not look at it: {error})"
    rest = (
        f"It is paused now. Type `segue jobs resume {job.id}` to go on."
        if is_paused
        else f"Type `segue jobs show {job.id}` to see its runs."
    )
    return f'Job {job.id}, "{job.name}", failed: {error}\n\n{rest}'


def _too_late(job: Job, skipped: Skip) -> str:
    return (
        f"it was due at {local_time(skipped.missed_since, job.zone)}, but no gateway was running."
        f" That is too long ago to run it now. Type `segue jobs run {job.id}` to run it anyway."
    )


def _out_of_tokens(job: Job, used: int) -> str:
    return (
        f"it has used {used:,} tokens today, and may use {job.token_limit:,}. It runs again"
        f" tomorrow. Type `segue jobs edit {job.id} --daily-tokens NUMBER` to allow more."
    )


# Reading


@reads
def history(tx: Tx, job_id: int, *, limit: int = 20) -> tuple[tuple[Run, tuple[Report, ...]], ...]:
    """The job's runs with their reports, newest first."""
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM runs WHERE job_id = :id ORDER BY due DESC LIMIT :limit",
        id=job_id,
        limit=limit,
    )
    return tuple((run, reports.of(tx, run.id)) for run in map(_run, rows))


@reads
def last(tx: Tx, job_ids: Collection[int]) -> dict[int, tuple[Run, tuple[Report, ...]]]:
    """The newest run of each of these jobs, by the job's number."""
    newest = {job_id: history(tx, job_id, limit=1) for job_id in job_ids}
    return {job_id: found[0] for job_id, found in newest.items() if found}


def _run(row: Row) -> Run:
    run_id, job_id, due, state, started, missed, seq, attempt, fence, process, *rest = row
    finished, error, asked, seen, tokens = rest
    return Run(
        id=run_id,
        job_id=job_id,
        due=moment(due),
        state=RunState(state),
        started=moment(started),
        missed_since=moment_or_none(missed),
        seq=seq,
        attempt=attempt,
        fence=fence,
        claimed_by=process,
        finished=moment_or_none(finished),
        error=error,
        asked=bool(asked),
        seen=jobs.parse_seen(seen),
        tokens=tokens,
    )


async def prune(store: Transactions, before: datetime) -> int:
    """Delete runs that ended before this time, except for the last KEPT of each job. Return how
    many were deleted."""
    deleted = 0
    is_more = True
    while is_more:
        some, is_more = await _prune(store, before)
        deleted += some
    return deleted


@writes
def _prune(tx: Tx, before: datetime) -> tuple[int, bool]:
    """Look at some of the runs that ended before this time. Return how many were deleted, and
    whether there are more. A run that stays is not checked again until its job has another."""
    rows = tx.rows(
        "SELECT r.id, EXISTS (SELECT 1 FROM runs n WHERE n.job_id = r.job_id AND n.due > r.due"
        " ORDER BY n.due LIMIT 1 OFFSET :kept) FROM runs r"
        " WHERE r.finished < :before AND r.kept = 0 ORDER BY r.finished, r.id LIMIT :most",
        before=micros(before),
        kept=KEPT - 1,
        most=_PRUNED,
    )
    old = [{"id": run_id} for run_id, is_old in rows if is_old]
    tx.change_many("DELETE FROM runs WHERE id = :id", old)
    last = [{"id": run_id} for run_id, is_old in rows if not is_old]
    tx.change_many("UPDATE runs SET kept = 1 WHERE id = :id", last)
    return len(old), len(rows) == _PRUNED
