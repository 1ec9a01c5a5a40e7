"""Jobs and their runs, in the store."""

from __future__ import annotations

import asyncio
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from segue.core.address import HomeChannel
from segue.core.errors import BadJob, JobNotFound, UserError
from segue.core.transcript import Role
from segue.jobs.queries import jobs, runs
from segue.jobs.queries.runs import KEPT
from segue.jobs.schedule import Cron, Every, Once
from segue.jobs.values import (
    MAX_FAILURES,
    MAX_JOBS,
    Condition,
    ConditionKind,
    JobState,
    NewJob,
    RunState,
)
from segue.store import Store, leases, owners, sessions, transcripts
from segue.store.base import Tx
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.job_samples import (
    DAILY,
    DAY,
    HOUR,
    NOON,
    claimed,
    make,
    new,
)
from tests.store.samples import DM, TOPIC, called, said, say


async def test_a_job_is_kept_as_it_was_made(store: Store):
    schedules = (Once(NOON + HOUR), Every(HOUR, NOON), Cron("0 9 * * 1-5", ZoneInfo("Europe/Oslo")))
    for schedule in schedules:
        asked = new(
            schedule,
            "origin, telegram, all",
            origin=TOPIC,
            cwd="/home/me",
            model="a/b",
            until=NOON + 9 * DAY,
            runs=3,
            zone="Europe/Oslo",
            only_if=Condition(ConditionKind.COMMAND, "date +%j"),
            allows=("git pull", "send_file"),
            may_change_jobs=True,
            fallback=True,
            daily_tokens=5,
        )
        job = await jobs.create(store, "me", asked)
        assert {name: getattr(job, name) for name in NewJob.__struct_fields__} == {
            name: getattr(asked, name) for name in NewJob.__struct_fields__
        }
        assert job == await jobs.found(store, "me", job.id)
        assert (job.state, job.due) == (JobState.ENABLED, schedule.after(NOON))


async def test_a_job_that_would_never_run_or_says_nothing_is_refused(store: Store):
    for wrong in (
        new(Once(NOON)),
        new(DAILY, until=NOON),
        new(DAILY, runs=0),
        new(prompt=" \n"),
        new(prompt="x" * 8001),
    ):
        with pytest.raises(BadJob):
            await jobs.create(store, "me", wrong)
    assert await jobs.list_jobs(store, "me") == ()


async def test_an_owner_has_a_limited_number_of_jobs(store: Store):
    for _ in range(MAX_JOBS):
        await make(store)
    with pytest.raises(UserError, match=r"You already have .* jobs"):
        await make(store)


async def test_a_job_belongs_to_its_owner(store: Store):
    await owners.ensure(store, "you", "You")
    job = await make(store)
    for change in (jobs.pause, jobs.resume, jobs.delete, runs.ask):
        with pytest.raises(JobNotFound):
            await change(store, "you", job.id)
    assert await jobs.list_jobs(store, "you") == ()
    assert await jobs.upcoming(store, "you") == ()


async def test_jobs_are_listed_by_when_they_are_due(store: Store):
    late, paused, early = [await make(store, Once(NOON + n * HOUR)) for n in (9, 5, 1)]
    await jobs.pause(store, "me", paused.id)
    assert [job.id for job in await jobs.list_jobs(store, "me")] == [early.id, late.id, paused.id]
    assert [job.id for job in await jobs.upcoming(store, "me", limit=1)] == [early.id]
    assert await jobs.next_wake(store) == HOUR


async def test_nothing_is_claimed_before_it_is_due(store: Store, clock: FakeClock):
    await make(store)
    clock.advance(3599)
    assert await runs.claim(store) is None
    clock.advance(1)
    claim = await claimed(store)
    assert (claim.run.due, claim.run.state) == (NOON + HOUR, RunState.RUNNING)
    assert await runs.claim(store) is None


async def test_a_job_that_was_due_once_is_done(store: Store, clock: FakeClock):
    job = await make(store)
    clock.advance(3600)
    await claimed(store)
    assert (await jobs.found(store, "me", job.id)).state is JobState.DONE
    assert await jobs.next_wake(store) is None


async def test_the_claim_sets_the_next_due_time(store: Store, clock: FakeClock):
    job = await make(store, DAILY)
    clock.advance(3600)
    claim = await claimed(store)
    assert (await jobs.found(store, "me", job.id)).due == NOON + HOUR + DAY
    assert await runs.finish(store, claim, None)
    clock.advance(24 * 3600)
    assert (await claimed(store)).run.due == NOON + HOUR + DAY


