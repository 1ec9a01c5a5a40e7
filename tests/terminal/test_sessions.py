"""Resuming, taking over, and recovery after a killed terminal, in a real pty."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import segue.store
from segue.core.address import Platform
from segue.core.reset import ResetPolicies
from segue.core.session import ME, Origin
from segue.core.transcript import Outcome, Transcript
from segue.jobs.queries import jobs, reports, runs
from segue.jobs.schedule import Once
from segue.jobs.values import NewJob, parse_targets
from segue.store import Topic, bindings, page_sessions, sessions
from segue.store.page_sessions import SessionActivity
from segue.turns import hold
from tests.fakes.models.openai import Say
from tests.harness.gateways import segue_says
from tests.harness.pty import Terminal
from tests.harness.terminal import Person, over, shell
from tests.store.samples import DM, TOPIC


async def say(shown: Terminal, text: str) -> None:
    """Send a message, and wait for the scripted model to repeat it."""
    await shown.ready()
    shown.say(text)
    await shown.shows(f"what I hear: {text}")
    await shown.ready()


async def begin(person: Person, text: str) -> None:
    """A session with these messages that is no longer open."""
    said = await asyncio.to_thread(segue_says, person, "-p", text)
    assert said.returncode == 0, said.stderr


# Resuming


async def test_a_resumed_session_has_a_recap_and_its_own_directory(person: Person):
    await begin(person, "hello")
    for words, *arguments in (["two", "resume"], ["three", "-c"], ["four", "resume", "hello"]):
        async with person.opens(*arguments, cwd=person.cwd.parent) as shown:
            await shown.shows(f"hello, in {person.cwd}")
            await shown.shows("I am a scripted stand-in")
            await say(shown, words)
    assert len(await person.sessions()) == 1
    said = [text for role, text in await person.said() if role == "user"]
    assert said == ["hello", "two", "three", "four"]


async def test_a_resumed_session_shows_its_last_exchanges_as_they_looked(person: Person):
    ask = (shell("echo one"), shell("echo two", 2))
    both = Say(calls=tuple(call for said in ask for call in said.calls))
    async with person.talks_to("A **list**:\n\n- boats", both, "Both ran.") as model:
        async with person.opens(lines=50) as shown:
            await shown.ready()
            shown.say("hello")
            await shown.see("• boats")
            shown.say("run them")
            for _ in ask:
                await shown.see("Allow it?")
                shown.say("y")
                await shown.gone("Allow it?")
            await shown.see("Both ran.")
            await over(shown)
        model.go.set()
        async with person.opens("-c", lines=50) as shown:
            await shown.see("Both ran.")
            await shown.ready()
            assert (
                "❯ hello\n\nA list:\n\n• boats\n\n"
                "❯ run them\n\n"
                "⏺ shell  echo one\n  │ one\n⏺ shell  echo two\n  │ two\n\nBoth ran.\n❯\n"
            ) in "\n".join(shown.screen), "nothing has been scrolled away"


async def test_the_here_option_keeps_the_current_directory(person: Person):
    await begin(person, "hello")
    elsewhere = person.cwd.parent / "elsewhere"
    elsewhere.mkdir()
    for words, *arguments in (["two", "resume", "--here"], ["three", "-c", "--here"]):
        async with person.opens(*arguments, cwd=elsewhere) as shown:
            await shown.shows(f"hello, in {elsewhere}")
            await say(shown, words)
        (session,) = await person.sessions()
        assert session.cwd == str(elsewhere)


async def test_a_deleted_directory_of_a_session_is_reported(person: Person):
    await begin(person, "hello")
    person.cwd.rmdir()
    async with person.opens("resume", cwd=person.cwd.parent) as shown:
        await shown.shows(f"The session's directory {person.cwd} cannot be used")
        await shown.shows(f"hello, in {person.cwd.parent}")
        await say(shown, "again")


async def test_a_conversation_can_start_in_a_deleted_directory(person: Person):
    gone = os.open(person.cwd, os.O_RDONLY)
    person.cwd.rmdir()
    place = {"cwd": Path(f"/proc/{os.getpid()}/fd/{gone}"), "environment": {"PWD": str(person.cwd)}}
    try:
        async with person.opens(**place) as shown:
            await say(shown, "hello")
    finally:
        os.close(gone)
    (session,) = await person.sessions()
    assert session.cwd == str(person.cwd.parent)


async def test_an_unknown_session_is_reported_in_one_sentence(person: Person):
    async with person.opens("resume", "nonsense") as shown:
        assert await shown.end() == 1
        assert "There is no session “nonsense”" in shown.text
        assert "Traceback" not in shown.text


async def test_the_status_line_shows_a_new_session(person: Person):
    async with person.opens() as shown:
        await say(shown, "hello")
        await shown.until(lambda: shown.status.startswith("hello"), "the status of hello")
        shown.say("/new")
        await shown.until(lambda: shown.status.startswith("new session"), "a new session")
        shown.say("/resume hello")
        await shown.until(lambda: shown.status.startswith("hello"), "the status of hello")


async def test_the_status_line_shows_a_new_title_and_model_at_once(person: Person):
    async with person.talks_to("Hello."), person.opens() as shown:
        await shown.ready()
        shown.say("hello")
        await shown.see(" tokens · here")
        shown.say("/title Boats")
        await shown.see("Boats · openai/gpt-test")
        shown.say("/model scripted")
        await shown.see("Boats · scripted")


# Two terminals


async def test_a_session_that_is_open_elsewhere_is_named_and_stays_there_if_declined(
    person: Person,
):
    async with person.opens() as first:
        await say(first, "hello")
        async with person.opens("resume") as second:
            await second.shows("open in a terminal on")
            await second.shows(f"(process {first.process.pid})")
            await second.see("Take it over?")
            second.say("n")
            await second.see("“hello” stays where it is.")
            await say(second, "something else")
        await say(first, "still here")
    assert len(await person.sessions()) == 2


async def test_ctrl_c_declines_the_takeover_and_ctrl_d_leaves(person: Person):
    async with person.opens() as first:
        await say(first, "hello")
        async with person.opens("resume") as second:
            await second.see("Take it over?")
            second.press("c-c")
            await second.gone("Take it over?")
            await second.ready()
            second.say("/resume hello")
            await second.see("Take it over?")
            second.press("c-d")
            assert await second.end() == 0
        await say(first, "still here")


async def test_a_terminal_that_lost_its_session_reports_it_and_can_take_it_back(person: Person):
    async with person.opens() as first, person.opens() as other:
        await say(first, "hello")
        await say(other, "something else")
        async with person.opens("resume", "hello") as second:
            await second.see("Take it over?")
            second.say("y")
            await first.shows("no longer here")
            await first.see("hello · scripted · in another terminal")
            await first.shows("/follow to watch it there, /resume hello to take it back")
            await say(second, "from the second")
            first.say("lost words")
            await first.until(lambda: first.text.count("no longer here") == 2, "a refusal")
            await say(other, "newer than all")
            first.say("/resume hello")
            await first.see("Take it over?")
            first.say("y")
            await first.shows("from the second")
            await second.shows("no longer here")
            await say(first, "mine again")
            await first.see("hello · scripted · here")
    said = [text for role, text in await person.said("hello") if role == "user"]
    assert said == ["hello", "from the second", "mine again"]


async def test_a_terminal_says_that_a_report_went_to_the_thread_of_its_session(person: Person):
    await begin(person, "hello")
    (session,) = await person.sessions()
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
        async with person.opens("resume", "hello") as shown:
            await shown.shows("hello, in")
            await shown.ready()
            remind = NewJob(
                prompt="Call the bank.",
                schedule=Once(datetime(2100, 1, 1, tzinfo=UTC)),
                zone="UTC",
                deliver=parse_targets("origin"),
                name="bank",
                origin=TOPIC,
            )
            job = await jobs.create(store, ME, remind)
            await runs.ask(store, ME, job.id)
            claim = await runs.claim(store)
            assert claim is not None
            await runs.finish(store, claim, "Call the bank.")
            for report in await reports.waiting(store, Platform):
                assert await reports.send(store, report, ResetPolicies(), UTC, str(person.cwd))
            await shown.shows(f'Job "bank" reported on {TOPIC}: Call the bank.')
            await say(shown, "which bank?")
    assert [text for _, text in await person.said("hello")][-3:-1] == [
        "Call the bank.",
        "which bank?",
    ]


async def test_follow_shows_the_messages_written_elsewhere(person: Person):
    async with person.opens() as first:
        await say(first, "hello")
        async with person.opens("resume") as second:
            await second.see("Take it over?")
            second.say("y")
            await first.shows("no longer here")
            first.say("/follow")
            await first.see("Ctrl-C to stop.")
            await say(second, "news from there")
            await first.shows("❯ news from there")
            await first.shows("what I hear: news from there")
            first.press("c-c")
            first.say("/status")
            await first.shows("Messages 4")


async def test_a_command_ends_following_and_runs_at_once(person: Person):
    async with person.opens() as first:
        await say(first, "hello")
        async with person.opens("resume") as second:
            await second.see("Take it over?")
            second.say("y")
            await first.shows("no longer here")
            first.say("/follow")
            await first.see("Ctrl-C to stop.")
            first.say("/resume hello")
            await first.see("Take it over?")
            first.say("y")
            await second.shows("no longer here")
            await say(first, "here again")


async def test_an_answer_cut_off_by_a_takeover_stays_visible_with_a_notice(person: Person):
    async with person.talks_to("Endless words " * 40, "Welcome back.") as model:
        model.pausing(900)
        async with person.opens() as first:
            await first.ready()
            first.say("hello")
            await first.see("Endless words")
            async with person.opens("resume", "--now") as second:
                await second.shows("Took over the session")
                await first.shows("no longer here")
                await first.shows("The unfinished answer above is not part of the session.")
                assert "Endless words" in first.text
                assert "[…]" in first.text


async def test_follow_is_refused_for_a_session_that_is_here(person: Person):
    async with person.opens() as shown:
        await say(shown, "hello")
        shown.say("/follow")
        await shown.see("This session is here.")
        await say(shown, "and I still answer")


async def test_the_status_line_says_where_a_session_was_taken(person: Person):
    async with (
        person.opens() as shown,
        await segue.store.open(person.environment["SEGUE_STORE"]) as store,
    ):
        await say(shown, "hello")
        (session,) = await sessions.list_sessions(store, ME)
        async with hold(store, session.id, "a gateway", take_over=True, address=DM):
            await shown.shows("no longer here")
            await shown.see(f"hello · scripted · on {DM}")


# After a kill


async def activities(person: Person) -> list[SessionActivity]:
    """What the page shows for each session."""
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        return [entry.activity for entry in await page_sessions.list_entries(store, ME, limit=9)]


async def test_a_message_survives_a_terminal_killed_during_the_answer(person: Person):
    async with person.talks_to("Endless words " * 40, "Welcome back.") as model:
        model.pausing(900)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("my words")
            await shown.see("Endless words")
            shown.kill()
            await shown.end()
        assert await person.said() == [("user", "my words")]
        model.go.set()
        async with person.opens("resume") as shown:
            await shown.see("my words")
            await shown.shows("The agent was interrupted before it had answered your last message.")
            await shown.ready()
            assert await activities(person) == [SessionActivity.IDLE]
            shown.say("and now?")
            await shown.see("Welcome back.")
            await over(shown)
    assert [role for role, _ in await person.said()] == ["user", "user", "assistant"]


async def test_the_next_terminal_repairs_a_transcript_cut_off_in_a_tool_call(person: Person):
    async with person.talks_to(shell("sleep 5"), "Welcome back."), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        shown.say("y")
        await shown.see("⏺ shell")
        shown.kill()
        await shown.end()
        async with person.opens("-c") as again:
            await again.ready()
            again.say("and now?")
            await again.see("Welcome back.")
            await over(again)
    transcript = Transcript(tuple(await person.transcript()))
    assert [m.role.value for m in transcript] == ["user", "assistant", "tool", "user", "assistant"]
    assert transcript.messages[2].outcome is Outcome.INTERRUPTED


async def test_other_platforms_see_what_the_session_in_the_terminal_is_doing(person: Person):
    async def until(activity: SessionActivity) -> None:
        async with (
            await segue.store.open(person.environment["SEGUE_STORE"]) as store,
            store.listen(Topic.SESSIONS) as wake,
        ):
            while [e.activity for e in await page_sessions.list_entries(store, ME, limit=1)] != [
                activity
            ]:
                await wake.wait()

    answers = (shell("touch done"), "It is done.", "Never.")
    async with person.talks_to(*answers) as model, person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        await until(SessionActivity.ASKING)
        shown.say("y")
        await shown.see("It is done.")
        await until(SessionActivity.IDLE)
        model.pausing()
        model.asked.clear()
        shown.say("more")
        await model.asked.wait()
        await until(SessionActivity.WORKING)
        shown.press("c-c")
        await until(SessionActivity.IDLE)
