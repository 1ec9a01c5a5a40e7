"""Single turns without a prompt, pipes, and the first start."""

from __future__ import annotations

import asyncio
import json
import os
import pty
from asyncio.subprocess import PIPE
from typing import Any

import pytest

from segue import config
from segue.agent.loop import UNANSWERED
from segue.core import provenance
from segue.core.events import NO_ANSWER
from tests import program
from tests.fakes.models.openai import FakeOpenAI, Say, refusal
from tests.harness.gateways import piped
from tests.harness.pty import CODE, SEGUE, Terminal
from tests.harness.terminal import Person, shell
from tests.program import constants


async def run(person: Person, *arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    """Exit code, output and errors of `segue` without a terminal."""
    environment = {**CODE, "LANG": "C.UTF-8", **person.environment}
    done = await asyncio.to_thread(
        program.run, *arguments, environment=environment, cwd=person.cwd, given=given
    )
    return done.returncode, done.stdout, done.stderr


async def sh(person: Person, line: str) -> tuple[int, str, str]:
    """The same for a line of a shell, in which `segue` is ours, with a real start and exit."""
    command = " ".join(SEGUE)
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        f'segue() {{ {command} "$@"; }}\n{line}',
        stdout=PIPE,
        stderr=PIPE,
        cwd=person.cwd,
        env={**CODE, "LANG": "C.UTF-8", **person.environment},
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


def objects(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


# -p


async def test_only_the_answer_is_printed(person: Person):
    async with person.talks_to("Just **this**, \x1b[31mas written."):
        assert await run(person, "-p", "hello") == (0, "Just **this**, as written.\n", "")
    assert (await person.said())[0] == ("user", "hello")


async def test_an_invisible_answer_is_reported_on_stderr(person: Person):
    async with person.talks_to("\u2800\n\u200b"):
        code, output, errors = await run(person, "-p", "hello")
    assert (code, output.strip()) == (0, "")
    assert errors == f"{NO_ANSWER}\n"


async def test_a_dash_reads_the_message_from_standard_input(person: Person):
    code, output, errors = await run(person, "-p", "-", given=b"hi there\n")
    assert (code, errors) == (0, "")
    assert output.endswith("what I hear: hi there\n")


async def test_a_message_from_a_pipe_may_quote_others(person: Person):
    await run(person, "-p", "-", given=b"hi there\n")
    await run(person, "-c", "-p", "hi")
    piped, _, typed, _ = await person.transcript()
    assert piped.provenance == provenance.OWNER | provenance.FILE
    assert typed.provenance == provenance.OWNER


async def test_invalid_bytes_in_the_input_are_replaced(person: Person):
    code, output, errors = await run(person, "-p", "-", given=b"odd \xff byte")
    assert (code, errors) == (0, "")
    assert output.endswith("what I hear: odd \ufffd byte\n")


async def test_an_empty_message_is_an_error(person: Person):
    code, output, errors = await run(person, "-p", "-", given=b"\n")
    assert (code, output) == (2, "")
    assert "No text to send" in errors


async def test_events_are_objects_and_the_last_is_the_outcome(person: Person):
    async with person.talks_to("Words of it."):
        code, output, errors = await run(person, "-p", "hello", "--json")
    assert (code, errors) == (0, "")
    events = objects(output)
    (session,) = await person.sessions()
    assert events[0] == {"event": "session", "id": session.id}
    text = "".join(event["text"] for event in events if event["event"] == "text_delta")
    assert text == "Words of it."
    assert events[-1] == {"event": "turn_done"}
    assert "message_added" in {event["event"] for event in events}


async def test_a_call_that_needs_approval_does_not_run_and_is_not_called_denied(person: Person):
    async with person.talks_to(shell("touch done"), "I could not."):
        code, output, errors = await run(person, "-p", "do it")
    assert (code, output) == (0, "I could not.\n")
    assert errors.startswith("shell did not run: it needs your approval, and `segue -p` cannot ask")
    assert not (person.cwd / "done").exists()
    result = (await person.transcript())[2]
    assert (result.outcome, result.content) == (None, UNANSWERED)


async def test_a_turn_that_failed_ends_with_code_one(person: Person):
    async with person.talks_to():
        code, output, errors = await run(person, "-p", "hello")
        assert (code, output) == (1, "")
        assert "The script of this test is at its end" in errors
        code, output, errors = await run(person, "-p", "hello", "--json")
        assert (code, errors) == (1, "")
        last = objects(output)[-1]
        assert last["event"] == "turn_failed"
        assert "at its end" in last["error"]


async def test_continue_appends_to_the_last_session(person: Person):
    await run(person, "-p", "hello")
    await run(person, "-c", "-p", "again")
    assert len(await person.sessions()) == 1
    assert [text for role, text in await person.said() if role == "user"] == ["hello", "again"]


async def test_a_reader_that_closes_the_pipe_early_causes_no_traceback(person: Person):
    async with person.talks_to("One line.\n" * 4000):
        code, output, errors = await sh(person, "segue -p hello | head -1")
    assert (code, output, errors) == (0, "One line.\n", "")


async def test_an_output_that_is_not_utf_8_does_not_fail(person: Person):
    person.environment["PYTHONIOENCODING"] = "ascii"
    async with person.talks_to("Grüße"):
        assert await run(person, "-p", "hello") == (0, "Gr??e\n", "")


# Pipes


async def test_each_line_of_a_pipe_is_one_message(person: Person):
    code, output, errors = await run(person, given="one\n\nzwei, grün\n".encode())
    assert (code, errors) == (0, "")
    assert "\x1b" not in output
    assert output.index("what I hear: one") < output.index("what I hear: zwei, grün")
    assert output.endswith("To come back: segue resume one\n")
    assert len(await person.sessions()) == 1


async def test_a_pipe_with_invalid_bytes_is_read_to_its_end(person: Person):
    code, output, errors = await run(person, given=b"odd \xff byte\n")
    assert (code, errors) == (0, "")
    assert "what I hear: odd \ufffd byte" in output


async def test_a_pipe_cannot_approve(person: Person):
    async with person.talks_to(shell("touch done"), "I could not."):
        code, output, errors = await run(person, given=b"do it\n")
    assert (code, errors) == (0, "")
    assert "I could not." in output
    assert not (person.cwd / "done").exists()


async def test_a_failed_message_in_a_pipe_is_a_failure(person: Person):
    del person.environment["SEGUE_MODEL"]
    code, output, _ = await run(person, given=b"hello\n")
    assert code == 1
    assert "No model is available yet" in output
    code, output, _ = await run(person, given=b"/resume nowhere\n")
    assert code == 1
    assert "nowhere" in output


async def test_a_message_that_is_answered_after_a_failed_one_does_not_hide_it(person: Person):
    async with person.talks_to(refusal(400, "No."), "Fine."):
        code, output, _ = await run(person, given=b"one\ntwo\n")
    assert code == 1
    assert "Fine." in output


async def test_without_a_terminal_and_input_it_says_what_it_needs(person: Person):
    del person.environment["SEGUE_MODEL"]
    code, output, errors = await run(person)
    assert (code, output) == (1, "")
    assert errors.startswith("Segue: a personal AI agent")
    assert "No model is available yet" in errors
    assert "`segue model`" in errors
    assert "`segue -p TEXT`" in errors
    assert "in a terminal" in errors


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "2>&-"])
async def test_a_closed_standard_stream_counts_as_an_empty_one(person: Person, closed: str):
    code, output, errors = await sh(person, f"segue {closed}")
    assert (code, output) == (1, "")
    assert errors.startswith("Segue: a personal AI agent") != ("2>&-" in closed)
    assert "Traceback" not in errors
    assert (await sh(person, f"segue -p hello {closed}"))[0] == 0