async def test_a_job_ends_after_its_last_run(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON), runs=2)
    for _ in range(2):
        clock.advance(3600)
        await runs.finish(store, await claimed(store), None)
    clock.advance(3600)
    assert await runs.claim(store) is None
    assert (await jobs.found(store, "me", job.id)).state is JobState.DONE


async def test_a_job_has_one_run_at_a_time_and_catches_up_once(store: Store, clock: FakeClock):
    await make(store, Every(HOUR, NOON))
    clock.advance(3600)
    first = await claimed(store)
    for _ in range(180):  # it takes three hours, with a heartbeat every minute
        clock.advance(60)
        assert await runs.heartbeat(store, first, seconds=90)
    assert await runs.claim(store) is None
    assert await jobs.next_wake(store) is None
    await runs.finish(store, first, None)
    second = await claimed(store)
    assert (second.run.due, second.run.missed_since) == (NOON + 4 * HOUR, NOON + 2 * HOUR)
    await runs.finish(store, second, None)
    assert await runs.claim(store) is None


async def test_what_was_missed_for_too_long_is_reported_and_not_run(store: Store, clock: FakeClock):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    job = await make(store, DAILY, deliver="telegram")
    clock.advance(3600 * 24 * 3)
    assert await runs.claim(store) is None
    ((run, (report,)),) = await runs.history(store, job.id)
    assert (run.state, run.due) == (RunState.SKIPPED, NOON + HOUR + 2 * DAY)
    assert "was due at Thu 2026-01-01 13:00 (UTC)" in report.body
    assert (await jobs.found(store, "me", job.id)).due == NOON + HOUR + 3 * DAY


async def test_a_reminder_runs_however_late(store: Store, clock: FakeClock):
    await make(store)
    clock.advance(3600 * 24 * 30)
    claim = await claimed(store)
    assert claim.run.due == NOON + HOUR
    assert claim.run.is_late


async def test_a_clock_that_is_set_back_repeats_no_run(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON))
    clock.advance(3600)
    await runs.finish(store, await claimed(store), None)
    clock.set_wall(NOON)
    await jobs.edit(store, "me", job.id, new(Every(HOUR, NOON)))
    clock.set_wall(NOON + HOUR)
    assert await runs.claim(store) is None
    assert (await jobs.found(store, "me", job.id)).due == NOON + 2 * HOUR


async def test_a_job_that_ran_while_the_clock_was_a_year_ahead_is_due_in_time_once_it_is_right(
    store: Store, clock: FakeClock
):
    job = await make(store, DAILY)
    clock.advance(3600)
    await runs.finish(store, await claimed(store), None)
    clock.set_wall(NOON + 365 * DAY + 2 * HOUR)
    await runs.finish(store, await claimed(store), None)
    assert (await jobs.found(store, "me", job.id)).due == NOON + HOUR + 366 * DAY
    clock.set_wall(NOON + 2 * HOUR)
    assert await runs.claim(store) is None
    assert (await jobs.found(store, "me", job.id)).due == NOON + HOUR + DAY
    for day in range(1, 3):
        clock.set_wall(NOON + day * DAY + HOUR)
        claim = await claimed(store)
        assert claim.run.due == NOON + day * DAY + HOUR
        await runs.finish(store, claim, None)
    clock.set_wall(NOON + 364 * DAY + HOUR)
    await runs.finish(store, await claimed(store), None)
    clock.set_wall(NOON + 365 * DAY + HOUR)
    assert await runs.claim(store) is None, "it has run already"


async def test_a_job_that_ended_while_the_clock_was_ahead_goes_on_once_it_is_right(
    store: Store, clock: FakeClock
):
    job = await make(store, DAILY, until=NOON + 5 * DAY)
    clock.set_wall(NOON + 5 * DAY - 20 * HOUR)
    await runs.finish(store, await claimed(store), None)
    assert (await jobs.found(store, "me", job.id)).state is JobState.DONE
    clock.set_wall(NOON)
    assert await runs.claim(store) is None
    assert (await jobs.found(store, "me", job.id)).due == NOON + HOUR


async def test_a_paused_job_does_not_run_and_resumes_without_what_it_missed(
    store: Store, clock: FakeClock
):
    job = await make(store, Every(HOUR, NOON))
    assert (await jobs.pause(store, "me", job.id)).due is None
    clock.advance(3 * 3600 + 60)
    assert await runs.claim(store) is None
    assert (await jobs.resume(store, "me", job.id)).due == NOON + 4 * HOUR


