"""Jobs in a gateway: they run by themselves, and what they report is part of the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import segue.approvals.questions
import segue.gateway.jobs
import segue.store
from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.approvals import queries as approvals
from segue.core.address import Address, Platform
from segue.core.errors import ModelOffline
from segue.core.session import ME
from segue.core.transcript import Role
from segue.jobs.queries import jobs, reports
from segue.jobs.queries import runs as stored_runs
from segue.jobs.schedule import Every, Once
from segue.jobs.values import (
    Condition,
    ConditionKind,
    Job,
    NewJob,
    Report,
    ReportState,
    Run,
    RunState,
    parse_targets,
)
from segue.store import Store, Topic, Tx, gateways, leases, owners, transcripts
from tests.gateway.test_approvals import question
from tests.harness.house import WITHIN, House, serve, texts
from tests.store.samples import answered, called, said
from tests.turns.conftest import call


async def make(house: House, prompt: str = "Look at the weather.", **given: Any) -> Job:
    """A job that is due next year."""
    at = given.pop("at", datetime.now(UTC) + timedelta(days=365))
    deliver = parse_targets(given.pop("deliver", "telegram"))
    schedule = given.pop("schedule", Once(at))
    new = NewJob(prompt=prompt, schedule=schedule, zone="UTC", deliver=deliver, **given)
    return await jobs.create(house.store, ME, new)


async def ended(house: House, job: Job, runs: int = 1) -> tuple[Run, tuple[Report, ...]]:
    """Wait until that many runs of the job have ended, and the reports of the last one."""
    unsettled = (ReportState.WAITING, ReportState.QUEUED)
    async with asyncio.timeout(WITHIN), house.store.listen(Topic.JOBS, Topic.SENT) as wake:
        while True:
            history = await stored_runs.history(house.store, job.id)
            for run, reports in history[: len(history) - runs + 1]:
                if run.finished and not any(report.state in unsettled for report in reports):
                    return run, reports
            await wake.wait(0.05)


async def run_now(house: House, job: Job) -> tuple[Run, tuple[Report, ...]]:
    await stored_runs.ask(house.store, ME, job.id)
    return await ended(house, job)


def now_due(tx: Tx) -> None:
    """Make every job due."""
    tx.change("UPDATE jobs SET due = :now WHERE state = 'enabled'", now=tx.now)
    tx.nudge(Topic.JOBS)


async def home(house: House) -> tuple[str, Address]:
    chat = await house.chat()
    return chat, await house.home(chat)


def heard(prompt: Prompt) -> str:
    """Tell what the agent has said before."""
    said = [m.content for m in prompt.messages if m.role is Role.ASSISTANT]
    asked = [m.content for m in prompt.messages if m.role is Role.USER]
    return f"before: {', '.join(said)} now: {asked[-1]}"


async def test_a_job_runs_when_it_is_due_and_reports_to_the_home_channel(house: House):
    chat, _ = await home(house)
    async with house.gateway(model=["It rains."]):
        job = await make(house, at=datetime.now(UTC) + timedelta(seconds=0.3))
        run, (report,) = await ended(house, job)
        await house.driver.message("It rains.", chat=chat)
    assert run.state is RunState.REPORTED
    assert report.state is ReportState.SENT
    assert run.started >= run.due


async def test_two_gateways_do_not_run_a_job_twice(house: House):
    chat, _ = await home(house)
    hourly = Every(timedelta(hours=1), datetime.now(UTC))
    rival = ScriptedModel(["It rains."] * 20)

    async def is_there() -> bool:
        return len(await gateways.alive(house.store)) == 2

    async with (
        house.gateway(model=["It rains."] * 20),
        await segue.store.open(house.url) as store,
        serve(store, house.settings, rival, [], is_there),
    ):
        jobs = [await make(house, schedule=hourly) for _ in range(12)]
        await house.store.write(now_due)
        for job in jobs:
            await ended(house, job)
        shown = await house.driver.look(chat)
        history = [await stored_runs.history(house.store, job.id) for job in jobs]
    assert [len(found) for found in history] == [1] * 12
    assert texts(shown) == ["It rains."] * 12
    assert len(rival.prompts) + len(house.model.prompts) == 12


async def test_the_agent_knows_what_it_reported_when_its_owner_replies(house: House):
    chat, address = await home(house)
    async with house.gateway(model=["It rains.", heard]):
        job = await make(house, name="weather")
        await run_now(house, job)
        await house.driver.say(house.anna, chat, "will it stop?")
        shown = await house.driver.until(lambda s: any("before:" in t for t in s.texts), chat=chat)
    assert "before: It rains. now: will it stop?" in texts(shown)
    transcript = await house.said((await house.session_at(address)).id)
    assert transcript[0][0] == "user"
    assert f'Job {job.id}, "weather"' in transcript[0][1]


async def test_a_later_run_knows_what_earlier_ones_reported(house: House):
    chat, _ = await home(house)
    async with house.gateway(model=["It rains.", heard]):
        job = await make(house)
        await run_now(house, job)
        await stored_runs.ask(house.store, ME, job.id)
        await house.driver.until(
            lambda s: any("before: It rains. now:" in t for t in s.texts), chat=chat
        )


async def test_a_run_with_nothing_to_report_delivers_nothing(house: House):
    await home(house)
    async with house.gateway(model=[call("nothing_to_report"), "[SILENT] nothing"]):
        run, reports = await run_now(house, await make(house))
        await house.idle()
        shown = await house.driver.look()
    assert (run.state, reports) == (RunState.SILENT, ())
    assert texts(shown) == []


async def test_a_marker_for_silence_in_the_text_swallows_no_report(house: House):
    chat, _ = await home(house)
    async with house.gateway(model=["[SILENT] The cellar is under water."]):
        run, (report,) = await run_now(house, await make(house))
        shown = await house.driver.look(chat)
    assert [text.replace("\\", "") for text in texts(shown)] == [report.body]
    assert report.body == "[SILENT] The cellar is under water."
    assert (run.state, report.state) == (RunState.REPORTED, ReportState.SENT)


async def test_only_runs_have_the_tool_for_silence(house: House):
    chat, _ = await home(house)
    offered: list[set[str]] = []

    def look(prompt: Prompt) -> str:
        offered.append({tool.name for tool in prompt.tools})
        return "looked"

    async with house.gateway(model=[look, look]):
        await run_now(house, await make(house))
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.until(lambda s: s.texts.count("looked") == 2, chat=chat)
    assert ["nothing_to_report" in names for names in offered] == [True, False]


async def test_a_reminder_is_delivered_as_it_is_and_needs_no_model(house: House):
    chat, _ = await home(house)
    async with house.gateway(model=[]):
        run, (report,) = await run_now(house, await make(house, "Call the bank.", verbatim=True))
        await house.driver.message("Call the bank.", chat=chat)
    assert (run.state, report.state) == (RunState.REPORTED, ReportState.SENT)


async def test_a_late_run_says_when_it_was_due(house: House):
    await home(house)
    job = await make(house, "Call.", verbatim=True, at=datetime.now(UTC) + timedelta(seconds=0.05))

    def late(tx: Any) -> None:
        tx.change("UPDATE jobs SET due = due - :hours", hours=2 * 3_600_000_000)

    await house.store.write(late)
    async with house.gateway(model=[]):
        run, (report,) = await ended(house, job)
    assert run.is_late
    assert "Call.\n\n(Due " in report.body


async def test_a_run_that_fails_is_reported_as_failed(house: House):
    chat, _ = await home(house)
    offline = ModelOffline(provider="scripted", url="x", reason="it is down")
    async with house.gateway(model=[offline]):
        run, (report,) = await run_now(house, await make(house))
        await house.driver.until(lambda s: any("Reminder: Look" in t for t in s.texts), chat=chat)
    assert run.state is RunState.FAILED
    assert run.error
    assert report.state is ReportState.SENT


async def test_a_report_without_a_place_is_recorded_as_not_delivered(house: House):
    async with house.gateway(model=["It rains."]):
        run, (report,) = await run_now(house, await make(house, deliver="slack"))
    assert run.state is RunState.REPORTED
    assert report.state is ReportState.FAILED
    assert "no home channel on slack" in (report.error or "")


async def test_a_run_asks_for_approval_where_it_delivers(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat, _ = await home(house)
    async with house.gateway(model=[call("shell", command=f"echo x >> {made}"), "done"]):
        job = await make(house)
        await stored_runs.ask(house.store, ME, job.id)
        await house.driver.press(house.anna, (await question(house, chat)).id, "Allow")
        run, _ = await ended(house, job)
    assert run.state is RunState.REPORTED
    assert made.read_text() == "x\n"


async def test_a_run_that_waits_for_an_approval_survives_a_restart(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat, _ = await home(house)
    command = call("shell", command=f"echo x >> {made}")
    async with house.gateway(model=[command]):
        job = await make(house)
        await stored_runs.ask(house.store, ME, job.id)
        asked = await question(house, chat)
    async with house.gateway(model=["done"]):
        await house.driver.press(house.anna, asked.id, "Allow")
        run, _ = await ended(house, job)
        await house.driver.message("done", chat=chat)
    assert run.state is RunState.REPORTED
    assert made.read_text() == "x\n"


async def test_a_question_of_a_run_waits_for_hours(house: House, tmp_path: Path):
    """Its owner did not choose the time."""
    chat, _ = await home(house)
    async with house.gateway(model=[call("shell", command=f"touch {tmp_path}/x"), "done"]):
        job = await make(house)
        await stored_runs.ask(house.store, ME, job.id)
        asked = await question(house, chat)
        found = await jobs.found(house.store, ME, job.id)
        waiting = await approvals.waiting(house.store, found.session_id or "")
        assert waiting is not None
        assert waiting.until > await house.store.read(lambda tx: tx.after(11 * 3600))
        await house.driver.press(house.anna, asked.id, "Deny")
        await ended(house, job)


async def test_a_question_that_cannot_be_delivered_is_not_waited_for(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segue.approvals.questions, "POLL_SECONDS", 0.02)
    nowhere = await house.home("!gone", "dm")
    async with house.gateway(model=[call("shell", command=f"touch {tmp_path}/x"), "not allowed"]):
        job = await make(house)
        assert nowhere.chat_id == "!gone"
        run, _ = await run_now(house, job)
    assert run.state is RunState.REPORTED
    assert not (tmp_path / "x").exists()


async def test_a_run_without_a_place_to_ask_is_denied(house: House, tmp_path: Path):
    made = tmp_path / "made"
    async with house.gateway(model=[call("shell", command=f"echo x >> {made}"), "not allowed"]):
        run, (report,) = await run_now(house, await make(house, deliver="local"))
    assert (run.state, report.state) == (RunState.REPORTED, ReportState.KEPT)
    assert not made.exists()


async def dies_in_a_run(house: House, *written: Any) -> Job:
    """Claim a run as a gateway that dies after it has `written` this in the job's session."""
    job = await make(house)
    await stored_runs.ask(house.store, ME, job.id)
    async with await segue.store.open(house.url) as dying:
        await _begin(dying, *written)
    return job


