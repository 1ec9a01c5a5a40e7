"""Jobs in words, for their owner and for the agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from segue.core.address import Delivery
from segue.core.errors import BadJob
from segue.core.text import count, find_zone, local_time, one_line, visible_name
from segue.jobs.schedule import Once
from segue.jobs.values import (
    LOCAL,
    AllHomes,
    Job,
    JobState,
    NewJob,
    Report,
    ReportState,
    Run,
    RunState,
    next_times,
    schedule_text,
)


def zone_name(zone: tzinfo) -> str:
    """The name of the user's time zone. Raise BadJob if the machine does not say it."""
    if isinstance(zone, ZoneInfo) and find_zone(zone.key):  # /etc/localtime may be a nameless copy
        return zone.key
    if zone.utcoffset(None) == timedelta(0):
        return "UTC"
    raise BadJob(reason="this machine's time zone has no name; set reset.zone to one that has")


Last = tuple[Run, Sequence[Report]]
_PLACES = {
    str(Delivery()): "the chat where you asked",
    str(LOCAL): "its own session",
    str(AllHomes()): "all your home channels",
}
_ARRIVALS = {
    ReportState.WAITING: "waiting for",
    ReportState.KEPT: "kept in",
    ReportState.QUEUED: "queued for",
    ReportState.SENT: "sent to",
    ReportState.UNCERTAIN: "maybe sent to",
    ReportState.FAILED: "not delivered to",
}


def destinations(targets: Iterable[object]) -> str:
    """Targets in words."""
    return ", ".join(_PLACES.get(name, name) for name in map(str, targets))


def summary(job: Job, last: Last | None) -> str:
    """A job on one line: its number, name, next time, places and last result."""
    when = f"next {local_time(job.due, job.zone)}" if job.due else job.state.value
    parts = [one_line(job.name), when, f"to {destinations(job.deliver)}"]
    if job.checked is not None:
        parts.append(f"checked {local_time(job.checked, job.zone)}")
    if last is not None:
        parts.append(f"last {outcome(*last)}")
    return f"{job.id:>3}  " + "; ".join(parts)


def made(job: Job) -> list[str]:
    """What the user reads about a job that was made or changed."""
    times = [local_time(due, job.zone) for due in next_times(job, job.due)]
    lines = [f"Job {job.id}, {one_line(job.name)!r}: {schedule_text(job.schedule, job.zone)}."]
    if times:
        lines.append(f"Next: {', '.join(times)}.")
    lines.append(f"It delivers to: {destinations(job.deliver)}.")
    if job.only_if is not None:
        lines.append(f"Only if {one_line(str(job.only_if))}.")
        if job.checked is None:
            lines.append(
                "The gateway makes the first check now. If it fails,"
                f" `segue jobs show {job.id}` says why."
            )
    if job.allows:
        lines.append(f"It may do without asking: {', '.join(map(one_line, job.allows))}.")
    return lines


def no_longer(former: NewJob, job: NewJob) -> str:
    """A sentence about a job that recurred before it was changed, and now runs only once. Empty for
    any other."""
    if not isinstance(job.schedule, Once) or isinstance(former.schedule, Once):
        return ""
    return f" It was {schedule_text(former.schedule, former.zone)}, and now runs only once."


def facts(job: Job, tokens_today: int = 0) -> list[tuple[str, str]]:
    """Everything about a job, in pairs of a name and a value."""
    looked = f"{count(job.checks, 'time')}, last "
    checked = [("checked", looked + local_time(job.checked, job.zone))] if job.checked else []
    used = [("tokens today", f"{tokens_today:,}")] if tokens_today else []
    return [
        ("job", f"{job.id}, {one_line(job.name)}"),
        ("state", f"{job.state}: {job.error}" if job.error else job.state.value),
        *terms(job, next_times(job, job.due)),
        *checked,
        *used,
        ("delivers" if job.verbatim else "asks the agent", one_line(job.prompt)),
        ("asked for on", str(job.origin) if job.origin else "the terminal"),
        ("session", job.session_id or "none yet"),
    ]


