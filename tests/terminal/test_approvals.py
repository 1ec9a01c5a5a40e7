"""Approvals in a real pty: the call is shown, and runs only after a complete answer."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import segue.store
from segue.core.approval import Answer
from segue.core.transcript import Outcome, Role, ToolCall
from segue.store import gateways
from segue.terminal.questions import APPROVAL, Question
from tests.fakes.models.openai import Say
from tests.harness.terminal import Person, shell
from tests.program import constants

KINDS = pytest.mark.parametrize("environment", [{}, {"TERM": "dumb"}], ids=["drawn", "dumb"])
LONG = "echo " + " ".join(f"word{n}" for n in range(60)) + " > done"


async def test_the_whole_call_is_shown_and_runs_only_after_approval(person: Person):
    async with person.talks_to(shell(LONG), "It is done."), person.opens(lines=40) as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        output = "".join(line[2:] for line in shown.screen if line[:1] in {"│", "┊"})
        assert LONG.replace(" ", "") in output.replace(" ", "")
        shown.paste("y\n")
        await shown.see("not an answer")
        assert not (person.cwd / "done").exists()
        shown.say("y")
        await shown.see("It is done.")
        await shown.ready()
    assert (person.cwd / "done").read_text().startswith("word0 word1")


async def test_a_long_call_is_shortened_on_screen_and_can_be_viewed_in_full(person: Person):
    command = "touch evil" + "\n" * 121 + "\n".join(f"echo {n}" for n in range(80)) + "\ndate"
    async with person.talks_to(shell(command), "As you like."), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("[v]iew all 203 lines")
        screen = "\n".join(shown.screen)
        for seen in ("(203 lines)", "│ touch evil", "│ [120 blank lines]", "│ date"):
            assert seen in screen
        assert "│ echo 40" not in screen
        shown.say("view")
        await shown.until(lambda: "shell, all 203 lines" in shown.text, "the whole call")
        await shown.see("Allow it?")
        assert "│ echo 40" in shown.text
        shown.say("n")
        await shown.see("As you like.")
    assert not (person.cwd / "evil").exists()


@pytest.mark.parametrize(("columns", "lines"), [(40, 12), (80, 24), (100, 40)])
async def test_a_long_job_cannot_hide_what_it_may_do(person: Person, columns: int, lines: int):
    arguments = {
        "prompt": "\n".join(f"{n}. Look at the weather of this town." for n in range(60)),
        "every_minutes": 60,
        "name": "n" * 60,
        "only_if": {"kind": "page", "target": f"https://example.org/{'x' * 900}"},
        "allows": ["shell", "write_file"],
    }
    making = ToolCall("c1", "make_job", msgspec.json.encode(arguments).decode())
    async with (
        person.talks_to(Say(calls=(making,)), "As you like."),
        await segue.store.open(person.environment["SEGUE_STORE"]) as store,
        person.opens(columns=columns, lines=lines) as shown,
    ):
        await gateways.announce(store, "a gateway", [], seconds=3600)
        await shown.ready()
        shown.say("do it")
        await shown.see("lines first, or [n]o")
        dense = "".join("".join(line[2:] for line in shown.screen).split())
        for words in ("make a job", "may do without asking: shell, write_file", "delivers to: its"):
            assert "".join(words.split()) in dense, shown.screen
        shown.say("y")
        await shown.see("not an answer")
        shown.say("n")
        await shown.see("As you like.")


@KINDS
async def test_a_long_call_can_be_allowed_only_after_it_was_viewed_in_full(
    person: Person, environment: dict[str, str]
):
    command = "\n".join(f"echo {n}" for n in range(80)) + "\ntouch done"
    async with (
        person.talks_to(shell(command), "Over."),
        person.opens(environment=environment) as shown,
    ):
        if not environment:
            await shown.ready()
        shown.say("do it")
        await shown.see("[v]iew all 82 lines first, or [n]o")
        for number, line in enumerate(("y", "yes", "s", "session"), 1):
            shown.say(line)
            await shown.until(lambda n=number: shown.text.count("not an answer") == n, repr(line))
        assert "Allow it?" not in shown.text
        assert not (person.cwd / "done").exists()
        shown.say("v")
        await shown.see("Allow it?")
        shown.say("y")
        await shown.see("Over.")
    assert (person.cwd / "done").exists()


async def test_a_window_that_grows_does_not_make_a_call_seen(person: Person):
    command = "\n".join(f"echo {n}" for n in range(20))
    impatient = constants({"segue.terminal.console._PAUSE": 0.1})
    async with person.talks_to(shell(command), "As you like.") as model:
        model.pausing(10)
        async with person.opens(environment=impatient, lines=14) as shown:
            await shown.ready()
            shown.say("do it")
            await model.asked.wait()
            model.go.set()
            await shown.see("[v]iew all 21 lines")
            shown.resize(100, 60)
            await shown.see("[v]iew all 21 lines")
            shown.say("y")
            await shown.see("not an answer")
            shown.say("n")
            await shown.see("As you like.")


async def test_a_denied_call_does_not_run_and_is_shown_as_not_allowed(person: Person):
    async with person.talks_to(shell("touch done"), "As you like."), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        assert "working; Ctrl-C" not in "\n".join(shown.screen), "it waits for the user"
        shown.say("n")
        await shown.see("As you like.")
        assert "✗ Not allowed." in shown.text
        assert "Do not repeat it" not in shown.text, "that is for the model"
    assert not (person.cwd / "done").exists()
    (result,) = [m for m in await person.transcript() if m.role is Role.TOOL]
    assert result.outcome is Outcome.DENIED


async def test_approval_for_the_session_is_asked_once_and_single_approval_every_time(
    person: Person,
):
    once, twice = shell("echo a >> once"), shell("echo a >> twice")
    answers = (twice, "One.", twice, "Two.", once, "Three.", once, "Four.")
    async with person.talks_to(*answers), person.opens() as shown:
        await shown.ready()
        shown.say("first")
        await shown.see("Allow it?")
        shown.say("s")
        await shown.see("One.")
        shown.say("second")
        await shown.see("Two.")
        shown.say("third")
        await shown.see("Allow it?")
        shown.say("y")
        await shown.see("Three.")
        shown.say("fourth")
        await shown.see("Allow it?")
        shown.say("n")
        await shown.see("Four.")
    assert (person.cwd / "twice").read_text() == "a\na\n"
    assert (person.cwd / "once").read_text() == "a\n"


async def test_ctrl_c_at_the_question_stops_the_turn_without_running_the_call(person: Person):
    async with person.talks_to(shell("touch done"), "Still here."), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        shown.press("c-c")
        await shown.see("Interrupted.")
        await shown.gone("Allow it?")
        shown.say("yes")
        await shown.see("Still here.")
    assert not (person.cwd / "done").exists()


async def test_text_typed_before_the_question_is_kept(person: Person):
    impatient = constants({"segue.terminal.console._PAUSE": 0.1})
    async with person.talks_to(shell("touch done"), "Fine.", "Then too.") as model:
        model.pausing(200)
        async with person.opens(environment=impatient) as shown:
            await shown.ready()
            shown.say("do it")
            await shown.see("❯ do it")
            shown.type("and then")
            await shown.see("❯ and then")
            model.go.set()
            await shown.see("Allow it?")
            assert "and then" not in "\n".join(shown.screen)
            shown.say("y")
            await shown.see("Fine.")
            await shown.see("❯ and then")
            shown.press("enter")
            await shown.see("Then too.")
    assert (person.cwd / "done").exists()
    assert [text for role, text in await person.said() if role == "user"] == ["do it", "and then"]


async def test_ctrl_c_stops_a_running_command(person: Person):
    command = "echo begun > begun; sleep 60; echo over > over"
    async with person.talks_to(shell(command), "Here."), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        shown.say("y")
        await shown.see("⏺ shell")
        shown.press("c-c")
        await shown.see("Interrupted.")
        shown.say("and now?")
        await shown.see("Here.")
    assert not (person.cwd / "over").exists()


LINES = ["stop", "stop that", "why?", "maybe", "yep", "y n", "/yes", ""]


@KINDS
async def test_only_a_complete_answer_is_accepted_and_other_text_is_ignored(
    person: Person, environment: dict[str, str]
):
    async with (
        person.talks_to(shell("touch done"), "As you like.", "Bye."),
        person.opens(environment=environment, lines=50) as shown,
    ):
        if not environment:
            await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        for number, line in enumerate(LINES, 1):
            shown.say(line)
            await shown.until(lambda n=number: shown.text.count("not an answer") == n, repr(line))
        assert not (person.cwd / "done").exists()
        shown.say("no")
        await shown.see("As you like.")
        shown.say("bye")
        await shown.see("Bye.")
    assert not (person.cwd / "done").exists()
    assert [text for role, text in await person.said() if role == "user"] == ["do it", "bye"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        *[(word, Answer.ONCE) for word in ("y", "yes", "YES", " y \n")],
        *[(word, Answer.SESSION) for word in ("s", "Session")],
        *[(word, Answer.NEVER) for word in ("n", "no")],
    ],
)
async def test_an_answer_is_a_whole_word_or_its_first_letter(line: str, answer: Answer):
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    assert Question("Allow it?", APPROVAL, future).accept(line)
    assert future.result() is answer


@pytest.mark.parametrize("line", [*LINES, "yy", "yes!", "ye", "sess", "not", "y\ny", "\u200by"])
async def test_any_other_line_is_not_an_answer(line: str):
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    assert not Question("Allow it?", APPROVAL, future).accept(line)
    assert not future.done()


async def test_a_question_waits_while_the_user_is_typing(person: Person):
    """It appears once they pause: test_text_typed_before_the_question_is_kept."""
    patient = constants({"segue.terminal.console._PAUSE": 600})
    async with person.talks_to(shell("touch done")) as model:
        model.pausing(10)
        async with person.opens(environment=patient) as shown:
            await shown.ready()
            shown.say("do it")
            await shown.see("Ctrl-C to stop")
            shown.type("certainl")
            await shown.see("certainl")
            model.go.set()
            await shown.see("needs your approval")
            await shown.see("a question is waiting for you to stop typing")
            shown.type("y")
            await shown.see("❯ certainly")
            assert "Allow it?" not in shown.text
    assert not (person.cwd / "done").exists()


@KINDS
async def test_a_line_typed_before_the_question_does_not_answer_it(
    person: Person, environment: dict[str, str]
):
    async with person.talks_to(shell("touch done"), "As you like.", "Heard.") as model:
        model.pausing(10)
        async with person.opens(environment=environment) as shown:
            if not environment:
                await shown.ready()
            shown.say("do it")
            await model.asked.wait()
            shown.say("y")
            await shown.see("queued: y" if not environment else "\ny")
            model.go.set()
            await shown.see("Allow it?")
            shown.say("n")
            await shown.see("Heard.")
    assert not (person.cwd / "done").exists()
    assert [text for role, text in await person.said() if role == "user"] == ["do it", "y"]


async def test_a_partial_line_typed_before_the_question_does_not_answer_it(person: Person):
    """On a terminal that buffers the line until Enter."""
    async with person.talks_to(shell("touch done"), "As you like.") as model:
        model.pausing(10)
        async with person.opens(environment={"TERM": "dumb"}) as shown:
            shown.say("do it")
            await model.asked.wait()
            shown.type("y")
            await shown.see("\ny")
            model.go.set()
            await shown.see("Allow it?")
            shown.press("enter")
            await shown.see("not an answer")
            shown.say("n")
            await shown.see("As you like.")
    assert not (person.cwd / "done").exists()


async def test_end_of_input_denies_the_call(person: Person):
    async with (
        person.talks_to(shell("touch done"), "As you like."),
        person.opens(environment={"TERM": "dumb"}) as shown,
    ):
        shown.say("do it")
        await shown.see("Allow it?")
        shown.press("c-d")
        assert await shown.end() == 0
    assert not (person.cwd / "done").exists()