async def _begin(dying: Store, *written: Any) -> None:
    claim = await stored_runs.claim(dying)
    assert claim is not None
    lease = await leases.acquire(dying, claim.session_id, "a gateway")
    assert await stored_runs.begin(dying, claim, lease, said("[job] look"))
    if written:
        await transcripts.append(dying, lease, written)
    await leases.release(dying, lease)


async def test_the_next_gateway_continues_a_run(house: House):
    chat, _ = await home(house)
    job = await dies_in_a_run(house)
    async with house.gateway(model=["It rains."]):
        run, _ = await ended(house, job)
        await house.driver.message("It rains.", chat=chat)
    assert (run.state, run.attempt) == (RunState.REPORTED, 2)


async def test_an_answer_that_was_written_before_the_gateway_died_is_delivered_once(house: House):
    chat, _ = await home(house)
    job = await dies_in_a_run(house, answered("It rained."))
    async with house.gateway(model=[]):  # the model is not asked again
        _, (report,) = await ended(house, job)
        await house.driver.message("It rained.", chat=chat)
    assert report.body == "It rained."


async def test_a_tool_call_that_was_cut_off_is_not_repeated_and_the_report_says_so(house: House):
    await home(house)
    job = await dies_in_a_run(house, called("shell"))
    async with house.gateway(model=["I do not know whether it worked."]):
        _, (report,) = await ended(house, job)
    assert "interrupted while running `shell`" in report.body
    assert report.body.endswith("I do not know whether it worked.")


