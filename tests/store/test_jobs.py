"""Jobs, their runs and their reports, in the store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from segue.core.address import Address, HomeChannel, Platform
from segue.core.errors import BadJob, JobBusy, JobNotFound, NoHomeChannel, TooManyJobs
from segue.core.job import (
    MAX_FAILURES,
    MAX_JOBS,
    Condition,
    ConditionKind,
    Job,
    JobState,
    NewJob,
    ReportState,
    RunState,
    Seen,
    parse_targets,
)
from segue.core.reset import ResetPolicies
from segue.core.schedule import Cron, Every, Once, Schedule
from segue.core.session import Origin, Session, Usage
from segue.core.transcript import Kind, Role
from segue.store import Store, outbox, runs
from segue.store.base import Tx
from segue.store.outbox import Outgoing, OutgoingState
from segue.store.runs import KEPT, Claim
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ROOM, TOPIC, answered, called, hold, said, say

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
    return await store.jobs.create("me", new(schedule, **given))


async def claimed(store: Store) -> Claim:
    claim = await store.runs.claim()
    assert claim is not None
    return claim


async def ready(store: Store) -> int:
    """Send every report that can be sent, and return how many are left."""
    for report in await store.reports.waiting(Platform):
        await store.reports.send(report, ResetPolicies(), UTC, "/home/me")
    return len(await store.reports.waiting(Platform))


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
        job = await store.jobs.create("me", asked)
        assert {name: getattr(job, name) for name in NewJob.__struct_fields__} == {
            name: getattr(asked, name) for name in NewJob.__struct_fields__
        }
        assert job == await store.jobs.found("me", job.id)
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
            await store.jobs.create("me", wrong)
    assert await store.jobs.list("me") == ()


async def test_an_owner_has_a_limited_number_of_jobs(store: Store):
    for _ in range(MAX_JOBS):
        await make(store)
    with pytest.raises(TooManyJobs):
        await make(store)


async def test_a_job_belongs_to_its_owner(store: Store):
    await store.owners.ensure("you", "You")
    job = await make(store)
    for change in (store.jobs.pause, store.jobs.resume, store.jobs.delete, store.runs.ask):
        with pytest.raises(JobNotFound):
            await change("you", job.id)
    assert await store.jobs.list("you") == ()
    assert await store.jobs.upcoming("you") == ()


async def test_jobs_are_listed_by_when_they_are_due(store: Store):
    late, paused, early = [await make(store, Once(NOON + n * HOUR)) for n in (9, 5, 1)]
    await store.jobs.pause("me", paused.id)
    assert [job.id for job in await store.jobs.list("me")] == [early.id, late.id, paused.id]
    assert [job.id for job in await store.jobs.upcoming("me", limit=1)] == [early.id]
    assert await store.jobs.next_wake() == HOUR


async def test_nothing_is_claimed_before_it_is_due(store: Store, clock: FakeClock):
    await make(store)
    clock.advance(3599)
    assert await store.runs.claim() is None
    clock.advance(1)
    claim = await claimed(store)
    assert (claim.run.due, claim.run.state) == (NOON + HOUR, RunState.RUNNING)
    assert await store.runs.claim() is None


async def test_a_job_that_was_due_once_is_done(store: Store, clock: FakeClock):
    job = await make(store)
    clock.advance(3600)
    await claimed(store)
    assert (await store.jobs.found("me", job.id)).state is JobState.DONE
    assert await store.jobs.next_wake() is None


async def test_the_claim_sets_the_next_due_time(store: Store, clock: FakeClock):
    job = await make(store, DAILY)
    clock.advance(3600)
    claim = await claimed(store)
    assert (await store.jobs.found("me", job.id)).due == NOON + HOUR + DAY
    assert await store.runs.finish(claim, None)
    clock.advance(24 * 3600)
    assert (await claimed(store)).run.due == NOON + HOUR + DAY


async def test_a_job_ends_after_its_last_run(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON), runs=2)
    for _ in range(2):
        clock.advance(3600)
        await store.runs.finish(await claimed(store), None)
    clock.advance(3600)
    assert await store.runs.claim() is None
    assert (await store.jobs.found("me", job.id)).state is JobState.DONE


async def test_a_job_has_one_run_at_a_time_and_catches_up_once(store: Store, clock: FakeClock):
    await make(store, Every(HOUR, NOON))
    clock.advance(3600)
    first = await claimed(store)
    for _ in range(180):  # it takes three hours, with a heartbeat every minute
        clock.advance(60)
        assert await store.runs.heartbeat(first, seconds=90)
    assert await store.runs.claim() is None
    assert await store.jobs.next_wake() is None
    await store.runs.finish(first, None)
    second = await claimed(store)
    assert (second.run.due, second.run.missed_since) == (NOON + 4 * HOUR, NOON + 2 * HOUR)
    await store.runs.finish(second, None)
    assert await store.runs.claim() is None


async def test_what_was_missed_for_too_long_is_reported_and_not_run(store: Store, clock: FakeClock):
    await store.owners.set_home("me", HomeChannel(address=DM))
    job = await make(store, DAILY, deliver="telegram")
    clock.advance(3600 * 24 * 3)
    assert await store.runs.claim() is None
    ((run, (report,)),) = await store.runs.history(job.id)
    assert (run.state, run.due) == (RunState.SKIPPED, NOON + HOUR + 2 * DAY)
    assert "was due at Thu 2026-01-01 13:00 (UTC)" in report.body
    assert (await store.jobs.found("me", job.id)).due == NOON + HOUR + 3 * DAY


async def test_a_reminder_runs_however_late(store: Store, clock: FakeClock):
    await make(store)
    clock.advance(3600 * 24 * 30)
    claim = await claimed(store)
    assert claim.run.due == NOON + HOUR
    assert claim.run.is_late


async def test_a_clock_that_is_set_back_repeats_no_run(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON))
    clock.advance(3600)
    await store.runs.finish(await claimed(store), None)
    clock.set_wall(NOON)
    await store.jobs.edit("me", job.id, new(Every(HOUR, NOON)))
    clock.set_wall(NOON + HOUR)
    assert await store.runs.claim() is None
    assert (await store.jobs.found("me", job.id)).due == NOON + 2 * HOUR


async def test_a_job_that_ran_while_the_clock_was_a_year_ahead_is_due_in_time_once_it_is_right(
    store: Store, clock: FakeClock
):
    job = await make(store, DAILY)
    clock.advance(3600)
    await store.runs.finish(await claimed(store), None)
    clock.set_wall(NOON + 365 * DAY + 2 * HOUR)
    await store.runs.finish(await claimed(store), None)
    assert (await store.jobs.found("me", job.id)).due == NOON + HOUR + 366 * DAY
    clock.set_wall(NOON + 2 * HOUR)
    assert await store.runs.claim() is None
    assert (await store.jobs.found("me", job.id)).due == NOON + HOUR + DAY
    for day in range(1, 3):
        clock.set_wall(NOON + day * DAY + HOUR)
        claim = await claimed(store)
        assert claim.run.due == NOON + day * DAY + HOUR
        await store.runs.finish(claim, None)
    clock.set_wall(NOON + 364 * DAY + HOUR)
    await store.runs.finish(await claimed(store), None)
    clock.set_wall(NOON + 365 * DAY + HOUR)
    assert await store.runs.claim() is None, "it has run already"


async def test_a_job_that_ended_while_the_clock_was_ahead_goes_on_once_it_is_right(
    store: Store, clock: FakeClock
):
    job = await make(store, DAILY, until=NOON + 5 * DAY)
    clock.set_wall(NOON + 5 * DAY - 20 * HOUR)
    await store.runs.finish(await claimed(store), None)
    assert (await store.jobs.found("me", job.id)).state is JobState.DONE
    clock.set_wall(NOON)
    assert await store.runs.claim() is None
    assert (await store.jobs.found("me", job.id)).due == NOON + HOUR


async def test_a_paused_job_does_not_run_and_resumes_without_what_it_missed(
    store: Store, clock: FakeClock
):
    job = await make(store, Every(HOUR, NOON))
    assert (await store.jobs.pause("me", job.id)).due is None
    clock.advance(3 * 3600 + 60)
    assert await store.runs.claim() is None
    assert (await store.jobs.resume("me", job.id)).due == NOON + 4 * HOUR


async def test_a_reminder_whose_time_has_passed_cannot_be_resumed(store: Store, clock: FakeClock):
    job = await make(store)
    await store.jobs.pause("me", job.id)
    clock.advance(7200)
    with pytest.raises(BadJob):
        await store.jobs.resume("me", job.id)


async def test_an_edited_job_has_new_times(store: Store, clock: FakeClock):
    job = await make(store)
    clock.advance(3600)
    await store.runs.finish(await claimed(store), None)
    edited = await store.jobs.edit("me", job.id, new(Once(NOON + 5 * HOUR), prompt="Look again."))
    assert (edited.state, edited.due) == (JobState.ENABLED, NOON + 5 * HOUR)
    assert edited.prompt == "Look again."


async def test_a_deleted_job_is_gone_with_its_history_but_its_session_stays(
    store: Store, clock: FakeClock
):
    job = await make(store)
    clock.advance(3600)
    claim = await claimed(store)
    with pytest.raises(JobBusy):
        await store.jobs.delete("me", job.id)
    await store.runs.finish(claim, "rain")
    await store.jobs.delete("me", job.id)
    assert await store.runs.history(job.id) == ()
    assert await store.sessions.get(claim.session_id)


async def test_a_run_that_was_asked_for_runs_now_even_if_the_job_is_paused(
    store: Store, clock: FakeClock
):
    job = await make(store, DAILY)
    await store.jobs.pause("me", job.id)
    run = await store.runs.ask("me", job.id)
    assert run.state is RunState.WAITING
    with pytest.raises(JobBusy):
        await store.runs.ask("me", job.id)
    claim = await claimed(store)
    assert (claim.run.id, claim.run.state) == (run.id, RunState.RUNNING)
    await store.runs.finish(claim, None)
    assert (await store.jobs.found("me", job.id)).state is JobState.PAUSED
    clock.advance(60)
    await store.runs.ask("me", job.id)


# Claims


async def test_the_runs_of_a_dead_gateway_are_claimed_by_the_next(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await make(store)
    clock.advance(3600)
    dying = await open_store()
    first = await claimed(dying)
    assert await store.runs.claim() is None
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
    assert not await hanging.runs.heartbeat(first)
    assert not await hanging.runs.finish(first, "late")
    assert not await hanging.runs.fail(first, "late")
    assert await store.runs.finish(second, "in time")
    ((run, (report,)),) = await store.runs.history(job.id)
    assert (run.state, report.body) == (RunState.REPORTED, "in time")


async def test_a_run_in_hand_is_not_claimed_again_by_the_same_gateway(
    store: Store, clock: FakeClock
):
    await make(store)
    clock.advance(3600)
    first = await claimed(store)
    clock.advance(60)
    assert await store.runs.claim(besides=[first.run.id]) is None


async def test_a_run_that_kills_every_gateway_fails(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    job = await make(store)
    clock.advance(3600)
    for _ in range(3):
        dying = await open_store()
        await claimed(dying)
        await dying.close()
    assert await store.runs.claim() is None
    ((run, (report,)),) = await store.runs.history(job.id)
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
        while claim := await rival.runs.claim():
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
    shown = await store.jobs.found("me", bad.id)
    assert shown.state is JobState.PAUSED
    assert "cannot be read" in (shown.error or "")


# Failures


async def test_a_job_that_fails_five_times_in_a_row_is_paused_and_says_so(
    store: Store, clock: FakeClock
):
    await store.owners.set_home("me", HomeChannel(address=DM))
    job = await make(store, Every(HOUR, NOON), deliver="telegram")
    for _ in range(MAX_FAILURES):
        clock.advance(3600)
        await store.runs.fail(await claimed(store), "The model is offline.")
    paused = await store.jobs.found("me", job.id)
    assert (paused.state, paused.failures) == (JobState.PAUSED, MAX_FAILURES)
    assert "The model is offline." in (paused.error or "")
    told = [report.body for _, reports in await store.runs.history(job.id) for report in reports]
    assert len(told) == 2  # the first failure and the pause
    assert "paused" in told[0]


async def test_a_run_that_succeeds_ends_the_row_of_failures(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON))
    for failed in (True, True, False):
        clock.advance(3600)
        claim = await claimed(store)
        await (store.runs.fail(claim, "no") if failed else store.runs.finish(claim, None))
    assert (await store.jobs.found("me", job.id)).failures == 0


# The job's session


async def test_the_prompt_of_a_run_is_appended_once(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await make(store, DAILY)
    clock.advance(3600)
    dying = await open_store()
    first = await claimed(dying)
    lease = await dying.leases.acquire(first.session_id, "a gateway")
    assert await dying.runs.begin(first, lease, said("do it"))
    await dying.close()
    second = await claimed(store)
    lease = await store.leases.acquire(second.session_id, "a gateway")
    assert await store.runs.begin(second, lease, said("do it"))
    assert [m.content for m in await store.transcripts.load(second.session_id)] == ["do it"]
    assert second.run.seq == 1


async def test_a_new_run_completes_what_the_last_one_left_open(store: Store, clock: FakeClock):
    await make(store, DAILY)
    clock.advance(3600)
    first = await claimed(store)
    await say(store, first.session_id, said("do it"), called("shell"))
    await store.runs.fail(first, "no")
    clock.advance(24 * 3600)
    second = await claimed(store)
    assert second.session_id == first.session_id
    lease = await store.leases.acquire(second.session_id, "a gateway")
    await store.runs.begin(second, lease, said("do it again"))
    roles = [message.role for message in await store.transcripts.load(second.session_id)]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]


# Reports


async def reported(store: Store, clock: FakeClock, deliver: str, **given: Any) -> int:
    """Run a job that reports `rain`, and return the job's number."""
    job = await make(store, deliver=deliver, **given)
    clock.advance(3600)
    await store.runs.finish(await claimed(store), "rain")
    return job.id


