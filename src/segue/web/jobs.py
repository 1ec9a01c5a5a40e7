"""The jobs of an owner, for the page."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.text import local_time, one_line
from segue.jobs import service, texts
from segue.jobs.values import Job, JobState, Report, ReportState, Run, RunState, next_times
from segue.store import Store
from segue.web import frames

_BAD = (ReportState.FAILED, ReportState.UNCERTAIN)


async def look(store: Store, owner: str) -> frames.JobList:
    # A job stays in its place when it is switched off and on.
    found = sorted(
        await service.list_jobs(store, owner),
        key=lambda entry: (entry[0].state is JobState.DONE, entry[0].id),
    )
    return frames.JobList(jobs=tuple(_entry(job, last) for job, last in found))


def _entry(job: Job, last: texts.Last | None) -> frames.JobEntry:
    run = last and last[0]
    return frames.JobEntry(
        number=job.id,
        name=one_line(job.name),
        state=job.state,
        error=job.error,
        next=tuple(local_time(due, job.zone) for due in next_times(job, job.due)),
        # Its next time says the same as the schedule of a job that is due once.
        facts=tuple(texts.terms(job, [])[1 if job.is_reminder and job.due else 0 :]),
        prompt=job.prompt,
        last=texts.outcome(*last) if last else None,
        lamp=_lamp(*last) if last else "",
        at=run and run.started,
        session=job.session_id,
    )


def _lamp(run: Run, reports: Sequence[Report]) -> frames.Lamp:
    if run.state in (RunState.WAITING, RunState.RUNNING):
        return "busy"
    is_bad = run.state in (RunState.FAILED, RunState.SKIPPED)
    return "bad" if is_bad or any(report.state in _BAD for report in reports) else "good"