async def test_a_job_whose_chat_is_busy_reports_after_the_answer(house: House):
    chat, _ = await home(house)
    async with house.gateway(model=["first answer"]):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("first answer", chat=chat)
        await house.idle()
        address = await house.address(chat)
        lease = await leases.acquire(house.store, (await house.session_at(address)).id, "a test")
        job = await make(house, "Call.", verbatim=True)
        await stored_runs.ask(house.store, ME, job.id)
        async with asyncio.timeout(WITHIN), house.store.listen(Topic.JOBS) as wake:
            while not (waiting := await reports.waiting(house.store, [address.platform])):
                await wake.wait(0.05)
        assert [report.body for report in waiting] == ["Call."]
        await leases.release(house.store, lease)
        await house.driver.message("Call.", chat=chat)


# Conditions


async def watching(house: House, file: Path, **given: Any) -> Job:
    """A job that is asked about a change of `file`, and has looked at it once."""
    given.setdefault("only_if", Condition(ConditionKind.FILE, str(file)))
    job = await make(house, "What is new?", **given)
    return await until(house, job, lambda job: job.checks == 1)


async def until(house: House, job: Job, fits: Callable[[Job], bool]) -> Job:
    """Wait until the job fits."""
    async with asyncio.timeout(WITHIN), house.store.listen(Topic.JOBS) as wake:
        while not fits(found := await jobs.found(house.store, ME, job.id)):
            await wake.wait(0.05)
    return found


