"""Jobs, runs and reports for the tests of the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from segue.core.address import Address, Platform
from segue.core.reset import ResetPolicies
from segue.jobs.queries import jobs, reports, runs
from segue.jobs.queries.runs import Claim
from segue.jobs.schedule import Cron, Once, Schedule
from segue.jobs.values import Job, NewJob, ReportState, parse_targets
from segue.store import Store, deliveries
from segue.store.base import Tx
from segue.store.outbox import Outgoing, OutgoingState
from segue.testing.clock import FakeClock

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAILY = Cron("0 13 * * *", ZoneInfo("UTC"))


def new(schedule: Schedule | None = None, deliver: str = "local", **given: Any) -> NewJob:
    job = NewJob(
        prompt="Look at the weather.",
        schedule=schedule or Once(NOON + HOUR),
        zone="UTC",
        deliver=parse_targets(deliver),
        name="weather",
    )
    return replace(job, **given)


async def make(store: Store, schedule: Schedule | None = None, **given: Any) -> Job:
    return await jobs.create(store, "me", new(schedule, **given))


async def claimed(store: Store) -> Claim:
    claim = await runs.claim(store)
    assert claim is not None
    return claim


async def ready(store: Store) -> int:
    """Send every report that can be sent, and return how many are left."""
    for report in await reports.waiting(store, Platform):
        await reports.send(store, report, ResetPolicies(), UTC, "/home/me")
    return len(await reports.waiting(store, Platform))


async def reported(store: Store, clock: FakeClock, deliver: str, **given: Any) -> int:
    """Run a job that reports `rain`, and return the job's number."""
    job = await make(store, deliver=deliver, **given)
    clock.advance(3600)
    await runs.finish(store, await claimed(store), "rain")
    return job.id


async def states(store: Store, job_id: int) -> list[tuple[str, Address | None, ReportState]]:
    ((_, reports),) = await runs.history(store, job_id)
    return [(report.target, report.address, report.state) for report in reports]


def finish(tx: Tx, sending: Outgoing, state: OutgoingState, error: str) -> None:
    deliveries.finish(tx, sending, state, error=error)


async def pass_on(store: Store) -> int:
    return sum([await reports.pass_on(store, report) for report in await reports.failed(store)])


async def fail_sending(store: Store, error: str = "The bot was blocked.") -> None:
    await ready(store)
    for sending in await deliveries.claim(store, list(Platform)):
        await store.write(finish, sending, OutgoingState.FAILED, error)
