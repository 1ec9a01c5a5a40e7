"""The agent's tools for jobs: what they ask the owner, and what they then store."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec import structs

from segue.agent.models.scripted import ScriptedModel
from segue.config import Approvals, ResetSettings
from segue.core import provenance
from segue.core.address import Address, ChatType, Delivery, HomeChannel, Platform
from segue.core.approval import Answer, Policy
from segue.core.context import Context
from segue.core.provenance import Author
from segue.core.session import Session
from segue.core.text import local_time
from segue.core.transcript import Role, ToolCall, spoken
from segue.jobs.queries import jobs, runs
from segue.jobs.schedule import Cron, Every, Once
from segue.jobs.service import unattended
from segue.jobs.values import (
    LOCAL,
    AllHomes,
    Condition,
    ConditionKind,
    Job,
    JobState,
    NewJob,
    RunState,
    next_times,
    parse_targets,
)
from segue.store import gateways, owners, transcripts
from segue.turns import Place
from tests.harness.approver import Approver
from tests.turns.conftest import Desk, SmallModel

CHAT = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")
OSLO = ZoneInfo("Europe/Oslo")


class Asking:
    """A chat whose agent calls tools for jobs, and whose owner allows it."""

    def __init__(self, desk: Desk, session: Session) -> None:
        self.desk = desk
        self.session = session
        self.person = Approver(always=Answer.ONCE)
        self.settings: dict[str, Any] = {"reset": ResetSettings(zone=OSLO)}
        self.model = ScriptedModel

    async def __call__(
        self, tool: str, /, *, place: Address | None = CHAT, run: Job | None = None, **given: Any
    ) -> str:
        """The result of a tool call. `place` None is the terminal, `run` the job of a run."""
        context = Context(source=place) if place else Place().context
        here = Place(context=context, approve=self.person, unattended=run and unattended(run))
        script = [ToolCall("c1", tool, json.dumps(given)), "Ok."]
        async with self.desk.turns(self.model(script), **self.settings) as turns:
            async for _ in turns.take_turn(self.session.id, "go", here):
                pass
        transcript = await transcripts.load(self.desk.store, self.session.id)
        return next(m.content for m in reversed(list(transcript)) if m.role is Role.TOOL)

    @property
    def question(self) -> str:
        """What the owner was asked last."""
        return self.person.asked[-1]

    async def jobs(self) -> list[Job]:
        return list(await jobs.list_jobs(self.desk.store, "me"))

    async def job(self) -> Job:
        (job,) = await self.jobs()
        return job


@pytest.fixture
def ask(desk: Desk, session: Session, runner: asyncio.Runner) -> Asking:
    """Asks while a gateway is present, which never claims anything."""
    runner.run(gateways.announce(desk.store, "a gateway", [], seconds=3600))
    return Asking(desk, session)


async def made(ask: Asking, **changes: Any) -> Job:
    """A job that is due every weekday."""
    new = NewJob(
        prompt="Look at the weather.",
        schedule=Cron("0 8 * * 1-5", OSLO),
        zone="Europe/Oslo",
        deliver=(Delivery(),),
        name="weather",
        origin=CHAT,
    )
    return await jobs.create(ask.desk.store, "me", structs.replace(new, **changes))


# Making


async def test_a_reminder_is_shown_and_stored_as_it_was_shown(ask: Asking):
    before = datetime.now(UTC)
    result = await ask("make_job", prompt="Call the bank.", in_minutes=20, verbatim=True)
    job = await ask.job()
    due = local_time(job.due or before, "Europe/Oslo")
    assert isinstance(job.schedule, Once)
    assert timedelta(minutes=20) <= job.schedule.at - before < timedelta(minutes=21)
    assert (job.verbatim, job.deliver, job.origin) == (True, (Delivery(),), CHAT)
    for text in (ask.question, result):
        assert f"once, {due}" in text
        assert "elivers to: the chat where you asked" in text
    assert ask.question.endswith("delivers this text:\nCall the bank.")
    assert result.startswith("Made.\nJob 1, 'Call the bank.'")


async def test_a_job_inherits_the_authors_of_everything_that_was_read(ask: Asking):
    await ask("make_job", prompt="Call the bank.", in_minutes=20, verbatim=True)
    assert (await ask.job()).provenance == provenance.OWNER | provenance.AGENT
    forwarded = spoken("> Look!", datetime.now(UTC), provenance.STRANGER)
    await ask.desk.take(["I see."], ask.session, forwarded)
    await ask("change_job", number=1, prompt="Call Eve.")
    read = provenance.OWNER | provenance.AGENT | provenance.STRANGER | {Author.TOOL}
    assert (await ask.job()).provenance == read
    ask.model = SmallModel
    await ask("remind", text="Call Eve.", in_minutes=20)
    assert [job.provenance for job in await ask.jobs()] == [read, read]


async def test_the_question_and_the_result_spell_out_the_next_three_times(ask: Asking):
    result = await ask("make_job", prompt="News.", cron="0 8 * * 1-5", name="news")
    job = await ask.job()
    assert job.schedule == Cron("0 8 * * 1-5", OSLO)
    times = [local_time(due, "Europe/Oslo") for due in next_times(job, job.due)]
    assert len(times) == 3
    for text in (ask.question, result):
        assert all(f"{time}" in text and "(Europe/Oslo)" in time for time in times)
    assert "'news'" in ask.question
    assert ask.question.endswith("asks the agent:\nNews.")


async def test_the_question_shows_all_that_the_job_may_do(ask: Asking):
    await ask(
        "make_job",
        prompt="Tell me what is new.",
        every_minutes=60,
        zone="Asia/Tokyo",
        until="2999-01-01 09:00",
        runs=5,
        only_if={"kind": "page", "target": "https://example.org/news"},
        allows=["git fetch", "write_file"],
        may_change_jobs=True,
        fallback=True,
        daily_tokens=5000,
        model="other/model",
        deliver=["origin", "local"],
    )
    job = await ask.job()
    assert isinstance(job.schedule, Every)
    assert job.schedule.interval == timedelta(hours=1)
    assert job.only_if == Condition(ConditionKind.PAGE, "https://example.org/news")
    assert job.allows == ("git fetch", "write_file")
    assert (job.may_change_jobs, job.fallback, job.daily_tokens) == (True, True, 5000)
    assert (job.runs, job.model, job.zone) == (5, "other/model", "Asia/Tokyo")
    assert job.until == datetime(2999, 1, 1, tzinfo=UTC)
    assert job.deliver == parse_targets("origin, local")
    for shown in (
        "every 60 minutes",
        "(Asia/Tokyo)",
        "Tue 2999-01-01 09:00",
        "https://example.org/news has changed",
        "git fetch, write_file",
        "may make and change jobs",
        "other home channels",
        "5,000 tokens",
        "other/model",
        "the chat where you asked, its own session",
    ):
        assert shown in ask.question, ask.question


async def test_what_the_owner_denies_is_not_made(ask: Asking):
    ask.person = Approver(Answer.NEVER)
    await ask("make_job", prompt="Call the bank.", in_minutes=20)
    assert len(ask.person.asked) == 1
    assert await ask.jobs() == []


async def test_no_value_hides_or_imitates_another_in_the_question(ask: Asking):
    forged = "x\nmay do without asking: nothing"
    await ask("make_job", prompt="Call\u202e.", in_minutes=20, name=forged, model=forged)
    assert ask.question.count("\nmay do without asking: ") == 1
    assert ask.question.endswith("asks the agent:\nCall\\u202e.")
    await ask("change_job", number=1, name="bank")
    assert "name: 'bank' (was: 'x may do without asking: nothing')" in ask.question


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "give exactly one of"),
        ({"in_minutes": 5, "cron": "0 8 * * *"}, "give exactly one of"),
        ({"at": "tomorrow"}, "'tomorrow' is not a time"),
        ({"at": "2001-01-01 09:00"}, "Its time is over"),
        ({"cron": "0 8"}, "a cron expression has five fields"),
        ({"every_minutes": 0.5}, "from 1 minute to 366 days"),
        ({"at": "09:00", "zone": "Oslo"}, "there is no time zone 'Oslo'"),
    ],
)
async def test_a_bad_time_is_refused_with_how_to_write_one(
    ask: Asking, arguments: dict[str, Any], reason: str
):
    result = await ask("make_job", prompt="Call the bank.", **arguments)
    assert reason in result
    assert "Give exactly one of in_minutes (20), at (2026-11-18 09:00" in result
    assert ask.person.asked == []
    assert await ask.jobs() == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"deliver": ["fax"]}, "Use origin, local"),
        ({"deliver": ["slack"]}, "No home channel on slack"),
        ({"deliver": ["telegram:99"]}, "telegram:99 is not one of your chats"),
        ({"allows": ["rm *"]}, "would allow nothing"),
        ({"only_if": {"kind": "mood", "target": "x"}}, "Invalid enum value 'mood'"),
        ({"until": "later"}, "'later' is not a time"),
        ({"when": "later"}, "unknown field `when`"),
    ],
)
async def test_a_bad_value_is_refused_before_the_owner_is_asked(
    ask: Asking, arguments: dict[str, Any], reason: str
):
    result = await ask("make_job", prompt="Call the bank.", in_minutes=5, **arguments)
    assert reason in result
    assert ask.person.asked == []
    assert await ask.jobs() == []


async def test_a_job_is_refused_when_no_gateway_could_run_it(desk: Desk, session: Session):
    ask = Asking(desk, session)
    result = await ask("make_job", prompt="Call the bank.", in_minutes=20)
    assert result.startswith("No gateway is running, so no job can run. Type `segue gateway start`")
    assert (ask.person.asked, await ask.jobs()) == ([], [])


async def test_in_the_terminal_a_job_delivers_to_the_home_channels_or_only_to_its_session(
    ask: Asking,
):
    await ask("make_job", place=None, prompt="Call the bank.", in_minutes=20)
    assert (await ask.job()).deliver == (LOCAL,)
    await owners.set_home(ask.desk.store, "me", HomeChannel(address=CHAT, name="Home"))
    await ask("make_job", place=None, prompt="Call the bank.", in_minutes=10)
    first, _ = await ask.jobs()
    assert (first.deliver, first.origin) == ((AllHomes(),), None)
    result = await ask("make_job", place=None, prompt="x", in_minutes=10, deliver=["origin"])
    assert "Nothing can be delivered in the terminal" in result


# Approvals


async def test_what_a_job_may_do_is_shown_even_if_nothing_else_is_asked(ask: Asking):
    ask.settings["approvals"] = Approvals(policy=Policy.AUTO)
    await ask("make_job", prompt="Call the bank.", in_minutes=20)
    assert ask.person.asked == []
    await ask("make_job", prompt="Tidy up.", in_minutes=20, may_change_jobs=True)
    assert "may make and change jobs" in ask.question
    await ask("make_job", prompt="Tidy up.", in_minutes=20, allows=["shell"])
    assert "shell" in ask.question
    await ask("change_job", number=1, may_change_jobs=True)
    condition = {"kind": "command", "target": "curl example.org"}
    await ask("change_job", number=1, may_change_jobs=False, only_if=condition)
    assert "curl example.org" in ask.question
    assert len(ask.person.asked) == 4
    ask.person = Approver(Answer.NEVER)
    await ask("change_job", number=1, allows=["shell"])
    assert (await jobs.found(ask.desk.store, "me", 1)).allows == ()


async def test_an_approval_for_the_session_covers_the_same_job_only(ask: Asking):
    ask.person = Approver(Answer.SESSION, Answer.ONCE, Answer.ONCE)
    await ask("make_job", prompt="News.", cron="0 8 * * *")
    await ask("make_job", prompt="News.", cron="0 8 * * *")
    assert len(ask.person.asked) == 1
    await ask("make_job", prompt="News.", cron="0 9 * * *")
    elsewhere = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="43")
    await ask("make_job", place=elsewhere, prompt="News.", cron="0 8 * * *")
    assert len(ask.person.asked) == 3


# Changing


async def test_a_change_shows_what_was_and_what_will_be(ask: Asking):
    job = await made(ask)
    result = await ask("change_job", number=job.id, cron="30 9 * * *")
    changed = await ask.job()
    assert changed.schedule == Cron("30 9 * * *", OSLO)
    assert (changed.prompt, changed.name) == (job.prompt, "weather")
    assert "change job 1, 'weather'" in ask.question
    assert "cron 30 9 * * * (Europe/Oslo) (was: cron 0 8 * * 1-5 (Europe/Oslo))" in ask.question
    for due in next_times(changed, changed.due):
        assert local_time(due, "Europe/Oslo") in ask.question
        assert local_time(due, "Europe/Oslo") in result


async def test_what_is_not_given_stays_and_what_is_removed_goes(ask: Asking):
    condition = Condition(ConditionKind.FILE, "/tmp/x")
    job = await made(ask, only_if=condition, until=datetime(2999, 1, 1, tzinfo=UTC))
    await ask("change_job", number=job.id, prompt="Look at the sea.", remove=["until"])
    changed = await ask.job()
    assert "until: none (was: Tue 2999-01-01 01:00 (Europe/Oslo))" in ask.question
    assert (changed.prompt, changed.until) == ("Look at the sea.", None)
    assert (changed.only_if, changed.schedule, changed.allows) == (condition, job.schedule, ())


async def test_origin_is_the_chat_where_the_change_is_asked_for(ask: Asking):
    job = await made(ask, deliver=(LOCAL,))
    elsewhere = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="43")
    await ask("change_job", place=elsewhere, number=job.id, prompt="Look at the sea.")
    assert (await ask.job()).origin == CHAT
    await ask("change_job", place=elsewhere, number=job.id, deliver=["origin"])
    assert "delivers to: the chat where you asked (was: its own session)" in ask.question
    assert "you asked in" not in ask.question, "it is the chat of the question"
    assert (await ask.job()).origin == elsewhere


async def test_a_job_is_paused_resumed_run_and_deleted(ask: Asking):
    job = await made(ask)
    assert "Paused." in await ask("change_job", number=job.id, action="pause")
    assert ask.question.startswith("pause job 1, 'weather'\nmay do without asking: nothing")
    assert (await ask.job()).state is JobState.PAUSED
    result = await ask("change_job", number=job.id, action="resume")
    job = await ask.job()
    for due in next_times(job, job.due):
        assert local_time(due, "Europe/Oslo") in result
        assert local_time(due, "Europe/Oslo") in ask.question
    assert (await ask.job()).state is JobState.ENABLED
    await ask("change_job", number=job.id, action="run")
    ((run, _),) = await runs.history(ask.desk.store, job.id)
    assert run.state is RunState.WAITING
    assert "is running now" in await ask("change_job", number=job.id, action="delete")
    claim = await runs.claim(ask.desk.store)
    assert claim is not None
    await runs.finish(ask.desk.store, claim, None)
    assert await ask("change_job", number=job.id, action="delete") == "Deleted job 1."
    assert ask.question.startswith("delete job 1, 'weather'")
    assert await ask.jobs() == []


async def test_an_action_and_new_values_are_two_calls(ask: Asking):
    job = await made(ask)
    result = await ask("change_job", number=job.id, action="pause", prompt="x")
    assert result == "Give either new values or an action."
    assert await ask("change_job", number=job.id) == result
    assert await ask.job() == job


@pytest.mark.parametrize("arguments", [{"prompt": "Mine."}, {"action": "delete"}])
async def test_a_job_that_was_changed_during_the_question_is_left_alone(
    ask: Asking, arguments: dict[str, Any]
):
    job = await made(ask)
    changed = structs.replace(job, prompt="Other.")

    class Slow(Approver):
        async def __call__(self, *asked: Any) -> Answer:
            await jobs.edit(ask.desk.store, "me", job.id, changed)
            return await super().__call__(*asked)

    ask.person = Slow(Answer.ONCE)
    result = await ask("change_job", number=job.id, **arguments)
    assert "was changed in the meantime, so nothing was done" in result
    assert (await ask.job()).prompt == "Other."


async def test_another_owners_job_does_not_exist(ask: Asking):
    await owners.ensure(ask.desk.store, "other", "Other")
    job = await made(ask)
    theirs = await jobs.create(ask.desk.store, "other", job)
    for tool in ("list_jobs", "change_job"):
        result = await ask(tool, number=theirs.id)
        assert result == f"There is no job {theirs.id}. Call list_jobs to see them."
    assert f" {theirs.id}  " not in await ask("list_jobs")


# Small models


async def test_a_small_model_has_one_tool_for_reminders(ask: Asking):
    ask.model = SmallModel
    result = await ask("remind", in_minutes=20, text="Call the bank.")
    job = await ask.job()
    assert isinstance(job.schedule, Once)
    assert (job.prompt, job.verbatim, job.origin) == ("Call the bank.", True, CHAT)
    assert local_time(job.schedule.at, "Europe/Oslo") in ask.question
    assert local_time(job.schedule.at, "Europe/Oslo") in result
    assert "`in_minutes`" in await ask("remind", text="Call the bank.")
    run = await ask("remind", run=job, in_minutes=20, text="Call the bank.")
    assert run.startswith("There is no tool 'remind'.")
    assert run.endswith("There are: read_file, list_files, shell, nothing_to_report.")


# Looking


async def test_jobs_are_listed_without_asking_with_the_runs_of_one(ask: Asking):
    assert await ask("list_jobs") == "There are no jobs."
    job = await made(ask)
    await runs.ask(ask.desk.store, "me", job.id)
    claim = await runs.claim(ask.desk.store)
    assert claim is not None
    await runs.finish(ask.desk.store, claim, "It rains\nall day.")
    assert "1  weather; next " in await ask("list_jobs")
    shown = await ask("list_jobs", number=job.id)
    assert "schedule: cron 0 8 * * 1-5 (Europe/Oslo)" in shown
    assert "waiting for the chat where you asked" in shown
    assert "It rains all day." in shown
    assert ask.person.asked == []


# Runs


async def test_the_run_of_a_job_cannot_change_jobs(ask: Asking):
    job = await made(ask)
    for name in ("make_job", "change_job"):
        result = await ask(name, run=job, number=job.id)
        assert result.startswith(f"There is no tool '{name}'.")
    assert "weather" in await ask("list_jobs", run=job)


async def test_the_run_of_a_job_changes_jobs_if_its_owner_allowed_that(ask: Asking):
    job = await made(ask, may_change_jobs=True)
    await ask("change_job", run=job, number=job.id, prompt="Look at the sea.")
    assert "may make and change jobs" in ask.question
    assert (await ask.job()).prompt == "Look at the sea."


async def test_a_run_cannot_make_a_job_that_may_do_more_without_asking(ask: Asking):
    job = await made(ask, may_change_jobs=True, allows=("make_job",))
    await ask("make_job", run=job, prompt="Look.", in_minutes=20)
    assert ask.person.asked == []
    await ask("make_job", run=job, prompt="Look.", in_minutes=20, allows=["shell"])
    assert "may do without asking: shell" in ask.question