async def test_the_agent_is_asked_only_when_the_condition_holds(house: House, tmp_path: Path):
    await home(house)
    file = tmp_path / "news"
    file.write_text("old news")
    hourly = Every(timedelta(hours=1), datetime.now(UTC))
    asked: list[str] = []

    def look(prompt: Prompt) -> str:
        asked.append(prompt.messages[-1].content)
        return "There is news."

    async with house.gateway(model=[look]):
        job = await watching(house, file, schedule=hourly)
        await house.store.write(now_due)
        job = await until(house, job, lambda job: job.checks == 2)
        assert (await stored_runs.history(house.store, job.id), asked) == ((), [])
        assert job.session_id is None  # and no tokens
        file.write_text("new news")
        await house.store.write(now_due)
        run, (report,) = await ended(house, job)
    assert (run.state, report.body) == (RunState.REPORTED, "There is news.")
    assert "Before:]\n```\nold news\n```\n\n[Now:]\n```\nnew news\n```" in asked[0]


async def test_a_condition_and_a_text_that_is_delivered_as_it_is_need_no_model(
    house: House, tmp_path: Path
):
    chat, _ = await home(house)
    async with house.gateway(model=[]):
        await watching(house, tmp_path / "done", verbatim=True)
        (tmp_path / "done").touch()
        await house.store.write(now_due)
        await house.driver.message("What is new?", chat=chat)


async def test_a_condition_that_cannot_be_checked_is_a_failure_that_is_reported(house: House):
    await home(house)
    broken = Condition(ConditionKind.COMMAND, "exit 3")
    async with house.gateway(model=[]):
        job = await make(house, only_if=broken)
        run, (report,) = await ended(house, job)
    assert run.state is RunState.FAILED
    why = "Could not check whether the output of `exit 3` has changed ([exit code 3])."
    assert (run.error or "").startswith(why)
    assert (report.state, job.name in report.body) == (ReportState.SENT, True)


# What cannot be delivered