async def states(store: Store, job_id: int) -> list[tuple[str, Address | None, ReportState]]:
    ((_, reports),) = await store.runs.history(job_id)
    return [(report.target, report.address, report.state) for report in reports]


async def test_a_report_is_appended_to_the_conversation_at_its_address_and_queued(
    store: Store, clock: FakeClock, session: Session
):
    await store.bindings.rebind(session.id, DM, Origin.RESUME)
    await say(store, session.id, said("hello"), answered("hello"))
    job_id = await reported(store, clock, "origin", origin=DM)
    assert await ready(store) == 0
    *_, intro, report = await store.transcripts.load(session.id)
    assert (intro.role, intro.kind) == (Role.USER, Kind.SYNTHETIC)
    assert f'Job {job_id}, "weather"' in intro.content
    assert (report.role, report.content) == (Role.ASSISTANT, "rain")
    (sending,) = await store.outbox.claim([Platform.TELEGRAM])
    assert (sending.address, sending.body, sending.session_id) == (DM, "rain", session.id)
    assert await states(store, job_id) == [("origin", DM, ReportState.QUEUED)]


async def test_a_report_waits_while_the_session_there_is_in_use(
    store: Store, clock: FakeClock, session: Session
):
    await store.bindings.rebind(session.id, DM, Origin.RESUME)
    job_id = await reported(store, clock, "origin", origin=DM)
    lease = await hold(store, session.id, said("and now?"))
    assert await ready(store) == 1
    assert await states(store, job_id) == [("origin", DM, ReportState.WAITING)]
    await store.transcripts.append(lease, [answered("now this")])
    await store.leases.release(lease)
    assert await ready(store) == 0
    contents = [message.content for message in await store.transcripts.load(session.id)]
    assert contents[:2] == ["and now?", "now this"]
    assert contents[-1] == "rain"


