"""Conditions of jobs and their tokens, in the store: what keeps a run from happening."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from segue.core.address import HomeChannel
from segue.core.session import Usage
from segue.jobs.queries import jobs, runs
from segue.jobs.queries.runs import Claim
from segue.jobs.schedule import Every, Once
from segue.jobs.values import MAX_FAILURES, Condition, ConditionKind, Job, JobState, RunState, Seen
from segue.store import Store, leases, owners, sessions, transcripts
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.job_samples import (
    DAY,
    HOUR,
    NOON,
    claimed,
    make,
)
from tests.store.samples import DM, answered, called, hold, said

PAGE = Condition(ConditionKind.PAGE, "https://example.org/")


def sees(what: str) -> Seen:
    return Seen(digest=what, excerpt=f"it says {what}")


async def watching(store: Store, clock: FakeClock, **given: Any) -> Job:
    """A job that looks every hour, and has looked once."""
    job = await make(store, Every(HOUR, NOON), only_if=PAGE, **given)
    assert await runs.check(store, await claimed(store), sees("old")) is None
    return await jobs.found(store, "me", job.id)


async def test_a_condition_is_looked_at_when_the_job_is_made_and_wakes_no_one(
    store: Store, clock: FakeClock
):
    job = await watching(store, clock)
    assert (job.seen, job.checks, job.checked) == (sees("old"), 1, NOON)
    assert (job.due, await runs.history(store, job.id)) == (NOON + HOUR, ())


async def test_looks_that_find_nothing_leave_no_runs_behind(store: Store, clock: FakeClock):
    job = await watching(store, clock, runs=1)
    for _ in range(3):
        clock.advance(3600)
        assert await runs.check(store, await claimed(store), sees("old")) is None
    after = await jobs.found(store, "me", job.id)
    assert (after.checks, after.checked, after.runs) == (4, NOON + 3 * HOUR, 1)
    assert (after.state, await runs.history(store, job.id)) == (JobState.ENABLED, ())


async def test_a_change_wakes_the_agent_once(store: Store, clock: FakeClock):
    job = await watching(store, clock, runs=1)
    clock.advance(3600)
    claim = await runs.check(store, await claimed(store), sees("new"))
    assert claim is not None
    assert (claim.job.seen, claim.run.seen) == (sees("old"), sees("new"))
    assert (await jobs.found(store, "me", job.id)).state is JobState.DONE  # that was its last run
    await runs.finish(store, claim, "news")
    after = await jobs.found(store, "me", job.id)
    assert (after.seen, after.runs) == (sees("new"), 0)


async def test_a_change_whose_run_failed_is_noticed_again(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    for seen in ("new", "new"):
        clock.advance(3600)
        claim = await runs.check(store, await claimed(store), sees(seen))
        assert claim is not None
        await runs.fail(store, claim, "The model is offline.")
    assert (await jobs.found(store, "me", job.id)).seen == sees("old")


async def test_a_run_whose_gateway_dies_after_the_look_still_knows_the_change(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await watching(store, clock)
    clock.advance(3600)
    dying = await open_store()
    assert await runs.check(dying, await claimed(dying), sees("new"))
    await dying.close()
    claim = await claimed(store)
    assert (claim.job.seen, claim.run.seen) == (sees("old"), sees("new"))


async def test_a_gateway_that_lost_its_claim_records_no_look(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    job = await watching(store, clock)
    clock.advance(3600)
    hanging = await open_store()
    lost = await claimed(hanging)
    clock.advance(10)
    await claimed(store)
    assert await runs.check(hanging, lost, sees("new")) is None
    assert (await jobs.found(store, "me", job.id)).checks == 1
    assert len(await runs.history(store, job.id)) == 1


async def test_a_run_that_the_owner_asked_for_needs_no_change(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    clock.advance(60)
    await runs.ask(store, "me", job.id)
    assert await runs.check(store, await claimed(store), sees("old"))


async def test_an_edited_condition_is_looked_at_afresh(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    clock.advance(3600)
    old = await claimed(store)
    file = Condition(ConditionKind.FILE, "/tmp/x")
    edited = await jobs.edit(store, "me", job.id, replace(job, only_if=file))
    assert (edited.only_if, edited.seen, edited.checks) == (file, None, 0)
    assert await runs.check(store, old, sees("page")) is None  # it looked at the page
    assert (await jobs.found(store, "me", job.id)).seen is None
    clock.advance(3600)
    assert await runs.check(store, await claimed(store), sees("file")) is None
    assert (await jobs.found(store, "me", job.id)).seen == sees("file")


async def test_a_condition_that_fails_five_times_pauses_the_job(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    for _ in range(MAX_FAILURES):
        clock.advance(3600)
        await runs.fail(store, await claimed(store), "There is no host 'example.org'.")
    assert (await jobs.found(store, "me", job.id)).state is JobState.PAUSED


# Tokens


async def runs_with(store: Store, tokens: int) -> Claim:
    """Carry out a run that uses so many tokens."""
    claim = await claimed(store)
    lease = await leases.acquire(store, claim.session_id, "a gateway")
    await runs.begin(store, claim, lease, said("do it"))
    usage = Usage(input=tokens - 1, output=1)
    await transcripts.append(store, lease, [answered("done")], usage=usage)
    await leases.release(store, lease)
    await runs.finish(store, claim, None)
    return claim


async def test_a_job_without_tokens_left_is_skipped_until_tomorrow_with_one_notice(
    store: Store, clock: FakeClock
):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    job = await make(
        store,
        Every(HOUR, NOON),
        deliver="telegram",
        zone="Europe/Oslo",  # one hour ahead
        daily_tokens=100,
    )
    for _ in range(2):
        clock.advance(3600)
        await runs_with(store, 60)
    clock.advance(3600)
    assert await runs.claim(store) is None
    (run, (notice,)), *earlier = await runs.history(store, job.id)
    assert run.state is RunState.SKIPPED
    assert "used 120 tokens today, and may use 100" in notice.body
    assert [run.tokens for run, _ in earlier] == [60, 60]
    assert (await jobs.found(store, "me", job.id)).due == NOON + 11 * HOUR  # midnight in Oslo
    clock.advance(8 * 3600)
    await runs_with(store, 60)


async def test_tokens_that_the_owner_uses_in_the_session_do_not_count(
    store: Store, clock: FakeClock
):
    job = await make(store, Every(HOUR, NOON), daily_tokens=100)
    clock.advance(3600)
    claim = await runs_with(store, 60)
    lease = await hold(store, claim.session_id)
    usage = Usage(input=500)
    await transcripts.append(store, lease, [said("and?"), answered("yes")], usage=usage)
    await leases.release(store, lease)
    clock.advance(3600)
    await runs_with(store, 10)
    assert [run.tokens for run, _ in await runs.history(store, job.id)] == [10, 60]


async def test_a_run_may_use_what_earlier_runs_of_the_day_have_left(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON), daily_tokens=100)
    clock.advance(3600)
    await runs_with(store, 60)
    clock.advance(3600)
    scheduled = await claimed(store)
    lease = await leases.acquire(store, scheduled.session_id, "a gateway")
    await runs.begin(store, scheduled, lease, said("do it"))
    await transcripts.append(store, lease, [called("shell")], usage=Usage(input=30))
    assert await runs.tokens_left(store, scheduled) == 10
    await leases.release(store, lease)
    await runs.finish(store, scheduled, None)
    clock.advance(1)
    await runs.ask(store, "me", job.id)
    asked = await claimed(store)
    lease = await leases.acquire(store, asked.session_id, "a gateway")
    await runs.begin(store, asked, lease, said("do it"))
    assert await runs.tokens_left(store, asked) == 100


async def test_a_reminder_runs_whatever_its_tokens(store: Store, clock: FakeClock):
    job = await make(store, daily_tokens=1)
    await runs.ask(store, "me", job.id)
    await runs_with(store, 60)
    clock.advance(3600)
    assert (await claimed(store)).run.due == NOON + HOUR


async def test_a_look_while_the_clock_was_a_year_ahead_does_not_delay_the_next_one(
    store: Store, clock: FakeClock
):
    job = await make(store, Every(HOUR, NOON), only_if=PAGE)
    await runs.check(store, await claimed(store), sees("old"))
    clock.set_wall(NOON + 365 * DAY)
    await runs.check(store, await claimed(store), sees("old"))
    assert (await jobs.found(store, "me", job.id)).due == NOON + 365 * DAY + HOUR
    clock.set_wall(NOON)
    assert await runs.claim(store) is None
    assert (await jobs.found(store, "me", job.id)).due == NOON + HOUR


async def test_what_asks_no_agent_begins_no_session(store: Store, clock: FakeClock):
    await make(store, verbatim=True)
    await make(store, Once(NOON + 9 * HOUR), only_if=PAGE)
    assert await runs.check(store, await claimed(store), sees("old")) is None
    clock.advance(3600)
    assert await runs.finish(store, await claimed(store), "rain")
    assert await sessions.list_sessions(store, "me") == ()
    clock.advance(8 * 3600)
    claim = await runs.check(store, await claimed(store), sees("new"))
    assert claim is not None
    assert [session.id for session in await sessions.list_sessions(store, "me")] == [
        claim.session_id
    ]
