"""The agent's tools for the jobs of a session's owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

from segue.agent.tools.base import Plan, Tool, Workplace
from segue.agent.tools.jobs import (
    NOTHING_TO_REPORT,
    JobPlace,
    change_job,
    list_jobs,
    make_job,
    reminder,
)
from segue.agent.tools.reminders import RemindArguments
from segue.core import job_text
from segue.core.address import Platform
from segue.core.context import Context, Delivery
from segue.core.errors import JobChanged, NoGatewayForJobs
from segue.core.job import LOCAL, AllHomes, Job, JobAction, NewJob, as_asked
from segue.core.job_text import Last
from segue.store import Store, gateways
from segue.store.base import Tx

_RUNS = 10


class JobTools:
    def __init__(
        self,
        store: Store,
        owner: str,
        context: Context,
        zone: tzinfo,
        now: Callable[[], datetime],
    ) -> None:
        """`zone` is that of the owner."""
        self._jobs = StoredJobs(store, owner)
        is_terminal = context.source.platform is Platform.LOCAL
        homes = AllHomes() if context.homes else LOCAL
        self._place = JobPlace(
            origin=None if is_terminal else context.source,
            deliver=(homes if is_terminal else Delivery(),),
            cwd=context.cwd,
            zone=partial(job_text.zone_name, zone),
            now=now,
        )

    def offered(self, job: Job | None) -> list[Tool[Any]]:
        """All tools. A run of a `job` only looks at jobs, unless its owner allowed more."""
        tools: list[Tool[Any]] = [list_jobs(self._jobs)]
        if job is None or job.may_change_jobs:
            tools += [make_job(self._jobs, self._place), change_job(self._jobs, self._place)]
        return tools if job is None else [*tools, NOTHING_TO_REPORT]

    async def reminder(self, given: RemindArguments, workplace: Workplace) -> Plan:
        return await reminder(self._jobs, self._place, given, workplace)


class StoredJobs:
    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def list(self) -> Sequence[tuple[Job, Last | None]]:
        from segue.store import jobs, runs  # noqa: PLC0415

        found = await jobs.list_jobs(self._store, self._owner)
        last = await runs.last(self._store, [job.id for job in found])
        return [(job, last.get(job.id)) for job in found]

    async def found(self, number: int) -> Job:
        from segue.store import jobs  # noqa: PLC0415

        return await jobs.found(self._store, self._owner, number)

    async def history(self, number: int) -> Sequence[Last]:
        from segue.store import runs  # noqa: PLC0415

        return await runs.history(self._store, number, limit=_RUNS)

    async def check(self, new: NewJob) -> None:
        from segue.store import reports  # noqa: PLC0415

        if not await gateways.alive(self._store):
            raise NoGatewayForJobs
        await reports.check(self._store, self._owner, new.deliver, verbatim=new.verbatim)

    async def create(self, new: NewJob) -> Job:
        from segue.store import jobs  # noqa: PLC0415

        await self.check(new)
        return await jobs.create(self._store, self._owner, new)

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