async def test_a_report_waits_while_the_session_there_is_handed_off(
    store: Store, clock: FakeClock, session: Session
):
    await store.bindings.rebind(session.id, DM, Origin.RESUME)
    await reported(store, clock, "origin", origin=DM)
    handoff = await store.request_handoff(session.id, Platform.SLACK)
    assert await ready(store) == 1
    await store.cancel_handoff(handoff.id)
    assert await ready(store) == 0


async def test_a_report_does_not_move_a_session_that_has_left_its_door(
    store: Store, clock: FakeClock, session: Session
):
    await store.bindings.rebind(session.id, TOPIC, Origin.RESUME)
    await store.bindings.rebind(session.id, CHANNEL, Origin.RESUME)
    await reported(store, clock, "origin", origin=TOPIC)
    assert await ready(store) == 0
    assert (await store.transcripts.load(session.id)).messages[-1].content == "rain"
    moved = await store.sessions.get(session.id)
    assert moved is not None
    assert moved.address == CHANNEL


async def test_a_report_where_there_is_no_session_begins_one(store: Store, clock: FakeClock):
    await store.owners.set_home("me", HomeChannel(address=DM))
    await reported(store, clock, "telegram")
    assert await ready(store) == 0
    binding = await store.bindings.get(DM)
    assert binding is not None
    assert [m.role for m in await store.transcripts.load(binding.session_id)] == [
        Role.USER,
        Role.ASSISTANT,
    ]