async def test_a_reminder_whose_time_has_passed_cannot_be_resumed(store: Store, clock: FakeClock):
    job = await make(store)
    await jobs.pause(store, "me", job.id)
    clock.advance(7200)
    with pytest.raises(BadJob):
        await jobs.resume(store, "me", job.id)


async def test_an_edited_job_has_new_times(store: Store, clock: FakeClock):
    job = await make(store)
    clock.advance(3600)
    await runs.finish(store, await claimed(store), None)
    edited = await jobs.edit(store, "me", job.id, new(Once(NOON + 5 * HOUR), prompt="Look again."))
    assert (edited.state, edited.due) == (JobState.ENABLED, NOON + 5 * HOUR)
    assert edited.prompt == "Look again."


async def test_a_deleted_job_is_gone_with_its_history_but_its_session_stays(
    store: Store, clock: FakeClock
):
    job = await make(store)
    clock.advance(3600)
    claim = await claimed(store)
    with pytest.raises(UserError, match="is running now"):
        await jobs.delete(store, "me", job.id)
    await runs.finish(store, claim, "rain")
    await jobs.delete(store, "me", job.id)
    assert await runs.history(store, job.id) == ()
    assert await sessions.get(store, claim.session_id)


async def test_a_run_that_was_asked_for_runs_now_even_if_the_job_is_paused(
    store: Store, clock: FakeClock
):
    job = await make(store, DAILY)
    await jobs.pause(store, "me", job.id)
    run = await runs.ask(store, "me", job.id)
    assert run.state is RunState.WAITING
    with pytest.raises(UserError, match="is running now"):
        await runs.ask(store, "me", job.id)
    claim = await claimed(store)
    assert (claim.run.id, claim.run.state) == (run.id, RunState.RUNNING)
    await runs.finish(store, claim, None)
    assert (await jobs.found(store, "me", job.id)).state is JobState.PAUSED
    clock.advance(60)
    await runs.ask(store, "me", job.id)


# Claims


