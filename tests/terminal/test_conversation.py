"""Typing, streaming and leaving, in a real pty."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.harness.terminal import Person, over, shell

LONG = "\n\n".join(f"Paragraph {n}: " + "some words of it " * 12 for n in range(95))
"""An answer of 20 KB."""


async def test_a_new_conversation_starts_with_a_greeting_of_three_lines(person: Person):
    async with person.opens() as shown:
        await shown.see("/handoff web")
        await shown.ready()
        assert shown.text.splitlines()[:4] == [
            "Segue: a personal AI agent whose conversations move with you.",
            "scripted, in ~/project",
            "/help lists the commands. /handoff web continues in a browser or on a phone.",
            "❯",
        ]


async def test_the_status_line_is_directly_under_the_prompt(person: Person):
    async with person.opens() as shown:
        await shown.until(lambda: shown.status == "new session · scripted", "the status")
        shown.type("one")
        shown.press("alt-enter")
        shown.type("two")
        await shown.see("❯ one\n  two\nnew session · scripted")
        shown.press("c-c")
        shown.type("/")
        await shown.see("❯ /\n    /new ")
        shown.press("backspace")
        await shown.until(lambda: shown.status == "new session · scripted", "the status again")


async def test_a_typed_message_is_answered(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.say("Good morning")
        await shown.see("can only repeat what I hear:\nGood morning")
        await shown.ready()
        shown.press("c-d")
        assert await shown.end() == 0
        assert "To come back: segue resume 'Good morning'" in shown.text


async def test_an_answer_is_shown_while_it_streams(person: Person):
    async with person.talks_to("The first words and the very last ones.") as model:
        model.pausing(700)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("hello")
            await shown.see("The first")
            assert "last ones" not in shown.text
            model.go.set()
            await shown.see("the very last ones.")
            await shown.see(" tokens · here")  # the turn is finished and stored
    assert await person.said() == [
        ("user", "hello"),
        ("assistant", "The first words and the very last ones."),
    ]


async def test_a_long_answer_is_complete_and_the_prompt_stays_usable(person: Person):
    async with person.talks_to(LONG) as model:
        model.pausing(60_000)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("tell me everything")
            await shown.shows("Paragraph 9:")
            shown.type("typed meanwhile")
            await shown.see("❯ typed meanwhile")
            model.go.set()
            await shown.shows("Paragraph 94:")
            await shown.see("❯ typed meanwhile")
            await shown.see(" tokens · here")
            assert shown.text.count("Paragraph ") == 95
    assert (await person.said())[1] == ("assistant", LONG)


async def test_several_lines_are_one_message(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.type("one")
        shown.press("alt-enter")
        shown.type("two")
        shown.press("c-j")
        shown.say("three")
        await shown.shows("what I hear: one two three")
    assert (await person.said())[0] == ("user", "one\ntwo\nthree")


async def test_up_recalls_messages_of_an_earlier_run_which_only_their_owner_can_read(
    person: Person, tmp_path: Path
):
    async with person.opens() as shown:
        await shown.ready()
        shown.say("remember these words")
        await shown.shows("what I hear: remember these words")
        shown.press("c-d")
        assert await shown.end() == 0
    async with person.opens() as shown:
        await shown.ready()
        shown.press("up")
        await shown.see("❯ remember these words")
    typed = tmp_path / ".local/state/segue/typed"
    assert typed.stat().st_mode & 0o777 == 0o600


# Leaving


async def test_ctrl_c_stops_the_turn_and_not_the_program(person: Person):
    async with person.talks_to("Endless words " * 40, "Here again.") as model:
        model.pausing(900)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("hello")
            await shown.see("Endless words")
            shown.press("c-c")
            await shown.see("Interrupted.")
            model.go.set()
            shown.say("go on")
            await shown.see("Here again.")
            await shown.see(" tokens · here")
    said = await person.said()
    assert [role for role, _ in said] == ["user", "assistant", "user", "assistant"]
    assert said[1][1].endswith("[…]")


async def test_a_second_ctrl_c_leaves(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.press("c-c")
        await shown.see("Press Ctrl-C again to leave.")
        shown.press("c-c")
        assert await shown.end() == 0


async def test_a_message_resets_the_count_of_ctrl_c(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.press("c-c")
        await shown.see("Press Ctrl-C again to leave.")
        shown.say("hello")
        await shown.shows("what I hear: hello")
        await over(shown)
        await shown.ready()
        shown.press("c-c")
        await shown.until(lambda: shown.text.count("Ctrl-C again") == 2, "it warns again")


async def test_ctrl_c_clears_the_input_line(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.type("half a thou")
        await shown.see("❯ half a thou")
        shown.press("c-c")
        await shown.ready()
        assert "again to leave" not in shown.text
        shown.say("whole")
        await shown.shows("what I hear: whole")
    assert (await person.said())[0] == ("user", "whole")


async def test_ctrl_d_leaves_from_the_middle_of_a_turn(person: Person):
    async with person.talks_to("Endless words " * 40) as model:
        model.pausing(900)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("hello")
            await shown.see("Endless words")
            shown.press("c-d")
            assert await shown.end() == 0
            await shown.shows("To come back: segue resume")
    (_, said), (_, answered) = await person.said()
    assert said == "hello"
    assert answered.startswith("Endless words")


async def test_ctrl_d_leaves_from_a_question(person: Person):
    async with person.talks_to(shell("touch done")), person.opens() as shown:
        await shown.ready()
        shown.say("do it")
        await shown.see("Allow it?")
        await shown.see("openai/gpt-test · here")  # the status is always shown
        shown.press("c-d")
        assert await shown.end() == 0
    assert not (person.cwd / "done").exists()


async def test_ctrl_d_does_nothing_while_there_is_text(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.type("precious")
        await shown.see("❯ precious")
        shown.press("c-d")
        shown.say("!")
        await shown.shows("what I hear: precious!")


async def test_a_signal_ends_the_terminal_like_ctrl_d(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.say("hello")
        await shown.shows("what I hear: hello")
        shown.process.send_signal(signal.SIGTERM)
        assert await shown.end() == 0
        assert "To come back: segue resume hello" in shown.text


async def test_leaving_without_a_message_leaves_no_session(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.say("/quit")
        assert await shown.end() == 0
        assert "To come back" not in shown.text
    assert await person.sessions() == []


# Queued messages


async def test_a_message_typed_while_the_agent_works_is_queued_and_answered(person: Person):
    async with person.talks_to("One, at length.", "Two.", "Three.") as model:
        model.pausing(400)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("first")
            await shown.see("❯ first")
            shown.say("second")
            await shown.see("queued: second")
            shown.say("third")
            await shown.see("queued: second\n  queued: third")
            model.go.set()
            await shown.shows("❯ first One, at length. ❯ second Two. ❯ third Three.")
            await shown.gone("waiting:")
    assert [text for role, text in await person.said() if role == "user"] == [
        "first",
        "second",
        "third",
    ]


async def test_unsent_messages_are_listed_on_leaving(person: Person):
    async with person.talks_to("One, at length.") as model:
        model.pausing(400)
        async with person.opens() as shown:
            await shown.ready()
            shown.say("first")
            await shown.see("❯ first")
            shown.say("second")
            shown.say("third")
            await shown.see("queued: third")
            shown.press("c-d")
            assert await shown.end() == 0
            assert "Not sent: second" in shown.text
            assert "Not sent: third" in shown.text
    assert [text for role, text in await person.said() if role == "user"] == ["first"]


async def test_a_failed_turn_is_reported_and_the_conversation_continues(person: Person):
    async with person.talks_to(), person.opens() as shown:
        await shown.ready()
        shown.say("hello")
        await shown.shows("The script of this test is at its end")
        await shown.ready()
        shown.press("c-d")
        assert await shown.end() == 0
        await shown.shows("To come back: segue resume")


async def test_an_invisible_answer_is_reported(person: Person):
    async with person.talks_to("\u2800\n\u200b", "&nbsp;", "seen"), person.opens() as shown:
        await shown.ready()
        for word in ("hello", "again"):
            shown.say(word)
            await shown.shows("The agent gave no answer.")
            await shown.ready()
        shown.say("and now?")
        await shown.shows("seen")
        await shown.ready()
        shown.press("c-d")
        assert await shown.end() == 0
    assert shown.text.count("The agent gave no answer.") == 2


async def test_a_reminder_is_refused_while_no_gateway_could_deliver_it(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.say("/remind 20 Take the bread out.")
        await shown.shows("No gateway is running, so no job can run. Type")
        await shown.ready()
        shown.say("/jobs")
        await shown.shows("There are no jobs yet.")