async def test_a_report_that_cannot_be_sent_is_never_called_sent(store: Store, clock: FakeClock):
    await store.owners.set_home("me", HomeChannel(address=DM))
    job_id = await reported(store, clock, "telegram")
    await ready(store)
    (sending,) = await store.outbox.claim([Platform.TELEGRAM])
    await store.write(_finish, sending, OutgoingState.FAILED, "The bot was blocked.")
    ((_, (report,)),) = await store.runs.history(job_id)
    assert (report.state, report.error) == (ReportState.FAILED, "The bot was blocked.")


async def test_what_the_outbox_has_forgotten_was_sent(store: Store, clock: FakeClock):
    await store.owners.set_home("me", HomeChannel(address=DM))
    job_id = await reported(store, clock, "telegram")
    await ready(store)
    (sending,) = await store.outbox.claim([Platform.TELEGRAM])
    await store.write(_finish, sending, OutgoingState.SENT, "")
    clock.advance(1)
    await store.outbox.prune(clock.now())
    assert await states(store, job_id) == [("telegram", DM, ReportState.SENT)]


def _finish(tx: Tx, sending: Outgoing, state: OutgoingState, error: str) -> None:
    outbox.finish(tx, sending, state, error=error)


async def test_a_report_goes_to_each_place_once(store: Store, clock: FakeClock, session: Session):
    await store.owners.set_home("me", HomeChannel(address=DM))
    await store.owners.set_home("me", HomeChannel(address=ROOM))
    job_id = await reported(store, clock, "telegram, all, local, slack, origin", origin=DM)
    assert await states(store, job_id) == [
        ("telegram", DM, ReportState.WAITING),
        ("all", ROOM, ReportState.WAITING),
        ("local", None, ReportState.KEPT),
        ("slack", None, ReportState.FAILED),
    ]


