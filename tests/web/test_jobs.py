"""The page's view of jobs: listed, switched, run and deleted, by their owner only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import structs

from segue.core.address import Platform
from segue.core.session import ME
from segue.core.text import local_time
from segue.jobs.queries import jobs, runs
from segue.jobs.schedule import Cron, Once
from segue.jobs.values import LOCAL, JobState, NewJob, next_times, parse_targets
from segue.store import Store, gateways, owners
from tests.web.bare_server import Door
from tests.web.browser import Browser
from tests.web.conftest import Site

NEWS = NewJob(
    prompt="Summarise\nthe news.",
    schedule=Cron("0 8 * * 1-5", ZoneInfo("Europe/Oslo")),
    zone="Europe/Oslo",
    deliver=(LOCAL,),
    name="news",
)


async def listed(browser: Browser, wanted: Any = None) -> list[dict[str, Any]]:
    """The jobs that the page is shown next, such that `wanted` holds for the first."""
    told = await browser.until("jobs", wanted and (lambda t: t["jobs"] and wanted(t["jobs"][0])))
    return told["jobs"]


async def finish(store: Store, number: int, report: str | None) -> None:
    """Run the job, as a gateway does."""
    await runs.ask(store, ME, number)
    claim = await runs.claim(store)
    assert claim is not None
    await runs.finish(store, claim, report)


async def test_jobs_are_listed_with_their_next_times_and_last_result(door: Door):
    job = await jobs.create(door.store, ME, NEWS)
    async with door.browser(await door.key()) as browser:
        await browser.ask("jobs")
        (shown,) = await listed(browser)
        assert shown["next"] == [local_time(due, "Europe/Oslo") for due in next_times(job, job.due)]
        assert (shown["name"], shown["state"], shown["prompt"]) == (
            "news",
            "enabled",
            "Summarise\nthe news.",
        )
        assert ["schedule", "cron 0 8 * * 1-5 (Europe/Oslo)"] in shown["facts"]
        assert ["delivers to", "its own session"] in shown["facts"]
        assert (shown["last"], shown["at"], shown["lamp"]) == (None, None, "")
        await finish(door.store, job.id, "It rains.")
        (shown,) = await listed(browser, lambda job: job["lamp"] == "good")
        assert shown["last"] == "kept in its own session"
        assert shown["at"]
        assert shown["session"] == (await jobs.found(door.store, ME, job.id)).session_id


async def test_a_report_that_did_not_arrive_is_marked(door: Door):
    job = await jobs.create(door.store, ME, structs.replace(NEWS, deliver=parse_targets("slack")))
    await finish(door.store, job.id, "It rains.")
    async with door.browser(await door.key()) as browser:
        await browser.ask("jobs")
        (shown,) = await listed(browser)
    assert shown["lamp"] == "bad"
    assert shown["last"].startswith("not delivered to slack (There is no home channel")


async def test_a_failed_run_is_marked(door: Door):
    job = await jobs.create(door.store, ME, NEWS)
    await runs.ask(door.store, ME, job.id)
    async with door.browser(await door.key()) as browser:
        await browser.ask("jobs")
        await listed(browser, lambda job: job["lamp"] == "busy")
        claim = await runs.claim(door.store)
        assert claim is not None
        await runs.fail(door.store, claim, "The model is offline.")
        (shown,) = await listed(browser, lambda job: job["lamp"] == "bad")
        assert shown["last"] == "failed: The model is offline."


async def test_a_job_is_paused_resumed_run_and_deleted(door: Door):
    await gateways.announce(door.store, "the gateway of the page", [Platform.WEB])
    job = await jobs.create(door.store, ME, NEWS)
    async with door.browser(await door.key()) as browser:

        async def ask(action: str, outcome: str = "taken") -> dict[str, Any]:
            key = await browser.ask("job", number=job.id, action=action)
            return await browser.until(outcome, key=key)

        await ask("pause")
        assert (await jobs.found(door.store, ME, job.id)).state is JobState.PAUSED
        await ask("resume")
        assert (await jobs.found(door.store, ME, job.id)).state is JobState.ENABLED
        await ask("run")
        claim = await runs.claim(door.store)
        assert claim is not None
        assert "is running now" in (await ask("delete", "refused"))["reason"]
        await runs.finish(door.store, claim, None)
        await ask("delete")
    assert await jobs.list_jobs(door.store, ME) == ()


async def test_a_job_stays_in_its_place_when_it_is_switched_off(door: Door):
    first = await jobs.create(door.store, ME, NEWS)
    second = await jobs.create(door.store, ME, NEWS)
    async with door.browser(await door.key()) as browser:
        await browser.ask("jobs")
        await listed(browser)
        await browser.ask("job", number=first.id, action="pause")
        shown = await listed(browser, lambda job: job["state"] == "paused")
        assert [job["number"] for job in shown] == [first.id, second.id]


async def test_a_change_made_elsewhere_is_shown(door: Door):
    job = await jobs.create(door.store, ME, NEWS)
    async with door.browser(await door.key()) as browser:
        await browser.ask("jobs")
        await listed(browser)
        await jobs.pause(door.store, ME, job.id)
        (shown,) = await listed(browser, lambda job: job["state"] == "paused")
        assert shown["next"] == []


async def test_jobs_of_another_owner_are_neither_shown_nor_changed(door: Door):
    await gateways.announce(door.store, "the gateway of the page", [Platform.WEB])
    await owners.ensure(door.store, "eve", "Eve")
    theirs = await jobs.create(door.store, "eve", NEWS)
    async with door.browser(await door.key()) as browser:
        await browser.ask("jobs")
        assert await listed(browser) == []
        for action in ("pause", "resume", "run", "delete"):
            key = await browser.ask("job", number=theirs.id, action=action)
            refused = await browser.until("refused", key=key)
            assert "There is no job" in refused["reason"]
    assert (await jobs.found(door.store, "eve", theirs.id)).state is JobState.ENABLED
    assert await runs.history(door.store, theirs.id) == ()


async def test_an_unknown_action_is_refused(door: Door):
    job = await jobs.create(door.store, ME, NEWS)
    async with door.browser(await door.key()) as browser:
        await browser.ask("job", number=job.id, action="edit")
        refused = await browser.until("refused")
        assert "This page does not match its server" in refused["reason"]
    assert await jobs.found(door.store, ME, job.id) == job


async def test_reminders_are_made_and_delivered_in_a_conversation_on_the_page(site: Site):
    async with site.gateway(), site.browser() as browser:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="/remind 20 Call the bank.")
        await browser.message("It delivers to: the chat where you asked.")
        (job,) = await jobs.list_jobs(site.store, ME)
        assert isinstance(job.schedule, Once)
        assert job.schedule.at > datetime.now(UTC)
        await browser.ask("say", chat=chat, text="/jobs")
        await browser.message("Call the bank.; next")
        await browser.ask("say", chat=chat, text=f"/jobs run {job.id}")
        await browser.line("Call the bank.")
