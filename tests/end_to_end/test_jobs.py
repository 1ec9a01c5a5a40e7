"""Jobs from the request to the reply, with real processes, on Telegram and the page."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from segue.core.address import Platform
from segue.core.session import ME
from segue.jobs.queries import jobs as stored_jobs
from segue.jobs.queries import runs as stored_runs
from segue.jobs.values import Job, Report, ReportState, Run, RunState
from segue.store import Topic, gateways
from segue.store.base import Tx
from segue.store.gateways import LinkState
from tests.end_to_end.conftest import tool_call, write
from tests.end_to_end.test_drill import WEB, page
from tests.fakes.models.openai import Say
from tests.harness.household import WITHIN, Gateway, Household
from tests.program import SharedClock
from tests.rigs import TelegramRig, View
from tests.web.browser import Browser

pytestmark = pytest.mark.parametrize("home", [TelegramRig], indirect=True)
BREAD = "Take the bread out of the oven."


def _nudge(tx: Tx) -> None:
    tx.nudge(Topic.JOBS)


async def pass_time(home: Household, minutes: float) -> None:
    """Advance the clock, and wait until the gateway has sent a heartbeat since."""
    home.advance(60 * minutes)
    await home.store.write(_nudge)
    async with asyncio.timeout(WITHIN), home.store.listen(Topic.HANDOFFS) as wake:
        while not await gateways.alive(home.store):
            await wake.wait(0.05)


@contextlib.asynccontextmanager
async def serving(home: Household, settings: str = "") -> AsyncGenerator[Gateway]:
    """A gateway that serves the phone and the page."""
    home.set_constants({"segue.gateway.service.HEARTBEAT_SECONDS": 0.2})
    write(home, settings + home.rig.settings() + WEB)
    async with home.gateway() as gateway:
        await home.until_link(LinkState.CONNECTED, Platform.WEB)
        yield gateway


async def jobs(home: Household, *words: str) -> Any:
    """Run `segue jobs` and return what it prints."""
    done = await home.shell("jobs", *words, "--json")
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


async def ended(home: Household, job: int, runs: int = 1) -> tuple[Run, tuple[Report, ...]]:
    """Wait until so many runs of the job have ended and their reports have arrived, and return the
    newest."""
    unsettled = (ReportState.WAITING, ReportState.QUEUED)
    async with asyncio.timeout(WITHIN), home.store.listen(Topic.JOBS, Topic.SENT) as wake:
        while True:
            history = await stored_runs.history(home.store, job)
            over = [
                run.finished and not any(report.state in unsettled for report in reports)
                for run, reports in history
            ]
            if len(over) >= runs and all(over):
                return history[0]
            await wake.wait(0.05)


async def reads(home: Household, text: str) -> None:
    """Wait until the phone shows exactly this message."""

    def found(view: View) -> bool:
        return any(message.text == text for message in home.spoken(view))

    await home.rig.until(found, home.chat)


def asked_last(home: Household) -> list[tuple[str, str]]:
    """What the model has heard in its last request, without the instructions."""
    heard = [request for request in home.model.requests if "tools" in request][-1]["messages"]
    return [(m["role"], m["content"]) for m in heard if m["role"] != "system"]


async def test_a_reminder_from_a_chat_arrives_there_and_the_agent_knows_it(home: Household):
    await home.at_home(home.rig.dm)
    async with serving(home):
        await home.writes(f"/remind 20 {BREAD}")
        await home.sees("It delivers to: the chat where you asked.")
        assert BREAD not in await home.texts()
        await pass_time(home, 20)
        await reads(home, BREAD)
        await home.writes("which bread?")
        await home.sees(") which bread?")
    assert asked_last(home)[-2:] == [("assistant", BREAD), ("user", "which bread?")]


async def test_a_job_from_the_command_line_reports_on_the_phone_and_is_stopped_there(
    home: Household,
):
    await home.at_home(home.rig.dm)
    async with serving(home):
        made = await jobs(home, "add", "--every", "60", "--deliver", "telegram", "Look outside.")
        assert len(made["next"]) == 3
        await pass_time(home, 60)
        run, (report,) = await ended(home, made["id"])
        assert (run.state, report.state) == (RunState.REPORTED, ReportState.SENT)
        await home.sees("Look outside.")
        await jobs(home, "edit", str(made["id"]), "--every", "120")
        await pass_time(home, 60)
        await home.answered()
        await pass_time(home, 60)
        await ended(home, made["id"], runs=2)
        await home.writes(f"/jobs delete {made['id']}")
        await home.sees(f"Deleted job {made['id']}.")
        await pass_time(home, 24 * 60)
        await home.answered()
    assert await stored_jobs.list_jobs(home.store, ME) == ()
    assert sum("Look outside." in text for text in await home.texts()) == 2


async def allow_on_the_page(browser: Browser, chat: str) -> str:
    """Allow what the agent asks for, and return the question."""
    asked = await browser.message("May I do this?")
    await browser.ask("press", chat=chat, message=asked["no"], data=asked["buttons"][0]["data"])
    await browser.message("✓ Allowed")
    await browser.ask("open", chat=chat)  # the answer may have come before that
    return asked["html"]


async def allow_on_the_phone(home: Household, number: int) -> str:
    """Allow what the agent asks for with that question, and return it."""
    question = await home.sees(f"This is question {number}.")
    await home.rig.press(home.anna, home.chat, question, "Allow")
    return question.text


async def until_due(home: Household, number: int) -> Job:
    """Pass the time until the job is due, and return it as it was before."""
    job = await stored_jobs.found(home.store, ME, number)
    assert job.due is not None
    clock = SharedClock(Path(home.person.environment["HOME"]) / "clock")
    await pass_time(home, (job.due - clock.now()).total_seconds() / 60 + 0.1)
    return job


async def test_a_job_is_asked_for_on_the_page_reports_on_the_phone_and_is_changed_and_stopped_there(
    home: Household,
):
    await home.at_home(home.rig.dm)
    home.person.environment["TZ"] = "Europe/Oslo"
    make = {"cron": "0 8 * * 1-5", "prompt": "Summarise my calendar.", "name": "calendar"}
    async with serving(home), page(home) as browser:
        chat = await browser.new()
        home.model.plans.append(tool_call("make_job", deliver=["telegram"], **make))
        await browser.ask("say", chat=chat, text="every weekday at 8, my calendar to my phone")
        question = await allow_on_the_page(browser, chat)
        assert question.count("08:00 (Europe/Oslo)") == 3
        assert "telegram" in question
        await browser.line(") every weekday at 8")
        (job,) = await stored_jobs.list_jobs(home.store, ME)
        # It reports on the phone, and the agent knows it there.
        home.model.plans.append(Say(text="Two meetings."))
        await until_due(home, job.id)
        run, (report,) = await ended(home, job.id)
        assert f"{run.due.astimezone(ZoneInfo('Europe/Oslo')):%H:%M}" == "08:00"
        assert report.state is ReportState.SENT
        await reads(home, "Two meetings.")
        await home.writes("why so early?")
        await home.sees(") why so early?")
        assert asked_last(home)[-2:] == [("assistant", report.body), ("user", "why so early?")]
        assert f'Job {job.id}, "calendar"' in asked_last(home)[-3][1]
        # It is changed there by words,
        home.model.plans.append(tool_call("change_job", number=job.id, cron="30 9 * * 1-5"))
        await home.writes("then at half past nine")
        assert "0 8 * * 1-5" in await allow_on_the_phone(home, 2)
        await home.sees(") then at half past nine")
        home.model.plans.append(Say(text="No meetings."))
        await until_due(home, job.id)
        run, _ = await ended(home, job.id, runs=2)
        assert f"{run.due.astimezone(ZoneInfo('Europe/Oslo')):%H:%M}" == "09:30"
        # and stopped.
        home.model.plans.append(tool_call("change_job", number=job.id, action="delete"))
        await home.writes("stop it")
        await allow_on_the_phone(home, 3)
        await home.sees(") stop it")
        await pass_time(home, 7 * 24 * 60)
        await home.answered()
    assert await stored_jobs.list_jobs(home.store, ME) == ()
    assert [text for text in await home.texts() if "meetings" in text] == [
        *("Two meetings.", "No meetings.")
    ]


async def test_a_reminder_from_the_page_arrives_there(home: Household):
    await home.at_home(home.rig.dm)
    async with serving(home), page(home) as browser:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text=f"/remind 20 {BREAD}")
        await browser.message("It delivers to: the chat where you asked.")
        await pass_time(home, 20)
        await browser.line(BREAD)
        await browser.ask("say", chat=chat, text="which bread?")
        await browser.line(") which bread?")
    assert asked_last(home)[-2:] == [("assistant", BREAD), ("user", "which bread?")]
    assert BREAD not in await home.texts()


async def test_a_gateway_that_hangs_in_a_run_reports_nothing_when_it_comes_back(home: Household):
    await home.at_home(home.rig.dm)
    home.model.hold("Look outside.")
    async with serving(home) as hanging:
        made = await jobs(home, "add", "--in", "60", "--deliver", "telegram", "Look outside.")
        await pass_time(home, 60)
        await home.model.hears("Look outside.")
        hanging.freeze()
        home.advance(60)  # its claim, its lease and its heartbeat expire
        async with serving(home):
            await home.model.hears("Look outside.", times=2)
            home.model.let_go()
            run, (report,) = await ended(home, made["id"])
            assert (run.state, run.attempt) == (RunState.REPORTED, 2)
            assert report.state is ReportState.SENT
            hanging.thaw()
            async with asyncio.timeout(WITHIN):
                while "run claimed by another gateway" not in home.log.read_text():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await home.answered()
    ((_, reports),) = await stored_runs.history(home.store, made["id"])
    assert reports == (report,)
    assert sum("Look outside." in text for text in await home.texts()) == 1
    assert "set aside" not in home.log.read_text()


async def test_a_tool_of_a_run_that_is_cut_off_is_not_used_again_and_the_report_says_so(
    home: Household,
):
    await home.at_home(home.rig.dm)
    begun = home.person.cwd / "begun"
    home.model.plans.append(tool_call("shell", command=f"echo x >> {begun}; sleep 600"))
    async with serving(home) as gateway:
        made = await jobs(home, "add", "--in", "60", "--deliver", "telegram", "Look outside.")
        await pass_time(home, 60)
        question = await home.sees("May I do this?")
        await home.rig.press(home.anna, home.chat, question, "Allow")
        async with asyncio.timeout(WITHIN):
            while not begun.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
        gateway.kill()
    async with serving(home):
        run, (report,) = await ended(home, made["id"])
    assert run.state is RunState.REPORTED
    assert "interrupted while running `shell`" in report.body
    assert begun.read_text() == "x\n"


async def test_a_job_keeps_its_time_zone_when_the_machine_gets_another(home: Household):
    await home.at_home(home.rig.dm)
    home.person.environment["TZ"] = "Europe/Oslo"
    async with serving(home):
        made = await jobs(home, "add", "--cron", "0 9 * * *", "--deliver", "telegram", "Look.")
    assert made["zone"] == "Europe/Oslo"
    home.person.environment["TZ"] = "Asia/Tokyo"
    async with serving(home):
        (found,) = await jobs(home)
        assert (found["zone"], found["next"]) == (made["zone"], made["next"])
        job = await until_due(home, made["id"])
        run, _ = await ended(home, made["id"])
    assert run.due == job.due
    assert not run.is_late