async def test_what_cannot_be_delivered_goes_to_the_next_home_and_both_attempts_are_shown(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segue.gateway.jobs, "CHECK_SECONDS", 0.05)
    chat, _ = await home(house)
    await house.home("C1", "channel", Platform.SLACK)
    async with house.gateway(model=["It rains."]):
        job = await make(house, deliver="slack:C2", fallback=True)
        await stored_runs.ask(house.store, ME, job.id)
        shown = await house.driver.until(
            lambda s: any(t.startswith("It rains.") for t in s.texts), chat=chat
        )
    assert "(It could not be delivered to slack:" in "".join(texts(shown))


async def test_a_platform_that_cannot_be_reached_is_given_up_in_favour_of_the_next_home(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segue.gateway.jobs, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(segue.gateway.jobs, "PATIENCE", timedelta())
    chat, _ = await home(house)
    await house.home("C1", "channel", Platform.SLACK)
    async with house.gateway(model=["It rains."]):
        job = await make(house, deliver="slack", fallback=True)
        await stored_runs.ask(house.store, ME, job.id)
        await house.driver.until(lambda s: any("It rains." in t for t in s.texts), chat=chat)
        _, reports = await ended(house, job)
    assert [(r.target, r.state) for r in reports] == [
        ("slack", ReportState.FAILED),
        ("telegram", ReportState.SENT),
    ]
    assert reports[0].error == "slack could not be reached in time."


# Commands


async def test_a_reminder_that_was_asked_for_in_a_chat_arrives_there(house: House):
    chat = await house.chat()
    async with house.gateway(model=[]):
        await house.driver.say(house.anna, chat, "/remind in 20 minutes Call the bank.")
        await house.driver.until(
            lambda s: any("It delivers to: the chat where you asked." in t for t in s.texts),
            chat=chat,
        )
        (job,) = await jobs.list_jobs(house.store, ME)
        assert job.due is not None
        assert timedelta(minutes=19) < job.due - datetime.now(UTC) <= timedelta(minutes=20)
        await house.driver.say(house.anna, chat, f"/jobs run {job.id}")
        await house.driver.message("Call the bank.", chat=chat)
        await ended(house, job)
        await house.driver.say(house.anna, chat, f"/jobs {job.id}")
        await house.driver.until(
            lambda s: any("sent to the chat where you asked" in t for t in s.texts), chat=chat
        )


async def test_jobs_are_listed_paused_resumed_and_deleted_in_a_chat(house: House):
    chat = await house.chat()
    job = await make(house, name="weather", deliver="local")

    async def types(command: str, answer: str) -> None:
        await house.driver.say(house.anna, chat, command)
        await house.driver.until(lambda s: any(answer in t for t in s.texts), chat=chat)

    async with house.gateway(model=[]):
        await types("/jobs", "weather; next ")
        await types(f"/jobs pause {job.id}", f"Paused job {job.id}")
        await types("/jobs", "weather; paused")
        await types(f"/jobs resume {job.id}", "It delivers to: its own session.")
        await types("/jobs stop 1", "unknown action")
        await types(f"/jobs delete {job.id}", f"Deleted job {job.id}.")
        await types("/jobs", "There are no jobs yet.")
        await types("/remind me", "it needs minutes or a time")


async def test_the_jobs_of_another_owner_are_out_of_reach(house: House):
    await owners.ensure(house.store, "eve", "Eve")
    chat = await house.chat()
    new = NewJob(
        prompt="Look.",
        schedule=Once(datetime.now(UTC) + timedelta(days=1)),
        zone="UTC",
        deliver=parse_targets("local"),
    )
    theirs = await jobs.create(house.store, "eve", new)
    async with house.gateway(model=[]):
        for command in ("", "pause ", "resume ", "run ", "delete "):
            await house.driver.say(house.anna, chat, f"/jobs {command}{theirs.id}")
        await house.driver.until(
            lambda s: sum("There is no job" in t for t in s.texts) == 5, chat=chat
        )
    assert await jobs.found(house.store, "eve", theirs.id) == theirs
