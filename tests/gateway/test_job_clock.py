"""Jobs on a machine that sleeps, and under a clock that jumps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest

import segue.store
from segue.agent.models.base import Piece, Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.session import ME, SECOND, Ticks
from segue.gateway import jobs
from segue.gateway.service import Gateway
from segue.jobs.queries import jobs as stored_jobs
from segue.jobs.queries import runs as stored_runs
from segue.jobs.schedule import Every, Once, Schedule
from segue.jobs.values import Job, NewJob, Run, RunState, parse_targets
from segue.store import Store, Topic
from segue.store.base import SystemClock
from tests.harness.house import WITHIN, House

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


class MachineClock(SystemClock):
    """The clock of a machine that a test puts to sleep, or sets."""

    def __init__(self) -> None:
        self._wall = timedelta()
        self._slept = timedelta()

    def now(self) -> datetime:
        return super().now() + self._wall

    def ticks(self) -> Ticks:
        return Ticks(super().ticks() + int(self._slept.total_seconds() * SECOND))

    def sleep(self, time: timedelta) -> None:
        """Sleep. The event loop does not count this time; wall time and ticks do."""
        self._wall += time
        self._slept += time

    def set(self, change: timedelta) -> None:
        """Set the wall clock forward or back."""
        self._wall += change


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MachineClock:
    # Only its short sleeps tell the gateway that the clock has jumped.
    monkeypatch.setattr(jobs, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "CHECK_SECONDS", 3600.0)
    return MachineClock()


@contextlib.asynccontextmanager
async def machine(house: House, clock: MachineClock) -> AsyncGenerator[tuple[Gateway, Store]]:
    """A gateway on a machine with that clock."""
    async with (
        await segue.store.open(house.url, clock=clock) as store,
        house.serve(store, house.adapter()) as gateway,
    ):
        gateway._jobs._now = clock.now
        yield gateway, store


async def make(store: Store, clock: MachineClock, schedule: Schedule | None = None) -> Job:
    new = NewJob(
        prompt="Call the bank.",
        schedule=schedule or Once(clock.now() + HOUR),
        zone="UTC",
        deliver=parse_targets("local"),
        verbatim=True,
    )
    return await stored_jobs.create(store, ME, new)


async def runs(store: Store, job: Job, number: int = 1) -> list[Run]:
    """Wait until so many runs have ended, and return all, the oldest first."""
    async with asyncio.timeout(WITHIN), store.listen(Topic.JOBS) as wake:
        while True:
            found = [run for run, _ in await stored_runs.history(store, job.id)]
            if len(found) >= number and all(run.finished for run in found):
                return found[::-1]
            await wake.wait(0.05)


async def looked(gateway: Gateway, store: Store) -> None:
    """Wait until the gateway has looked for runs twice."""
    claims = 0
    claim = gateway._jobs._claim

    async def counted() -> None:
        nonlocal claims
        await claim()
        claims += 1

    gateway._jobs._claim = counted
    async with asyncio.timeout(WITHIN):
        while claims < 2:
            await store.write(lambda tx: tx.nudge(Topic.JOBS))
            await asyncio.sleep(0.01)
    gateway._jobs._claim = claim


async def test_a_reminder_is_delivered_as_soon_as_the_machine_wakes_up(
    house: House, clock: MachineClock
):
    async with machine(house, clock) as (_, store):
        job = await make(store, clock)
        clock.sleep(3 * HOUR)
        (run,) = await runs(store, job)
    assert (run.due, run.state) == (job.due, RunState.REPORTED)
    assert HOUR < run.started - run.due < 3 * HOUR
    assert run.is_late


async def test_what_was_missed_in_sleep_runs_once(house: House, clock: MachineClock):
    async with machine(house, clock) as (gateway, store):
        start = clock.now()
        job = await make(store, clock, Every(HOUR, start))
        clock.sleep(3.5 * HOUR)
        await runs(store, job)
        await looked(gateway, store)
        (run,) = await runs(store, job)
        assert (run.missed_since, run.due) == (start + HOUR, start + 3 * HOUR)
        clock.sleep(HOUR / 2)
        assert [run.due for run in await runs(store, job, 2)][-1] == start + 4 * HOUR


class Patient(ScriptedModel):
    """A model that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(["It rains."])
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        self.asked.set()
        await self.go.wait()
        async for piece in super().stream(prompt):
            yield piece


async def test_a_run_in_which_the_machine_sleeps_goes_on_and_reports_once(
    house: House, clock: MachineClock
):
    house.model = model = Patient()
    async with machine(house, clock) as (gateway, store):
        new = NewJob(
            prompt="Look outside.",
            schedule=Once(clock.now() + HOUR),
            zone="UTC",
            deliver=parse_targets("local"),
        )
        job = await stored_jobs.create(store, ME, new)
        clock.sleep(HOUR)
        async with asyncio.timeout(WITHIN):
            await model.asked.wait()
        clock.sleep(8 * HOUR)  # its claim and its leases have expired
        await looked(gateway, store)
        model.go.set()
        await runs(store, job)
        ((run, (report,)),) = await stored_runs.history(store, job.id)
    assert (run.state, run.attempt, report.body) == (RunState.REPORTED, 1, "It rains.")


async def test_a_clock_that_jumps_back_and_forth_repeats_and_skips_nothing(
    house: House, clock: MachineClock
):
    async with machine(house, clock) as (gateway, store):
        start = clock.now()
        job = await make(store, clock, Every(HOUR, start))
        for hour in range(1, 4):
            clock.set(HOUR)
            await runs(store, job, hour)
            clock.set(-5 * HOUR)
            await looked(gateway, store)
            clock.set(5 * HOUR)
            await looked(gateway, store)
        found = await runs(store, job, 3)
    assert [run.due - start for run in found] == [HOUR, 2 * HOUR, 3 * HOUR]
    assert {run.missed_since for run in found} == {None}


async def test_a_clock_that_was_a_year_ahead_does_not_silence_a_job_for_a_year(
    house: House, clock: MachineClock
):
    async with machine(house, clock) as (gateway, store):
        start = clock.now()
        job = await make(store, clock, Every(HOUR, start))
        clock.set(timedelta(days=365))
        await runs(store, job)
        clock.set(-timedelta(days=365))
        await looked(gateway, store)
        clock.set(HOUR)
        assert start + HOUR in [run.due for run in await runs(store, job, 2)]


@pytest.mark.parametrize("ahead", [-30 * MINUTE, 30 * MINUTE])
async def test_the_clock_of_the_store_decides_what_is_due(
    house: House, clock: MachineClock, ahead: timedelta
):
    """As on PostgreSQL, whose clock need not agree with that of the gateway."""
    clock.set(ahead)
    async with machine(house, clock) as (gateway, store):
        gateway._jobs._now = lambda: datetime.now(UTC)
        claims = 0
        claim = gateway._jobs._claim

        async def counted() -> None:
            nonlocal claims
            claims += 1
            await claim()

        gateway._jobs._claim = counted
        job = await make(store, clock, Once(clock.now() + timedelta(seconds=0.3)))
        (run,) = await runs(store, job)
    assert run.started >= run.due
    assert claims < 20, "it slept until then"