async def test_the_runs_of_a_dead_gateway_are_claimed_by_the_next(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await make(store)
    clock.advance(3600)
    dying = await open_store()
    first = await claimed(dying)
    assert await runs.claim(store) is None
    await dying.close()
    second = await claimed(store)
    assert (second.run.id, second.run.attempt) == (first.run.id, 2)
    assert second.session_id == first.session_id


async def test_a_gateway_that_hangs_loses_its_claim_and_changes_nothing_later(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    job = await make(store)
    clock.advance(3600)
    hanging = await open_store()
    first = await claimed(hanging)
    clock.advance(10)
    second = await claimed(store)
    assert not await runs.heartbeat(hanging, first)
    assert not await runs.finish(hanging, first, "late")
    assert not await runs.fail(hanging, first, "late")
    assert await runs.finish(store, second, "in time")
    ((run, (report,)),) = await runs.history(store, job.id)
    assert (run.state, report.body) == (RunState.REPORTED, "in time")


async def test_a_run_in_hand_is_not_claimed_again_by_the_same_gateway(
    store: Store, clock: FakeClock
):
    await make(store)
    clock.advance(3600)
    first = await claimed(store)
    clock.advance(60)
    assert await runs.claim(store, exclude=[first.run.id]) is None


async def test_a_run_that_kills_every_gateway_fails(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    job = await make(store)
    clock.advance(3600)
    for _ in range(3):
        dying = await open_store()
        await claimed(dying)
        await dying.close()
    assert await runs.claim(store) is None
    ((run, (report,)),) = await runs.history(store, job.id)
    assert run.state is RunState.FAILED
    assert "The gateway stopped" in (run.error or "")
    assert "Look at the weather." in report.body  # a reminder is delivered all the same


async def test_of_many_gateways_one_wins_each_run(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    for _ in range(20):
        await make(store)
    clock.advance(3600)
    rivals = [store, await open_store(), await open_store()]

    async def claim_all(rival: Store) -> list[int]:
        found: list[int] = []
        while claim := await runs.claim(rival):
            found.append(claim.run.job_id)
        return found

    claims = await asyncio.gather(*map(claim_all, rivals))
    every = [job_id for found in claims for job_id in found]
    assert len(every) == len(set(every)) == 20


async def test_a_job_that_cannot_be_read_is_paused_and_stops_no_other(
    store: Store, clock: FakeClock
):
    def spoil(tx: Tx, job_id: int) -> None:
        tx.change("UPDATE jobs SET zone = 'Nowhere/Land' WHERE id = :id", id=job_id)

    bad, good = await make(store, DAILY), await make(store, DAILY)
    await store.write(spoil, bad.id)
    clock.advance(3600)
    assert (await claimed(store)).job.id == good.id
    shown = await jobs.found(store, "me", bad.id)
    assert shown.state is JobState.PAUSED
    assert "cannot be read" in (shown.error or "")


# Failures


async def test_a_job_that_fails_five_times_in_a_row_is_paused_and_says_so(
    store: Store, clock: FakeClock
):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    job = await make(store, Every(HOUR, NOON), deliver="telegram")
    for _ in range(MAX_FAILURES):
        clock.advance(3600)
        await runs.fail(store, await claimed(store), "The model is offline.")
    paused = await jobs.found(store, "me", job.id)
    assert (paused.state, paused.failures) == (JobState.PAUSED, MAX_FAILURES)
    assert "The model is offline." in (paused.error or "")
    told = [report.body for _, reports in await runs.history(store, job.id) for report in reports]
    assert len(told) == 2  # the first failure and the pause
    assert "paused" in told[0]


async def test_a_run_that_succeeds_ends_the_row_of_failures(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON))
    for failed in (True, True, False):
        clock.advance(3600)
        claim = await claimed(store)
        await (runs.fail(store, claim, "no") if failed else runs.finish(store, claim, None))
    assert (await jobs.found(store, "me", job.id)).failures == 0


# The job's session


async def test_the_prompt_of_a_run_is_appended_once(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await make(store, DAILY)
    clock.advance(3600)
    dying = await open_store()
    first = await claimed(dying)
    lease = await leases.acquire(dying, first.session_id, "a gateway")
    assert await runs.begin(dying, first, lease, said("do it"))
    await dying.close()
    second = await claimed(store)
    lease = await leases.acquire(store, second.session_id, "a gateway")
    assert await runs.begin(store, second, lease, said("do it"))
    assert [m.content for m in await transcripts.load(store, second.session_id)] == ["do it"]
    assert second.run.seq == 1


async def test_a_new_run_completes_what_the_last_one_left_open(store: Store, clock: FakeClock):
    await make(store, DAILY)
    clock.advance(3600)
    first = await claimed(store)
    await say(store, first.session_id, said("do it"), called("shell"))
    await runs.fail(store, first, "no")
    clock.advance(24 * 3600)
    second = await claimed(store)
    assert second.session_id == first.session_id
    lease = await leases.acquire(store, second.session_id, "a gateway")
    await runs.begin(store, second, lease, said("do it again"))
    roles = [message.role for message in await transcripts.load(store, second.session_id)]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # PostgreSQL does not count its steps
async def test_a_look_for_a_run_costs_the_same_after_many_runs(store: Store):
    def steps(tx: Any) -> int:
        """The number of steps that SQLite takes to look for a run."""
        taken = 0

        def count() -> bool:
            nonlocal taken
            taken += 1
            return False

        tx._connection.set_progress_handler(count, 1)
        runs.claim(tx)
        tx._connection.set_progress_handler(None)
        return taken

    def end(tx: Tx, job_id: int, number: int) -> None:
        for due in range(number):
            tx.insert(
                "runs", job_id=job_id, due=due, state="silent", started=tx.now, finished=tx.now
            )

    job = await make(store, DAILY)
    await store.write(end, job.id, 1)
    few = await store.write(steps)
    await store.write(end, (await make(store, DAILY)).id, 1000)
    assert await store.write(steps) < few + 50


async def test_the_next_due_job_is_found_by_its_index(store: Store, url: str):
    def plan(tx: Tx) -> str:
        sql = "SELECT due FROM jobs WHERE state = 'enabled' AND busy = 0 ORDER BY due, id LIMIT 1"
        if url.startswith("sqlite"):
            return " ".join(str(row) for row in tx.rows(f"EXPLAIN QUERY PLAN {sql}"))
        tx.rows("SELECT set_config('enable_seqscan', 'off', true)")
        return " ".join(str(row) for row in tx.rows(f"EXPLAIN {sql}"))

    assert "jobs_due" in await store.write(plan)


# Old runs


async def test_old_runs_are_forgotten_except_for_the_last_ones(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON))
    for _ in range(KEPT + 3):
        clock.advance(3600)
        await runs.finish(store, await claimed(store), "rain")
    assert await runs.prune(store, NOON) == 0
    assert await runs.prune(store, clock.now()) == 3
    kept = await runs.history(store, job.id, limit=100)
    assert len(kept) == KEPT
    assert kept[0][0].due == NOON + (KEPT + 3) * HOUR