async def test_an_input_that_stays_open_and_silent_does_not_keep_it_silent(person: Person):
    person.environment.update(constants({"segue.terminal.program._SILENCE": 0.01}))
    ours, theirs = os.pipe()
    reading, errors = os.pipe()
    environment = {**CODE, **person.environment}
    started = program.start(
        environment=environment, cwd=person.cwd, output=errors, errors=errors, given=ours
    )
    try:
        for descriptor in (ours, errors):
            os.close(descriptor)
        with os.fdopen(reading, encoding="utf-8") as shown:
            assert (await asyncio.to_thread(shown.readline)).startswith("Segue: a personal AI")
            assert "scripted" in await asyncio.to_thread(shown.readline)
            os.write(theirs, b"hello\n")
            os.close(theirs)
            assert "what I hear: hello" in " ".join((await asyncio.to_thread(shown.read)).split())
        assert await asyncio.to_thread(started.wait, 30) == 0
    finally:
        started.kill()


async def test_output_to_a_pipe_has_no_escape_sequences(person: Person):
    ours, theirs = pty.openpty()
    try:
        with piped(person, given=theirs) as command:
            os.write(ours, b"hello\r")
            printed = ""
            while "what I hear: hello" not in " ".join(printed.split()):
                printed += await command.line(command.stdout)
            os.write(ours, b"\x04")
            code, rest, errors = await command.ends()
    finally:
        os.close(ours)
        os.close(theirs)
    assert code == 0, errors
    assert "\x1b" not in printed + rest


