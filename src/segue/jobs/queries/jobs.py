"""Jobs: what the agent does at set times. `runs` has what becomes of each due time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec.structs import replace

from segue.core import provenance
from segue.core.errors import BadDelivery, BadJob, JobNotFound, UserError
from segue.core.text import one_line
from segue.jobs.schedule import Cron, Every, Once, Schedule
from segue.jobs.values import (
    LOCAL,
    MAX_JOBS,
    NAME_LIMIT,
    Condition,
    ConditionKind,
    Job,
    JobState,
    NewJob,
    RunState,
    Seen,
    next_due,
    parse_targets,
    targets_text,
)
from segue.store import owners
from segue.store.base import Row, Topic, Tx, reads, writes
from segue.store.values import (
    address_or_none,
    micros,
    moment,
    moment_or_none,
    text,
    unreadable,
)

_MICROSECOND = timedelta(microseconds=1)
_COLUMNS = (
    "id, owner, name, prompt, kind, at, period, expression, zone, verbatim, deliver, origin, cwd,"
    " model, until, runs, state, due, session_id, failures, error, created, only_if, watched, seen,"
    " checked, checks, allows, may_change_jobs, fallback, daily_tokens, provenance"
)
_allows = msgspec.json.Decoder(tuple[str, ...])
_seen = msgspec.json.Decoder(Seen)


@writes
def create(tx: Tx, owner: str, new: NewJob) -> Job:
    """Create a job. Raise BadJob if it is never due or makes no sense, or UserError if there are
    too many. If it has a condition, a run checks it right away, so that a change counts from now
    on."""
    owners.found(tx, owner)
    tx.lock(f"jobs of {owner}")
    sql = "SELECT count(*) FROM jobs WHERE owner = :owner AND state IN ('enabled', 'paused')"
    if tx.one(sql, owner=owner)[0] >= MAX_JOBS:
        raise UserError(
            f"You already have {MAX_JOBS} jobs. Type `segue jobs` to list them, and delete one that"
            " you no longer need."
        )
    row = tx.insert(
        "jobs",
        returning="id",
        owner=owner,
        state=JobState.ENABLED.value,
        due=micros(_first_due(tx, new)),
        created=tx.now,
        **_columns(new),
    )
    tx.nudge(Topic.JOBS)
    (job_id,) = row or (0,)
    if new.only_if is not None:
        make_run(tx, job_id)
    return found(tx, owner, job_id)


def make_run(tx: Tx, job_id: int, *, asked: bool = False, returning: str = "1") -> Row | None:
    """Make a run for now, besides the job's due times. `asked`: its owner asked for it."""
    row = tx.insert(
        "runs",
        returning=returning,
        job_id=job_id,
        due=tx.now,
        state=RunState.WAITING.value,
        started=tx.now,
        asked=int(asked),
    )
    recheck_old_runs(tx, job_id)
    update(tx, job_id, busy=1)
    return row


def recheck_old_runs(tx: Tx, job_id: int) -> None:
    """Let `runs.prune` check the runs again that it kept: the job has a new one."""
    tx.change("UPDATE runs SET kept = 0 WHERE job_id = :id AND kept = 1", id=job_id)


@writes
def edit(tx: Tx, owner: str, job_id: int, new: NewJob) -> Job:
    """Replace what the job does, when and where. A job that was done is enabled again."""
    job = _locked(tx, owner, job_id)
    columns = _columns(new)
    state = JobState.PAUSED if job.state is JobState.PAUSED else JobState.ENABLED
    due = micros(_first_due(tx, new))
    columns |= {"state": state.value, "due": due if state is JobState.ENABLED else None}
    update(tx, job_id, failures=0, error=None, **columns)
    if new.only_if != job.only_if:
        update(tx, job_id, seen=None, checked=None, checks=0)
        if new.only_if is not None and not _is_busy(tx, job_id):
            make_run(tx, job_id)
    return found(tx, owner, job_id)


@writes
def pause(tx: Tx, owner: str, job_id: int) -> Job:
    """Stop running the job until it is resumed. A run that has started goes on."""
    if _locked(tx, owner, job_id).state is JobState.ENABLED:
        update(tx, job_id, state=JobState.PAUSED.value, due=None)
    return found(tx, owner, job_id)