async def test_a_chat_of_another_owner_gets_no_report(
    store: Store, clock: FakeClock, session: Session
):
    await store.owners.ensure("you", "You")
    theirs = await store.sessions.create("you", Platform.TELEGRAM)
    await store.bindings.rebind(theirs.id, DM, Origin.MESSAGE)
    job_id = await reported(store, clock, "telegram:42, origin", origin=DM)
    assert await ready(store) == 0
    ((_, reports),) = await store.runs.history(job_id)
    assert {report.state for report in reports} == {ReportState.FAILED}
    assert await store.outbox.claim([Platform.TELEGRAM]) == ()


async def test_a_chat_that_the_owner_has_used_gets_reports(
    store: Store, clock: FakeClock, session: Session
):
    await store.bindings.rebind(session.id, DM, Origin.RESUME)
    await store.bindings.rebind(session.id, CHANNEL, Origin.RESUME)
    await store.reports.check("me", parse_targets("telegram:42, origin, local"))
    for wrong in ("telegram:43", "telegram", "all"):
        with pytest.raises((BadJob, NoHomeChannel)):
            await store.reports.check("me", parse_targets(wrong))
    job_id = await reported(store, clock, "telegram:42")
    assert await states(store, job_id) == [("telegram:42", DM, ReportState.WAITING)]


