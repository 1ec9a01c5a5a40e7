"""Approvals in a real pty: the whole call is shown, and nothing runs before a key says so."""

from __future__ import annotations

import asyncio

from tests.terminal.conftest import Person, shell

LONG = "echo " + " ".join(f"word{n}" for n in range(60)) + " > done"


async def test_the_whole_call_is_shown_and_nothing_runs_before_a_yes(person: Person):
    async with person.talks_to(shell(LONG), "It is done."), person.opens(lines=40) as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        told = "".join(line[2:] for line in shown.screen if line[:1] in {"│", "┊"})
        assert LONG.replace(" ", "") in told.replace(" ", "")
        shown.press("x", "enter", "escape")
        shown.type(" ")
        shown.paste("y")
        await shown.see("[n]o y")  # it is typed, and answers nothing
        assert not (person.cwd / "done").exists()
        shown.press("y")
        await shown.see("It is done.")
        await shown.see("❯ y")
    assert (person.cwd / "done").read_text().startswith("word0 word1")


async def test_a_no_is_told_to_the_model_and_nothing_runs(person: Person):
    async with person.talks_to(shell("touch done"), "As you like."), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        shown.press("n")
        await shown.see("As you like.")
    assert not (person.cwd / "done").exists()
    (result,) = [text for role, text in await person.said() if role == "tool"]
    assert "the person said no" in result


async def test_a_yes_for_the_session_is_not_asked_again_and_a_single_yes_is(person: Person):
    once, twice = shell("echo a >> once"), shell("echo a >> twice")
    answers = (twice, "One.", twice, "Two.", once, "Three.", once, "Four.")
    async with person.talks_to(*answers), person.opens() as shown:
        await shown.ready()
        shown.say("first")
        await shown.see("Allow it?")
        shown.press("s")
        await shown.see("One.")
        shown.say("second")
        await shown.see("Two.")
        shown.say("third")
        await shown.see("Allow it?")
        shown.press("y")
        await shown.see("Three.")
        shown.say("fourth")
        await shown.see("Allow it?")
        shown.press("n")
        await shown.see("Four.")
    assert (person.cwd / "twice").read_text() == "a\na\n"
    assert (person.cwd / "once").read_text() == "a\n"


async def test_ctrl_c_at_the_question_stops_the_turn_and_runs_nothing(person: Person):
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


async def test_what_is_typed_before_the_question_stays(person: Person):
    async with person.talks_to(shell("touch done"), "Fine.", "Then too.") as model:
        model.pausing(200)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("do it")
            await shown.see("❯ do it")
            shown.type("and then")
            await shown.see("❯ and then")
            model.go.set()
            await shown.see("Allow it?")
            await asyncio.sleep(1.1)  # the pause is what makes a key an answer
            shown.press("n")
            await shown.see("Fine.")
            await shown.see("❯ and then")
            shown.press("enter")
            await shown.see("Then too.")
    assert [text for role, text in await person.said() if role == "user"] == ["do it", "and then"]


async def test_ctrl_c_ends_a_command_that_runs(person: Person):
    command = "echo begun > begun; sleep 60; echo over > over"
    async with person.talks_to(shell(command), "Here."), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        shown.press("y")
        await shown.see("⏺ shell")
        shown.press("c-c")
        await shown.see("Interrupted.", 5)
        shown.say("and now?")
        await shown.see("Here.")
    assert not (person.cwd / "over").exists()


async def test_who_is_typing_as_the_question_comes_up_has_not_answered_it(person: Person):
    async with person.talks_to(shell("touch done"), "Fine.") as model:
        model.pausing(10)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("do it")
            await shown.see("Ctrl-C stops it")
            shown.type("certainl")
            await shown.see("certainl")
            model.go.set()
            await shown.see("Allow it?")
            shown.type("y sounds easy")
            await shown.see("certainly sounds easy")
            assert not (person.cwd / "done").exists()
            assert "Allow it?" in "\n".join(shown.screen)
            await asyncio.sleep(1.1)  # the pause is what makes a key an answer
            shown.press("y")
            await shown.see("Fine.")
    assert (person.cwd / "done").exists()
