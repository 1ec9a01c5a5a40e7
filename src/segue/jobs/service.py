"""The operations on the jobs of one owner. They raise UserError.

The command line, the slash commands, the page and the agent's tools all use them, so the same
checks apply to each.
"""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.errors import UserError
from segue.jobs.queries import jobs, reports, runs
from segue.jobs.texts import Last
from segue.jobs.values import Job, JobAction, NewJob, as_asked
from segue.store import Store, Tx, gateways
from segue.turns.brain import Unattended


async def list_jobs(store: Store, owner: str) -> Sequence[tuple[Job, Last | None]]:
    """The jobs, each with its last run."""
    found = await jobs.list_jobs(store, owner)
    last = await runs.last(store, [job.id for job in found])
    return [(job, last.get(job.id)) for job in found]


async def require_gateway(store: Store) -> None:
    """Raise UserError if no gateway is running."""
    if not await gateways.alive(store):
        raise UserError(
            "No gateway is running, so no job can run. Type `segue gateway start`, then try again."
        )


async def check(store: Store, owner: str, new: NewJob) -> None:
    """Raise UserError if no gateway could run the job, or it could not deliver."""
    await require_gateway(store)
    await reports.check(store, owner, new.deliver, verbatim=new.verbatim)


async def create(store: Store, owner: str, new: NewJob) -> Job:
    """Make the job. Raise UserError if it could not run or deliver."""
    await check(store, owner, new)
    return await jobs.create(store, owner, new)


async def edit(store: Store, owner: str, before: Job, changed: Job) -> Job:
    """Change the job. Raise UserError if it is no longer as it was before."""
    await check(store, owner, changed)
    return await store.write(_edit, owner, before, changed)


async def act(
    store: Store, owner: str, number: int, action: JobAction, before: Job | None = None
) -> Job:
    """Do that with the job, and return it as it is then, or as it was if it is deleted.

    `before` is the job as it was shown when its owner was asked: raise UserError if it is no longer
    like that, and check that it can deliver."""
    if action in (JobAction.RESUME, JobAction.RUN):
        if before is None:
            await require_gateway(store)
        else:
            await check(store, owner, before)
    return await store.write(_act, owner, number, action, before)


def unattended(job: Job) -> Unattended:
    """What the runs of the job may do, as its owner said when it was made."""
    return Unattended(allows=job.allows, may_change_jobs=job.may_change_jobs, written=job.written)


def _edit(tx: Tx, owner: str, before: Job, changed: Job) -> Job:
    _require_unchanged(tx, owner, before)
    return jobs.edit(tx, owner, before.id, changed)


def _act(tx: Tx, owner: str, number: int, action: JobAction, before: Job | None) -> Job:
    if before is not None:
        _require_unchanged(tx, owner, before)
    match action:
        case JobAction.PAUSE:
            return jobs.pause(tx, owner, number)
        case JobAction.RESUME:
            return jobs.resume(tx, owner, number)
        case JobAction.RUN:
            runs.ask(tx, owner, number)
            return jobs.found(tx, owner, number)
        case JobAction.DELETE:
            job = jobs.found(tx, owner, number)
            jobs.delete(tx, owner, number)
            return job


def _require_unchanged(tx: Tx, owner: str, before: Job) -> None:
    """What was approved is what is done."""
    if as_asked(jobs.found(tx, owner, before.id)) != as_asked(before):
        raise UserError(
            f"Job {before.id} was changed in the meantime, so nothing was done. Type /jobs"
            f" {before.id} to look at it, then try again."
        )