async def test_on_the_page_each_job_has_a_conversation(store: Store, clock: FakeClock):
    home = Address(platform=Platform.WEB, chat_type=DM.chat_type, chat_id="me")
    await store.owners.set_home("me", HomeChannel(address=home))
    first = await reported(store, clock, "web")
    second = await make(store, Once(clock.now() + HOUR), deliver="web")
    clock.advance(3600)
    await store.runs.finish(await claimed(store), "sun")
    assert await ready(store) == 0
    ((_, (one,)),) = await store.runs.history(first)
    ((_, (two,)),) = await store.runs.history(second.id)
    assert one.address is not None
    assert two.address is not None
    assert one.address.thread_id
    assert one.address != two.address


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


# Conditions

PAGE = Condition(ConditionKind.PAGE, "https://example.org/")


def sees(what: str) -> Seen:
    return Seen(digest=what, excerpt=f"it says {what}")


async def watching(store: Store, clock: FakeClock, **given: Any) -> Job:
    """A job that looks every hour, and has looked once."""
    job = await make(store, Every(HOUR, NOON), only_if=PAGE, **given)
    assert await store.runs.check(await claimed(store), sees("old")) is None
    return await store.jobs.found("me", job.id)


async def test_a_condition_is_looked_at_when_the_job_is_made_and_wakes_no_one(
    store: Store, clock: FakeClock
):
    job = await watching(store, clock)
    assert (job.seen, job.checks, job.checked) == (sees("old"), 1, NOON)
    assert (job.due, await store.runs.history(job.id)) == (NOON + HOUR, ())


async def test_looks_that_find_nothing_leave_no_runs_behind(store: Store, clock: FakeClock):
    job = await watching(store, clock, runs=1)
    for _ in range(3):
        clock.advance(3600)
        assert await store.runs.check(await claimed(store), sees("old")) is None
    after = await store.jobs.found("me", job.id)
    assert (after.checks, after.checked, after.runs) == (4, NOON + 3 * HOUR, 1)
    assert (after.state, await store.runs.history(job.id)) == (JobState.ENABLED, ())


async def test_a_change_wakes_the_agent_once(store: Store, clock: FakeClock):
    job = await watching(store, clock, runs=1)
    clock.advance(3600)
    claim = await store.runs.check(await claimed(store), sees("new"))
    assert claim is not None
    assert (claim.job.seen, claim.run.seen) == (sees("old"), sees("new"))
    assert (await store.jobs.found("me", job.id)).state is JobState.DONE  # that was its last run
    await store.runs.finish(claim, "news")
    after = await store.jobs.found("me", job.id)
    assert (after.seen, after.runs) == (sees("new"), 0)


