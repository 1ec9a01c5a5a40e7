"""Coming back, taking over, and what a killed terminal leaves, in a real pty."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from segue.core.transcript import Outcome, Transcript
from tests.harness.gateways import segue_says
from tests.harness.pty import Terminal
from tests.harness.terminal import Person, over, shell


async def say(shown: Terminal, text: str) -> None:
    """Say it to the stand-in, and wait for what it repeats."""
    await shown.ready()
    shown.say(text)
    await shown.shows(f"what I hear: {text}")
    await shown.ready()


async def begin(person: Person, text: str) -> None:
    """A session that was left again."""
    said = await asyncio.to_thread(segue_says, person, "-p", text)
    assert said.returncode == 0, said.stderr


# Coming back


async def test_a_session_comes_back_with_a_recap_in_its_own_directory(person: Person):
    await begin(person, "hello")
    for words, *arguments in (["two", "resume"], ["three", "-c"], ["four", "resume", "hello"]):
        async with person.opens(*arguments, cwd=person.cwd.parent) as shown:
            await shown.shows(f"hello, in {person.cwd}")
            await shown.shows("I am a scripted stand-in")
            await say(shown, words)
    assert len(await person.sessions()) == 1
    said = [text for role, text in await person.said() if role == "user"]
    assert said == ["hello", "two", "three", "four"]


async def test_here_stays_here(person: Person):
    await begin(person, "hello")
    elsewhere = person.cwd.parent / "elsewhere"
    elsewhere.mkdir()
    for words, *arguments in (["two", "resume", "--here"], ["three", "-c", "--here"]):
        async with person.opens(*arguments, cwd=elsewhere) as shown:
            await shown.shows(f"hello, in {elsewhere}")
            await say(shown, words)
        (session,) = await person.sessions()
        assert session.cwd == str(elsewhere)


async def test_a_directory_that_is_gone_is_told_and_one_stays(person: Person):
    await begin(person, "hello")
    person.cwd.rmdir()
    async with person.opens("resume", cwd=person.cwd.parent) as shown:
        await shown.shows(f"The session's directory {person.cwd} cannot be used")
        await shown.shows(f"hello, in {person.cwd.parent}")
        await say(shown, "again")


async def test_a_conversation_begins_in_a_directory_that_is_gone(person: Person):
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


async def test_a_session_that_is_not_there_is_one_sentence(person: Person):
    async with person.opens("resume", "nonsense") as shown:
        assert await shown.end() == 1
        assert "There is no session 'nonsense'" in shown.text
        assert "Traceback" not in shown.text


async def test_a_new_session_is_new_in_the_status_line_too(person: Person):
    async with person.opens() as shown:
        await say(shown, "hello")
        await shown.until(lambda: shown.screen[-1].startswith("hello"), "the status of hello")
        shown.say("/new")
        await shown.until(lambda: shown.screen[-1].startswith("new session"), "a new session")
        shown.say("/resume hello")
        await shown.until(lambda: shown.screen[-1].startswith("hello"), "the status of hello")


# Two terminals


async def test_a_session_that_is_open_elsewhere_says_where_and_stays_on_a_no(person: Person):
    async with person.opens() as first:
        await say(first, "hello")
        async with person.opens("resume") as second:
            await second.shows("open in a terminal on")
            await second.shows(f"(process {first.process.pid})")
            await second.see("Take it over?")
            second.say("n")
            await second.see("hello stays where it is.")
            await say(second, "something else")
        await say(first, "still here")
    assert len(await person.sessions()) == 2


async def test_ctrl_c_is_a_no_to_taking_over_and_ctrl_d_leaves(person: Person):
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


async def test_a_terminal_that_lost_its_session_says_so_refuses_and_takes_it_back(person: Person):
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


async def test_what_is_said_elsewhere_can_be_followed(person: Person):
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


# Killed


async def test_a_terminal_killed_in_an_answer_keeps_what_was_sent(person: Person):
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
            await shown.ready()
            shown.say("and now?")
            await shown.see("Welcome back.")
            await over(shown)
    assert [role for role, _ in await person.said()] == ["user", "user", "assistant"]


async def test_a_terminal_killed_in_a_tool_call_is_mended_by_the_next(person: Person):
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