@writes
def resume(tx: Tx, owner: str, job_id: int) -> Job:
    """Run a paused job again, from its next due time on: what it missed is left out. Raise BadJob
    if it has none left."""
    job = _locked(tx, owner, job_id)
    if job.state is JobState.PAUSED:
        due = micros(_first_due(tx, job))
        update(tx, job_id, state=JobState.ENABLED.value, due=due, failures=0, error=None)
    return found(tx, owner, job_id)


@writes
def delete(tx: Tx, owner: str, job_id: int) -> None:
    """Delete the job and its history. Its session stays. Raise UserError while it runs."""
    idle(tx, owner, job_id)
    tx.change("DELETE FROM jobs WHERE id = :id", id=job_id)
    tx.nudge(Topic.JOBS)


def idle(tx: Tx, owner: str, job_id: int) -> Job:
    """The owner's job with this number, which does not change until the transaction ends. Raise
    UserError if it runs."""
    job = _locked(tx, owner, job_id)
    if _is_busy(tx, job_id):
        raise UserError(
            f"Job {job_id} is running now. Try again when it is done: `segue jobs show {job_id}`"
            " shows its runs."
        )
    return job


def _is_busy(tx: Tx, job_id: int) -> bool:
    return bool(tx.one("SELECT busy FROM jobs WHERE id = :id", id=job_id)[0])


def locked(tx: Tx, job_id: int) -> Job | None:
    """The job with this number, which does not change until the transaction ends, or None."""
    tx.row(f"SELECT 1 FROM jobs WHERE id = :id {tx.for_update}", id=job_id)
    return get(tx, job_id)


@reads
def get(tx: Tx, job_id: int) -> Job | None:
    row = tx.row(f"SELECT {_COLUMNS} FROM jobs WHERE id = :id", id=job_id)
    return _job(row) if row else None


@reads
def found(tx: Tx, owner: str, job_id: int) -> Job:
    """The owner's job with this number, or raise JobNotFound."""
    job = get(tx, job_id)
    if job is None or job.owner != owner:
        raise JobNotFound(number=job_id)
    return job


@reads
def list_jobs(tx: Tx, owner: str, *, limit: int = MAX_JOBS) -> tuple[Job, ...]:
    """The owner's jobs: enabled ones by their next due time, then paused ones, then the newest of
    those that are done."""
    selected = f"SELECT {_COLUMNS} FROM jobs WHERE owner = :owner AND state ="
    rows = [
        row
        for rest in (
            "'enabled' ORDER BY due, id",
            "'paused' ORDER BY id",
            "'done' ORDER BY id DESC",
        )
        for row in tx.rows(f"{selected} {rest} LIMIT :limit", owner=owner, limit=limit)
    ]
    return tuple(map(_job, rows[:limit]))


@reads
def upcoming(tx: Tx, owner: str, *, limit: int = 3) -> tuple[Job, ...]:
    """The owner's jobs that are due next."""
    sql = f"SELECT {_COLUMNS} FROM jobs WHERE owner = :owner AND state = 'enabled'"
    rows = tx.rows(f"{sql} ORDER BY due, id LIMIT :limit", owner=owner, limit=limit)
    return tuple(map(_job, rows))


@reads
def next_wake(tx: Tx, *, only_texts: bool = False) -> timedelta | None:
    """The time until the next job that is not running is due, or None if there is none. Not
    positive if it is overdue. `only_texts`: of those that deliver a text as it is.

    It is by the store's clock, which decides what is due. On PostgreSQL, that is the server's.
    """
    row = tx.row(f"SELECT due FROM jobs WHERE {_idle(only_texts)} ORDER BY due, id LIMIT 1")
    return moment(row[0]) - moment(tx.now) if row else None


def _idle(only_texts: bool) -> str:
    text = " AND verbatim = 1 AND only_if IS NULL" if only_texts else ""
    return f"state = 'enabled' AND busy = 0{text}"


def next_overdue(tx: Tx, *, only_texts: bool = False) -> Job | None:
    """The job that has been due for longest and is not running, or None. It does not change until
    the transaction ends. Jobs that cannot be read are paused along the way."""
    skip = f"{tx.for_update} SKIP LOCKED" if tx.for_update else ""
    sql = (
        f"SELECT {_COLUMNS} FROM jobs WHERE {_idle(only_texts)} AND due <= :now"
        f" ORDER BY due, id LIMIT 1 {skip}"
    )
    while row := tx.row(sql, now=tx.now):
        job = _job(row)
        if job.state is JobState.ENABLED:
            return job
        update(tx, job.id, state=JobState.PAUSED.value, due=None, error=job.error)
    return None