async def test_a_change_whose_run_failed_is_noticed_again(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    for seen in ("new", "new"):
        clock.advance(3600)
        claim = await store.runs.check(await claimed(store), sees(seen))
        assert claim is not None
        await store.runs.fail(claim, "The model is offline.")
    assert (await store.jobs.found("me", job.id)).seen == sees("old")


async def test_a_run_whose_gateway_dies_after_the_look_still_knows_the_change(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await watching(store, clock)
    clock.advance(3600)
    dying = await open_store()
    assert await dying.runs.check(await claimed(dying), sees("new"))
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
    assert await hanging.runs.check(lost, sees("new")) is None
    assert (await store.jobs.found("me", job.id)).checks == 1
    assert len(await store.runs.history(job.id)) == 1


async def test_a_run_that_the_owner_asked_for_needs_no_change(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    clock.advance(60)
    await store.runs.ask("me", job.id)
    assert await store.runs.check(await claimed(store), sees("old"))


async def test_an_edited_condition_is_looked_at_afresh(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    clock.advance(3600)
    old = await claimed(store)
    file = Condition(ConditionKind.FILE, "/tmp/x")
    edited = await store.jobs.edit("me", job.id, replace(job, only_if=file))
    assert (edited.only_if, edited.seen, edited.checks) == (file, None, 0)
    assert await store.runs.check(old, sees("page")) is None  # it looked at the page
    assert (await store.jobs.found("me", job.id)).seen is None
    clock.advance(3600)
    assert await store.runs.check(await claimed(store), sees("file")) is None
    assert (await store.jobs.found("me", job.id)).seen == sees("file")


async def test_a_condition_that_fails_five_times_pauses_the_job(store: Store, clock: FakeClock):
    job = await watching(store, clock)
    for _ in range(MAX_FAILURES):
        clock.advance(3600)
        await store.runs.fail(await claimed(store), "There is no host 'example.org'.")
    assert (await store.jobs.found("me", job.id)).state is JobState.PAUSED


# Tokens


async def runs_with(store: Store, tokens: int) -> Claim:
    """Carry out a run that uses so many tokens."""
    claim = await claimed(store)
    lease = await store.leases.acquire(claim.session_id, "a gateway")
    await store.runs.begin(claim, lease, said("do it"))
    usage = Usage(input=tokens - 1, output=1)
    await store.transcripts.append(lease, [answered("done")], usage=usage)
    await store.leases.release(lease)
    await store.runs.finish(claim, None)
    return claim


async def test_a_job_without_tokens_left_is_skipped_until_tomorrow_with_one_notice(
    store: Store, clock: FakeClock
):
    await store.owners.set_home("me", HomeChannel(address=DM))
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
    assert await store.runs.claim() is None
    (run, (notice,)), *earlier = await store.runs.history(job.id)
    assert run.state is RunState.SKIPPED
    assert "used 120 tokens today, and may use 100" in notice.body
    assert [run.tokens for run, _ in earlier] == [60, 60]
    assert (await store.jobs.found("me", job.id)).due == NOON + 11 * HOUR  # midnight in Oslo
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
    await store.transcripts.append(lease, [said("and?"), answered("yes")], usage=usage)
    await store.leases.release(lease)
    clock.advance(3600)
    await runs_with(store, 10)
    assert [run.tokens for run, _ in await store.runs.history(job.id)] == [10, 60]


async def test_a_reminder_runs_whatever_its_tokens(store: Store, clock: FakeClock):
    job = await make(store, daily_tokens=1)
    await store.runs.ask("me", job.id)
    await runs_with(store, 60)
    clock.advance(3600)
    assert (await claimed(store)).run.due == NOON + HOUR


# Fallback


async def pass_on(store: Store) -> int:
    return sum([await store.reports.pass_on(report) for report in await store.reports.failed()])


async def fail_sending(store: Store, error: str = "The bot was blocked.") -> None:
    await ready(store)
    for sending in await store.outbox.claim(list(Platform)):
        await store.write(_finish, sending, OutgoingState.FAILED, error)


async def test_what_cannot_be_delivered_goes_to_the_next_home_once(store: Store, clock: FakeClock):
    for home in (DM, ROOM, CHANNEL):
        await store.owners.set_home("me", HomeChannel(address=home))
    job_id = await reported(store, clock, str(DM.platform), fallback=True)
    homes = [home.address for home in await store.owners.homes("me")]
    order = [DM, *(home for home in homes if home != DM)]
    for tried in range(1, len(order)):
        await fail_sending(store)
        assert await pass_on(store) == 1
        assert await pass_on(store) == 0
        ((_, reports),) = await store.runs.history(job_id)
        assert [report.address for report in reports] == order[: tried + 1]
        assert {report.state for report in reports[:-1]} == {ReportState.FAILED}
        assert reports[-1].instead_of == reports[-2].no
    await fail_sending(store)
    assert await pass_on(store) == 0  # every home was tried
    assert len(await store.reports.undelivered("me", NOON)) == 1


async def test_two_gateways_pass_a_report_on_once(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await store.owners.set_home("me", HomeChannel(address=home))
    job_id = await reported(store, clock, "slack", fallback=True)
    (report,) = await store.reports.failed()  # both have read it
    assert [await store.reports.pass_on(report) for _ in range(2)] == [True, False]
    assert len(await states(store, job_id)) == 2


async def test_a_message_that_is_never_sent_is_given_up_if_another_home_can_have_it(
    store: Store, clock: FakeClock
):
    for home in (DM, ROOM):
        await store.owners.set_home("me", HomeChannel(address=home))
    await store.gateways.announce("a gateway", [DM.platform])
    job_id = await reported(store, clock, "telegram", fallback=True)
    assert await store.reports.stranded(clock.now()) == ()  # made at this moment
    clock.advance(60)
    await store.gateways.announce("a gateway", [DM.platform])
    assert await store.reports.stranded(clock.now()) == ()  # it waits for the chat
    await ready(store)
    (report,) = await store.reports.stranded(clock.now())
    (sending,) = await store.outbox.claim([DM.platform])
    assert await store.reports.stranded(clock.now()) == ()  # it is on its way
    await store.outbox.retry(sending, "It is offline.", seconds=600)
    await store.reports.give_up(report)
    assert await pass_on(store) == 1
    assert [state for *_, state in await states(store, job_id)] == [
        ReportState.FAILED,
        ReportState.WAITING,
    ]
    clock.advance(600)
    assert await store.outbox.claim([DM.platform]) == ()


async def test_without_another_home_a_message_is_not_given_up(store: Store, clock: FakeClock):
    await store.owners.set_home("me", HomeChannel(address=DM))
    job_id = await reported(store, clock, "telegram", fallback=True)
    await ready(store)
    clock.advance(60)
    (report,) = await store.reports.stranded(clock.now())
    await store.reports.give_up(report)
    assert await states(store, job_id) == [("telegram", DM, ReportState.QUEUED)]


async def test_a_report_that_stands_in_says_why(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await store.owners.set_home("me", HomeChannel(address=home))
    await reported(store, clock, "slack", fallback=True)
    assert await pass_on(store) == 1
    await ready(store)
    (sending,) = await store.outbox.claim(list(Platform))
    assert sending.body.startswith("rain\n\n(It could not be delivered to slack: There is no home")
    binding = await store.bindings.get(sending.address)
    assert binding is not None
    last = (await store.transcripts.load(binding.session_id)).messages[-1]
    assert last.content == sending.body


async def test_without_a_fallback_what_cannot_be_delivered_stays_so(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await store.owners.set_home("me", HomeChannel(address=home))
    job_id = await reported(store, clock, "telegram")
    await fail_sending(store)
    assert await pass_on(store) == 0
    ((job, report),) = await store.reports.undelivered("me", NOON)
    assert (job.id, report.state, report.error) == (
        job_id,
        ReportState.FAILED,
        "The bot was blocked.",
    )
    assert await store.reports.undelivered("me", NOON + DAY) == ()
    await store.owners.ensure("you", "You")
    assert await store.reports.undelivered("you", NOON) == ()


async def test_a_report_is_not_sent_twice_to_a_home_that_has_it(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await store.owners.set_home("me", HomeChannel(address=home))
    await reported(store, clock, "slack, all", fallback=True)
    assert await pass_on(store) == 0


# Sessions


async def test_what_asks_no_agent_begins_no_session(store: Store, clock: FakeClock):
    await make(store, verbatim=True)
    await make(store, Once(NOON + 9 * HOUR), only_if=PAGE)
    assert await store.runs.check(await claimed(store), sees("old")) is None
    clock.advance(3600)
    assert await store.runs.finish(await claimed(store), "rain")
    assert await store.sessions.list("me") == ()
    clock.advance(8 * 3600)
    claim = await store.runs.check(await claimed(store), sees("new"))
    assert claim is not None
    assert [session.id for session in await store.sessions.list("me")] == [claim.session_id]


# Old runs


async def test_old_runs_are_forgotten_except_for_the_last_ones(store: Store, clock: FakeClock):
    job = await make(store, Every(HOUR, NOON))
    for _ in range(KEPT + 3):
        clock.advance(3600)
        await store.runs.finish(await claimed(store), "rain")
    assert await store.runs.prune(NOON) == 0
    assert await store.runs.prune(clock.now()) == 3
    kept = await store.runs.history(job.id, limit=100)
    assert len(kept) == KEPT
    assert kept[0][0].due == NOON + (KEPT + 3) * HOUR


async def test_a_look_while_the_clock_was_a_year_ahead_does_not_delay_the_next_one(
    store: Store, clock: FakeClock
):
    job = await make(store, Every(HOUR, NOON), only_if=PAGE)
    await store.runs.check(await claimed(store), sees("old"))
    clock.set_wall(NOON + 365 * DAY)
    await store.runs.check(await claimed(store), sees("old"))
    assert (await store.jobs.found("me", job.id)).due == NOON + 365 * DAY + HOUR
    clock.set_wall(NOON)
    assert await store.runs.claim() is None
    assert (await store.jobs.found("me", job.id)).due == NOON + HOUR
