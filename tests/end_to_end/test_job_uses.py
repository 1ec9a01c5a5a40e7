"""The five uses in docs/jobs.md, as they are written there."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.core.address import Platform
from segue.core.session import ME
from segue.jobs.queries import jobs
from segue.jobs.values import ReportState, RunState
from segue.store import Topic
from segue.testing.http import Request, Response
from segue.testing.http import serving as serving_http
from tests.end_to_end.conftest import tool_call
from tests.end_to_end.test_drill import stops
from tests.end_to_end.test_jobs import (
    asked_last,
    ended,
    pass_time,
    reads,
    serving,
    until_due,
)
from tests.fakes.models.openai import Say
from tests.harness.household import WITHIN, Household
from tests.program import PATH
from tests.rigs import DiscordRig, TelegramRig

pytestmark = pytest.mark.parametrize("home", [TelegramRig], indirect=True)
DOCS = Path(__file__).parents[2] / "docs" / "jobs.md"
PRIVATE = "private_network = true\n"
"""A setting that lets the agent read pages on this machine."""


def use(words: str) -> str:
    """What the docs say to type for the use that is introduced with these words."""
    (typed,) = re.findall(rf"\*\*{words}.*?```\n(.*?)\n```", DOCS.read_text("utf-8"), re.DOTALL)
    return typed


async def add(home: Household, typed: str) -> int:
    """Type a `segue jobs add` and return the number of the job."""
    segue, *words = shlex.split(typed)
    assert segue == "segue"
    done = await home.shell(*words, "--json")
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = msgspec.json.decode(done.stdout)
    return made["id"]


async def checked(home: Household, job: int, times: int) -> None:
    """Wait until the condition of the job has been looked at so often."""
    async with asyncio.timeout(WITHIN), home.store.listen(Topic.JOBS) as wake:
        while (await jobs.found(home.store, ME, job)).checks < times:
            await wake.wait(0.05)


async def test_the_bread_in_the_oven(home: Household):
    await home.at_home(home.rig.dm)
    async with serving(home):
        await home.writes(use("The bread in the oven"))
        await home.sees("It delivers to: the chat where you asked.")
        await pass_time(home, 20)
        await reads(home, "Take the bread out of the oven.")
    assert home.model.requests == []


async def test_appointments_on_weekdays_at_8(home: Household):
    await home.at_home(home.rig.dm)
    home.person.environment["TZ"] = "Europe/Oslo"
    (home.person.cwd / "calendar.txt").write_text("10:00 dentist")
    home.model.plans += [
        tool_call("read_file", path="calendar.txt"),
        Say(text="The dentist at 10."),
    ]
    async with serving(home):
        job = await add(home, use("Appointments on weekdays"))
        found = await until_due(home, job)
        run, (report,) = await ended(home, job)
        await reads(home, "The dentist at 10.")
    assert (run.due, run.state) == (found.due, RunState.REPORTED)
    assert (report.target, report.state) == ("telegram", ReportState.SENT)
    assert "10:00 dentist" in str(home.model.requests[-1]["messages"])


async def test_a_page_that_changes(home: Household):
    shown = "Bus at 9:00"

    async def site(_: Request) -> Response:
        return Response(200, {"Content-Type": "text/plain"}, shown.encode())

    await home.at_home(home.rig.dm)
    async with serving_http(site) as url, serving(home, PRIVATE):
        job = await add(home, use("A page that").replace("https://example.org/timetable", url))
        await checked(home, job, 1)
        await pass_time(home, 30)
        await checked(home, job, 2)
        assert home.model.requests == [], "it costs no tokens"
        shown = "Bus at 9:15"
        home.model.plans.append(Say(text="The bus leaves at 9:15."))
        await pass_time(home, 30)
        await ended(home, job)
        await reads(home, "The bus leaves at 9:15.")
    assert "Bus at 9:15" in asked_last(home)[-1][1]


async def test_a_disk_that_fills_up(home: Household):
    await home.at_home(home.rig.dm)
    programs = home.person.cwd / "bin"
    programs.mkdir()
    home.person.environment["PATH"] = f"{programs}:{PATH}"

    def use_disk(percent: int) -> None:
        beside = programs / "new"
        beside.write_text(f"#!/bin/sh\nprintf 'Use%%\\n {percent}%%\\n'\n")
        beside.chmod(0o700)
        beside.rename(programs / "df")

    use_disk(40)
    async with serving(home):
        job = await add(home, use("A disk that fills up"))
        await checked(home, job, 1)
        use_disk(89)
        await pass_time(home, 10)
        await checked(home, job, 2)
        assert home.model.requests == []
        use_disk(93)
        home.model.plans.append(Say(text="The disk is full."))
        await pass_time(home, 10)
        await ended(home, job)
        await reads(home, "The disk is full.")


async def test_the_week_on_sunday_evening_everywhere(home: Household):
    home.person.environment["TZ"] = "Europe/Oslo"
    async with stops(home, [TelegramRig, DiscordRig]) as (phone, desk), home.gateway():
        home.model.plans += [tool_call("list_jobs"), Say(text="A quiet week.")]
        job = await add(home, use("The week on Sunday"))
        await until_due(home, job)
        run, reports = await ended(home, job)
        for place in (phone, desk):
            await reads(place, "A quiet week.")
            await place.writes(place.rig.addressed("was it?"))
            await place.sees("was it?")
            assert ("assistant", "A quiet week.") in asked_last(home)
    assert f"{run.due:%a}" == "Sun"
    assert {report.state for report in reports} == {ReportState.SENT}
    assert {report.address.platform for report in reports if report.address} == {
        *(Platform.TELEGRAM, Platform.DISCORD, Platform.WEB)
    }