def update(tx: Tx, job_id: int, **columns: Any) -> None:
    """Change columns of a job, and wake the gateways."""
    changes = ", ".join(f"{name} = :{name}" for name in columns)
    tx.change(f"UPDATE jobs SET {changes} WHERE id = :id", id=job_id, **columns)
    tx.nudge(Topic.JOBS)


def _locked(tx: Tx, owner: str, job_id: int) -> Job:
    locked(tx, job_id)
    return found(tx, owner, job_id)


def _first_due(tx: Tx, new: NewJob) -> datetime:
    due = next_due(new, moment(tx.now))
    if due is None:
        raise BadJob(reason="its time is over, so it would never run")
    return due


def _columns(new: NewJob) -> dict[str, Any]:
    new.check()
    condition = new.only_if
    return {
        "name": text(one_line(new.name or new.prompt, NAME_LIMIT)),
        "prompt": text(new.prompt),
        **_schedule_columns(new.schedule),
        "zone": new.schedule.zone.key if isinstance(new.schedule, Cron) else new.zone,
        "verbatim": int(new.verbatim),
        "deliver": text(targets_text(new.deliver)),
        "origin": new.origin.key if new.origin else None,
        "cwd": None if new.cwd is None else text(new.cwd),
        "model": new.model,
        "until": None if new.until is None else micros(new.until),
        "runs": new.runs,
        "only_if": None if condition is None else condition.kind.value,
        "watched": None if condition is None else text(condition.target),
        "allows": msgspec.json.encode(list(map(text, new.allows))).decode(),
        "may_change_jobs": int(new.may_change_jobs),
        "fallback": int(new.fallback),
        "daily_tokens": new.daily_tokens,
        "provenance": provenance.encode(new.provenance),
    }


def seen_json(seen: Seen | None) -> str | None:
    """Encode what a condition saw for a column."""
    if seen is None:
        return None
    return msgspec.json.encode(replace(seen, excerpt=text(seen.excerpt))).decode()


def parse_seen(stored: str | None) -> Seen | None:
    return _seen.decode(stored) if stored else None


def _schedule_columns(schedule: Schedule) -> dict[str, Any]:
    columns: dict[str, Any] = {"at": None, "period": None, "expression": None}
    match schedule:
        case Once(at):
            return columns | {"kind": "once", "at": micros(at)}
        case Every(interval, since):
            period = interval // _MICROSECOND
            return columns | {"kind": "every", "at": micros(since), "period": period}
        case Cron(expression):
            return columns | {"kind": "cron", "expression": expression}


def _schedule(kind: str, at: int, period: int, expression: str, zone: str) -> Schedule:
    if kind == "once":
        return Once(moment(at))
    if kind == "every":
        return Every(period * _MICROSECOND, moment(at))
    return Cron(expression, ZoneInfo(zone))


def _job(row: Row) -> Job:
    """Return the job in `row`. If the row is invalid, return a paused job without the invalid
    values: one bad row must not keep the others from being read."""
    job_id, owner, name, prompt, kind, at, period, expression, zone, verbatim, *rest = row
    deliver, origin, cwd, model, until, left, state, due, session_id, failures, error, *rest = rest
    created, only_if, watched, seen, checked, checks, allows, may_change, *rest = rest
    fallback, tokens, authors = rest
    plain = Job(
        id=job_id,
        owner=owner,
        name=name,
        prompt=prompt,
        schedule=Once(moment(created)),
        zone=zone,
        verbatim=bool(verbatim),
        deliver=(LOCAL,),
        cwd=cwd,
        model=model,
        until=moment_or_none(until),
        runs=left,
        state=JobState.PAUSED,
        due=None,
        session_id=session_id,
        failures=failures,
        error=error,
        created=moment(created),
        checked=moment_or_none(checked),
        checks=checks,
        may_change_jobs=bool(may_change),
        fallback=bool(fallback),
        daily_tokens=tokens,
        provenance=provenance.parse(authors),
    )
    try:
        return replace(
            plain,
            schedule=_schedule(kind, at, period, expression, zone),
            deliver=parse_targets(deliver),
            origin=address_or_none(origin),
            state=JobState(state),
            due=moment_or_none(due),
            only_if=Condition(ConditionKind(only_if), watched) if only_if else None,
            seen=parse_seen(seen),
            allows=_allows.decode(allows),
        )
    except (ValueError, ZoneInfoNotFoundError, BadDelivery) as problem:
        return replace(plain, error=unreadable(problem))