# The first start


async def declines(shown: Terminal) -> None:
    """Decline the embedded model, and wait for the written choice."""
    await shown.see("No model is available yet")
    await shown.see("Download it now? [Y/n]:")
    shown.say("n")
    for line in ("key    to paste a key (", "local  to download", "leave  to leave"):
        await shown.see(line)
    await shown.see("Which one? (key, local, leave):")


async def test_a_user_without_a_model_is_offered_a_choice_and_can_leave(person: Person):
    del person.environment["SEGUE_MODEL"]
    async with person.opens() as shown:
        await declines(shown)
        shown.say("perhaps")
        await shown.see("'perhaps' is not one of 'key', 'local', 'leave'.")
        shown.say("leave")
        assert await shown.end() == 0
        assert "❯" not in shown.text


async def test_a_pasted_key_is_checked_saved_and_used(person: Person):
    del person.environment["SEGUE_MODEL"]
    model = FakeOpenAI(lambda _: Say(text="At your service."), key="sk-right", models=["gpt-5.5"])
    async with model.serving() as url:
        person.environment["OPENAI_BASE_URL"] = url
        async with person.opens() as shown:
            await declines(shown)
            shown.say("key")
            await shown.see("Key (not shown):")
            shown.say("sk-wrong")
            await shown.shows("OpenAI rejected this key.")
            await shown.until(lambda: shown.text.count("Which one?") == 2, "the choice again")
            shown.say("key")
            await shown.until(lambda: shown.text.count("Key (not shown)") == 2, "the key again")
            shown.say("sk-right")
            await shown.shows("Saved the key for OpenAI in")
            await shown.shows("openai/gpt-5.5, in ~/project")
            shown.say("hello")
            await shown.see("At your service.")
        assert "sk-right" not in shown.text
    found = config.load({"SEGUE_CONFIG": f"{person.cwd.parent}/.config/segue/config.toml"})
    assert list(found.keys) == ["openai"]


async def test_the_local_model_can_be_chosen_and_a_failure_asks_again(person: Person):
    del person.environment["SEGUE_MODEL"]
    person.environment["SEGUE_MODELS"] = "/dev/null/models"
    async with person.opens() as shown:
        await declines(shown)
        shown.say("local")
        await shown.shows("The embedded model could not be downloaded")
        await shown.until(lambda: shown.text.count("Which one?") == 2, "the choice again")
        assert shown.text.count("Download it now?") == 1


@pytest.mark.parametrize(
    ("key", "asked"), [("AIzaSy", False), ("sk-ant-1", False), ("sk-or-1", False), ("odd", True)]
)
async def test_the_provider_of_a_key_is_recognised_by_its_prefix_or_asked_for(
    person: Person, key: str, asked: bool
):
    del person.environment["SEGUE_MODEL"]
    async with person.opens(environment={"HTTPS_PROXY": "http://127.0.0.1:9"}) as shown:
        await declines(shown)
        shown.say("key")
        await shown.see("Key (not shown):")
        shown.say(key)
        if asked:
            await shown.see("Whose key is it? (anthropic, openai, gemini, openrouter):")
            shown.say("gemini")
        titles = {"AIzaSy": "Gemini", "sk-ant-1": "Anthropic", "sk-or-1": "OpenRouter"}
        await shown.shows(f"Saved the key for {titles.get(key, 'Gemini')} in")
        await shown.shows("It could not be checked")


async def test_without_a_model_and_without_a_terminal_nothing_is_offered(person: Person):
    del person.environment["SEGUE_MODEL"]
    code, output, errors = await run(person, "-p", "hello")
    assert (code, output) == (1, "")
    assert "No model is available yet" in errors
