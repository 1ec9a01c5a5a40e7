"""The jobs of a session's owner, for the agent's tools."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.errors import JobChanged, NoGatewayForJobs
from segue.core.job import Job, JobAction, NewJob, as_asked
from segue.core.job_text import Last
from segue.store import Store
from segue.store.base import Tx

_RUNS = 10


class StoredJobs:
    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def list(self) -> Sequence[tuple[Job, Last | None]]:
        found = await self._store.jobs.list(self._owner)
        last = await self._store.runs.last([job.id for job in found])
        return [(job, last.get(job.id)) for job in found]

    async def found(self, number: int) -> Job:
        return await self._store.jobs.found(self._owner, number)

    async def history(self, number: int) -> Sequence[Last]:
        return await self._store.runs.history(number, limit=_RUNS)

    async def check(self, new: NewJob) -> None:
        if not await self._store.gateways.alive():
            raise NoGatewayForJobs
        await self._store.reports.check(self._owner, new.deliver)

    async def create(self, new: NewJob) -> Job:
        await self.check(new)
        return await self._store.jobs.create(self._owner, new)

    async def edit(self, before: Job, changed: Job) -> Job:
        await self.check(changed)
        return await self._store.write(_edit, self._owner, before, changed)

    async def act(self, before: Job, action: JobAction) -> Job:
        if action in (JobAction.RESUME, JobAction.RUN):
            await self.check(before)
        return await self._store.write(_act, self._owner, before, action)


# Schedules are slow to import, and most turns have none.


def _edit(tx: Tx, owner: str, before: Job, changed: Job) -> Job:
    from segue.store import jobs  # noqa: PLC0415

    _require_unchanged(tx, owner, before)
    return jobs.edit(tx, owner, before.id, changed)


def _act(tx: Tx, owner: str, before: Job, action: JobAction) -> Job:
    from segue.store import jobs, runs  # noqa: PLC0415

    _require_unchanged(tx, owner, before)
    match action:
        case JobAction.PAUSE:
            return jobs.pause(tx, owner, before.id)
        case JobAction.RESUME:
            return jobs.resume(tx, owner, before.id)
        case JobAction.RUN:
            runs.ask(tx, owner, before.id)
        case JobAction.DELETE:
            jobs.delete(tx, owner, before.id)
    return before


def _require_unchanged(tx: Tx, owner: str, before: Job) -> None:
    """What was approved is what is done."""
    from segue.store import jobs  # noqa: PLC0415

    if as_asked(jobs.found(tx, owner, before.id)) != as_asked(before):
        raise JobChanged(number=before.id)
