"""Jobs by words in a chat: asked for, reported, changed in a reply, and stopped."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from zoneinfo import ZoneInfo

from segue.agent.models.base import Prompt
from segue.core.address import Delivery
from segue.core.session import ME
from segue.core.transcript import Role, ToolCall
from segue.jobs.queries import jobs, runs
from segue.jobs.schedule import Cron, Every
from segue.jobs.values import Job, RunState
from tests.gateway.test_approvals import numbered, settled
from tests.gateway.test_jobs import ended
from tests.harness.house import House, texts
from tests.turns.conftest import call


def reported(prompt: Prompt) -> int:
    """The number of the job whose report came last, as the agent reads it."""
    asked = [m.content for m in prompt.messages if m.role is Role.USER]
    (number,) = re.findall(r"^\[Job (\d+), .* reports here:\]$", "\n".join(asked), re.MULTILINE)
    return int(number)


def change(prompt: Prompt, **given: str) -> ToolCall:
    return ToolCall("c", "change_job", json.dumps({"number": reported(prompt), **given}))


def later(prompt: Prompt) -> ToolCall:
    return change(prompt, cron="0 9 * * *", zone="Europe/Oslo")


def stop(prompt: Prompt) -> ToolCall:
    return change(prompt, action="delete")


async def only_job(house: House) -> Job:
    (job,) = await jobs.list_jobs(house.store, ME)
    return job


async def allow(house: House, chat: str, words: str) -> str:
    """Allow the question that shows these words, and return what it shows."""
    shown = await house.driver.until(lambda s: any(words in text for text in s.texts), chat=chat)
    asked = next(m for m in shown.messages if words in m.text)
    await house.driver.press(house.anna, asked.id, "Allow")
    return asked.text


async def test_a_job_is_made_reported_changed_and_stopped_by_words(house: House):
    chat = await house.chat()
    make = call("make_job", prompt="Look at the sky.", every_minutes=60)
    script = [make, "I will.", "It rains.", later, "At nine, then.", stop, "Stopped."]
    async with house.gateway(model=script):
        await house.driver.say(house.anna, chat, "tell me the weather every hour")
        question = await allow(house, chat, "every 60 minutes")
        assert "delivers to: the chat where you asked" in question
        assert "Look at the sky." in question
        await house.driver.message("I will.", chat=chat)
        job = await only_job(house)
        assert isinstance(job.schedule, Every)
        assert job.schedule.interval == timedelta(hours=1)
        assert job.deliver == (Delivery(),)

        await runs.ask(house.store, ME, job.id)
        run, _ = await ended(house, job)
        assert run.state is RunState.REPORTED
        await house.driver.message("It rains.", chat=chat)

        await house.driver.say(house.anna, chat, "every day at nine is enough")
        question = await allow(house, chat, "(was: every 60 minutes)")
        assert "cron 0 9 * * * (Europe/Oslo)" in question
        await house.driver.message("At nine, then.", chat=chat)
        job = await only_job(house)
        assert job.schedule == Cron("0 9 * * *", ZoneInfo("Europe/Oslo"))

        await house.driver.say(house.anna, chat, "stop it")
        await allow(house, chat, f"delete job {job.id}")
        await house.driver.message("Stopped.", chat=chat)
    assert await jobs.list_jobs(house.store, ME) == ()


async def test_a_question_about_a_relative_time_is_asked_again_after_a_restart(house: House):
    """The time that it showed has passed on."""
    chat = await house.chat()
    make = call("make_job", prompt="Call the bank.", in_minutes=20, verbatim=True)
    async with house.gateway(model=[make]):
        await house.driver.say(house.anna, chat, "remind me in 20 minutes")
        shown = await house.driver.until(lambda s: "May I do this?" in str(s.texts), chat=chat)
        (first,) = (m for m in shown.messages if "May I do this?" in m.text)
    async with house.gateway(model=["I will."]):
        shown = await house.driver.until(
            lambda s: str(s.texts).count("May I do this?") == 2, chat=chat
        )
        second = next(m for m in shown.messages if "May I" in m.text and m.id != first.id)
        assert numbered(first) != numbered(second)
        await house.driver.press(house.anna, second.id, "Allow")
        await house.driver.message("I will.", chat=chat)
        await settled(house, chat, "✓ Allowed")
    assert (await only_job(house)).prompt == "Call the bank."
    assert "Call the bank." in texts(shown)[-1]