def terms(job: NewJob, times: Sequence[datetime]) -> list[tuple[str, str]]:
    """When a job runs, where it delivers and what it may do, in pairs of a name and a value.
    `times` are its next due times."""
    zone = job.zone
    optional = {
        "until": job.until and local_time(job.until, zone),
        "runs left": None if job.runs is None else str(job.runs),
        "only if": job.only_if and visible_name(job.only_if),
    }
    rest = {
        "may do without asking": ", ".join(map(visible_name, job.allows))
        or ("" if job.verbatim else "nothing"),
        "its runs": "may make and change jobs" if job.may_change_jobs else "",
        "if a report fails": "it goes to your other home channels" if job.fallback else "",
        "limit": "" if job.verbatim else f"{job.token_limit:,} tokens a day",
        "model": visible_name(job.model or ""),
        "works in": visible_name(job.cwd or "") if job.only_if or not job.verbatim else "",
    }
    return [
        ("schedule", schedule_text(job.schedule, zone)),
        *(("next" * (n == 0), local_time(due, zone)) for n, due in enumerate(times)),
        *((name, value) for name, value in optional.items() if value),
        ("delivers to", destinations(job.deliver)),
        *((name, value) for name, value in rest.items() if value),
    ]


def run_line(job: Job, run: Run, reports: Sequence[Report]) -> str:
    """A run on one line: when it was due, when it ran if that was later, and its outcome."""
    late = f", ran {local_time(run.started, job.zone)}" if run.is_late else ""
    tokens = f" ({run.tokens:,} tokens)" if run.tokens else ""
    return f"due {local_time(run.due, job.zone)}{late}: {outcome(run, reports)}{tokens}"


def outcome(run: Run, reports: Sequence[Report]) -> str:
    """What became of a run and its reports."""
    if run.state is RunState.FAILED:
        return f"failed: {one_line(run.error or '')}"
    if run.state is RunState.SILENT:
        return "nothing to report"
    if run.state is RunState.SKIPPED and run.error:
        return f"skipped: {one_line(run.error)}"
    if run.state is not RunState.REPORTED:
        return run.state.value
    return ", ".join(map(_arrival, reports)) or "reported"


def _arrival(report: Report) -> str:
    instead = " instead" if report.instead_of else ""
    why = f" ({one_line(report.error)})" if report.error else ""
    return f"{_ARRIVALS[report.state]} {destinations([report.target])}{instead}{why}"


def not_delivered(job: Job, report: Report) -> str:
    """A report that did not arrive, on one line."""
    return f"job {job.id}, {one_line(job.name)}: {_arrival(report)}; `segue jobs show {job.id}`"


def as_json(job: Job, history: Sequence[Last] = ()) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "prompt": job.prompt,
        "verbatim": job.verbatim,
        "schedule": schedule_text(job.schedule, job.zone),
        "zone": job.zone,
        "state": job.state,
        "error": job.error,
        "next": next_times(job, job.due) if job.state is JobState.ENABLED else [],
        "until": job.until,
        "runs_left": job.runs,
        "deliver": list(map(str, job.deliver)),
        "origin": job.origin.key if job.origin else None,
        "session": job.session_id,
        "only_if": job.only_if and {"kind": job.only_if.kind, "target": job.only_if.target},
        "checked": job.checked,
        "checks": job.checks,
        "allows": list(job.allows),
        "may_change_jobs": job.may_change_jobs,
        "fallback": job.fallback,
        "daily_tokens": job.token_limit,
        "runs": [
            {
                "due": run.due,
                "started": run.started,
                "finished": run.finished,
                "state": run.state,
                "error": run.error,
                "tokens": run.tokens,
                "reports": list(map(report_json, reports)),
            }
            for run, reports in history
        ],
    }


def report_json(report: Report) -> dict[str, Any]:
    return {
        "number": report.no,
        "to": report.target,
        "state": report.state,
        "error": report.error,
        "text": report.body,
        "instead_of": report.instead_of,
    }
