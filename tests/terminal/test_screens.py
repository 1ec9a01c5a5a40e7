"""Screens of every kind, and bytes that must not reach a screen, in a real pty."""

from __future__ import annotations

import re

import pytest

import segue.store
from segue.core.session import ME
from segue.store import owners, sessions
from tests.fakes.models.openai import refusal
from tests.harness.pty import Terminal
from tests.harness.terminal import Person, over, shell
from tests.store.test_old_stores import put

OSC = "\x1b]52;c;ZXZpbA==\x07"
PAYLOAD = f"a{OSC}b\x1b[2J\x1b[31mc\x1bPq#0~\x1b\\d\x9b2Je\x1b]0;evil\x1b\\f\x08g\x00h"
"""Writes to the clipboard, clears the screen, draws, names the window, goes back."""

_OURS = re.compile(
    rb"\x1b(\[\?(1|7|12|25|2004|1000|1003|1006|1015)[hl]"  # needed for a prompt
    rb"|\[[0-9;]*[ABCDGHJKmn]"  # moving, erasing, colours, cursor position
    rb"|\[[0-9] q"  # the shape of the cursor
    rb"|[78])"  # saving and restoring the position
)


def assert_clean(shown: Terminal) -> None:
    """Check that only our own escape sequences were written, and none of the payload."""
    raw = bytes(shown.raw)
    left = _OURS.sub(b"", raw)
    assert b"\x1b" not in left, left[left.index(b"\x1b") - 40 :][:80]
    assert b"\x1b[2J" not in raw
    for piece in (b"ZXZpbA", b"evil", b"\x9b2J", b"q#0~", b"\x07", b"\x00"):
        assert piece not in raw
    control = {byte for byte in left if byte < 32} - set(b"\r\n\x08")
    assert not control


async def test_text_of_the_model_cannot_control_the_terminal(person: Person):
    async with (
        person.talks_to(f"Look: {PAYLOAD}\n\n```\n{PAYLOAD}\n```\n\nover"),
        person.opens() as shown,
    ):
        await shown.ready()
        shown.say("hello")
        await shown.see("over")
        await shown.ready()
        shown.press("c-d")
        await shown.end()
        assert_clean(shown)


async def test_a_tool_call_and_its_output_cannot_control_the_terminal(person: Person):
    (person.cwd / "data").write_text(PAYLOAD)
    (person.cwd / f"name{OSC}").touch()
    commands = shell("cat data; ls"), shell(f"printf '%s' '{PAYLOAD}'".replace("\x00", ""), 2)
    async with person.talks_to(*commands, "over"), person.opens(lines=50) as shown:
        await shown.ready()
        shown.say("hello")
        await shown.see("Allow it?")
        shown.say("y")
        await shown.until(lambda: shown.text.count("needs your approval") == 2, "a second call")
        await shown.see("Allow it?")
        assert r"\x1b]52;c;" in shown.text
        shown.say("y")
        await shown.see("over")
        assert b"\x1b]" not in shown.raw
        assert b"\x07" not in shown.raw
        assert b"\x1b[2J" not in shown.raw


async def test_a_title_and_a_note_cannot_control_the_terminal(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.say("hello")
        await shown.shows("what I hear: hello")
        await over(shown)
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            (session,) = await sessions.list_sessions(store, ME)
            await sessions.rename(store, session.id, f"Named {PAYLOAD}")
            await owners.add_note(store, ME, f"note {PAYLOAD}")
        shown.say("/title")
        await shown.see("The title of this session is “Named")
        shown.say("/memory")
        await shown.see("1  note")
        shown.say("/sessions")
        await shown.see("* Named")
        await shown.ready()
        shown.type("/resume ")
        shown.press("tab")
        shown.press("c-c", "c-d")
        assert await shown.end() == 0
        await shown.shows("To come back: segue resume")
        raw = bytes(shown.raw)
        assert b"\x1b]" not in raw
        assert b"\x07" not in raw
        assert b"\x1b[2J" not in raw


async def test_a_file_name_cannot_control_the_terminal(person: Person):
    (person.cwd / f"odd{OSC}").touch()
    (person.cwd / "odder").touch()
    async with person.opens() as shown:
        await shown.ready()
        shown.type("look at od")
        shown.press("tab")
        await shown.see("odder")
        assert b"\x1b]" not in shown.raw
        assert b"\x07" not in shown.raw


async def test_an_error_from_another_program_cannot_control_the_terminal(person: Person):
    async with person.talks_to(refusal(400, f"no {PAYLOAD}")), person.opens() as shown:
        await shown.ready()
        shown.say("hello")
        await shown.see("refused")
        assert_clean(shown)


async def test_a_long_paste_arrives_whole(person: Person):
    pasted = "\n".join(f"line {n}: {'word ' * 5}" for n in range(5000))
    async with person.opens() as shown:
        await shown.ready()
        shown.paste(pasted)
        await shown.see("[paste 1: 5,000 lines]")
        shown.say(" and mine")
        await shown.shows("what I hear: line 0")
        shown.press("up")
        await shown.see("❯ [paste 1: 5,000 lines] and mine")
    assert (await person.said())[0] == ("user", f"{pasted} and mine")


async def test_a_short_paste_can_be_edited_before_it_is_sent(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.paste("one\ntwo")
        await shown.see("  two")
        shown.press("backspace", "x", "enter")
        await shown.shows("what I hear: one twx")
    assert (await person.said())[0] == ("user", "one\ntwx")


async def test_invalid_bytes_can_be_typed(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.send(b"odd \xff\xfe byte\r")
        await shown.shows("what I hear: odd")
        await over(shown)
        assert "Unhandled" not in shown.text
    assert (await person.said())[0] == ("user", "odd \ufffd\ufffd byte")


# Sizes


async def test_an_answer_fits_a_terminal_that_becomes_narrow_while_it_streams(person: Person):
    text = " ".join(f"word{n}" for n in range(120)) + "\n\nThe end."
    async with person.talks_to(text) as model:
        model.pausing(3000)
        async with person.opens(columns=100) as shown:
            await shown.ready()
            shown.say("hello")
            await shown.see("word16 word17")

            def are_whole() -> bool:
                """Check that no word is broken, as in a line that is too long."""
                lines = [line for line in shown.screen if "word" in line]
                return len(lines) > 2 and all(re.fullmatch(r"word\d+( word\d+)*", x) for x in lines)

            shown.resize(40, 24)
            await shown.until(are_whole, "lines of the new width")
            assert any(len(line) > 30 for line in shown.screen)
            model.go.set()
            await shown.see("The end.")
            assert are_whole()
            await shown.shows("word118 word119 The end.")


async def test_no_ghost_of_an_answer_is_left_when_the_terminal_becomes_narrow(person: Person):
    text = " ".join(f"word{n}." for n in range(60))
    async with person.talks_to(text) as model:
        model.pausing(6000)
        async with person.opens(columns=100, lines=50) as shown:
            await shown.ready()
            shown.say("/help")
            await shown.see("/quit")
            shown.say("hello")
            await shown.see("word14. word15.")
            shown.resize(60, 50)
            await shown.until(lambda: "word7.\nword8." in shown.text, "lines of the new width")
            assert shown.text.count("word0.") == 1
            model.go.set()
            await shown.see("word59.")
            assert [shown.text.count(f"word{n}.") for n in range(60)] == [1] * 60
            assert shown.text.count("/quit") == 1, "finished output stays"


async def test_a_terminal_of_twenty_columns_is_usable(person: Person):
    async with (
        person.talks_to("Some words\n\n- and a list of them", shell("touch done"), "Good."),
        person.opens(columns=20) as shown,
    ):
        await shown.ready()
        shown.say("hello there, how are you?")
        await shown.shows("Some words • and a list of them")
        shown.say("now do it")
        await shown.shows("Allow it? [y]es, this [s]ession, [n]o")
        shown.say("y")
        await shown.see("Good.")
    assert (person.cwd / "done").exists()


async def test_a_list_that_is_too_wide_breaks_between_words_and_stays_aligned(person: Person):
    async with person.talks_to(), person.opens(lines=50, columns=60) as shown:
        await shown.ready()
        shown.say("/tools")
        await shown.see("change_job")
        await shown.ready()
        first = shown.screen.index("❯ /tools") + 2
        rows = shown.screen[first : shown.screen.index("❯")]
    assert len(rows) > 20
    described = re.compile(r"[a-z_]+ +(asks|may|runs) [a-z ]+  [A-Z]| {33}\S")
    assert all(described.match(row) for row in rows), rows
    assert "Run a command in a shell, in the working directory" in " ".join(" ".join(rows).split())


# Kinds of terminals


async def test_no_color_means_no_colour(person: Person):
    colours = re.compile(rb"\x1b\[[0-9;]*m")
    answers = ("# A heading\n\n**bold** `code`", shell("echo hi"), "over")
    async with (
        person.talks_to(*answers),
        person.opens(environment={"NO_COLOR": "1"}) as shown,
    ):
        await shown.ready()
        shown.say("hello")
        await shown.see("code")
        shown.say("now do it")
        await shown.see("Allow it?")
        shown.say("y")
        await shown.see("over")
        found = {code for m in colours.findall(shown.raw) for code in m[2:-1].split(b";")}
        assert "bold code" in shown.text, "Markdown is drawn all the same"
    assert not {code for code in found if code[:1] in {b"3", b"4", b"9"} and len(code) > 1}


async def test_without_no_color_there_are_colours(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        assert b"\x1b[36m" in shown.raw or b"\x1b[0;36m" in shown.raw


async def test_a_terminal_that_is_not_utf_8_gets_ascii(person: Person):
    plain = {"PYTHONIOENCODING": "ascii"}
    async with (
        person.talks_to("- Grüße", shell("touch done"), "over"),
        person.opens(environment=plain) as shown,
    ):
        await shown.ready()
        shown.say("hello")
        await shown.see("- Gr??e")
        shown.say("now do it")
        await shown.see("Allow it?")
        assert "+- shell needs your approval" in shown.text
        shown.say("y")
        await shown.see("over")
        assert bytes(shown.raw).isascii()


async def test_a_dumb_terminal_gets_lines_and_nothing_else(person: Person):
    async with (
        person.talks_to("**Hello.**", shell("touch done"), "over"),
        person.opens(environment={"TERM": "dumb"}) as shown,
    ):
        shown.say("hello")
        await shown.see("**Hello.**")
        shown.say("now do it")
        await shown.see("Allow it?")
        assert not (person.cwd / "done").exists()
        shown.say("y")
        await shown.see("over")
        shown.press("c-d")
        assert await shown.end() == 0
        await shown.shows("To come back: segue resume")
        assert b"\x1b" not in shown.raw
    assert (person.cwd / "done").exists()


async def test_ctrl_c_stops_the_turn_on_a_dumb_terminal_too(person: Person):
    async with person.talks_to("Line\n" * 80, "Here.") as model:
        model.pausing(3000)
        async with person.opens(environment={"TERM": "dumb"}) as shown:
            shown.say("hello")
            await shown.see("Line\nLine")
            shown.press("c-c")
            await shown.see("Interrupted.")
            model.go.set()
            shown.say("and now?")
            await shown.see("Here.")
            await over(shown)
            shown.press("c-c")
            assert await shown.end() == 0
            await shown.shows("To come back: segue resume")


# Completion


async def test_commands_sessions_platforms_and_paths_are_completed(person: Person):
    (person.cwd / "a-file-of-mine").touch()
    async with person.opens("chat", "--title", "Zebra crossing") as shown:
        await shown.ready()
        shown.say("hello")
        await shown.shows("what I hear: hello")
        await shown.ready()
        shown.type("/hand")
        await shown.see("move this session to another platform")
        shown.press("tab")
        await shown.see("❯ /handoff")
        shown.type(" tele")
        await shown.see(" telegram")
        shown.press("tab")
        await shown.see("❯ /handoff telegram")
        shown.press("c-c")
        await shown.ready()
        shown.type("/resume Zeb")
        await shown.see("             Zebra crossing")
        shown.press("tab")
        await shown.see("❯ /resume Zebra crossing")
        shown.press("c-c")
        await shown.ready()
        shown.type("look at ./a-fi")
        shown.press("tab")
        await shown.see("❯ look at ./a-file-of-mine")


async def test_an_unknown_command_leads_to_the_list_of_commands(person: Person):
    async with person.opens() as shown:
        await shown.ready()
        shown.say("/hepl")
        await shown.see("Did you mean /help")
        shown.say("/help")
        await shown.shows("start a new session here")


@pytest.mark.parametrize("words", ["/home/me is full", "/"])
async def test_a_path_is_not_a_command(person: Person, words: str):
    async with person.opens() as shown:
        await shown.ready()
        shown.say(words)
        await shown.shows(f"what I hear: {words}")


async def test_what_is_logged_stands_above_the_prompt(person: Person):
    put(21, person.environment["SEGUE_STORE"])
    async with person.opens(columns=200) as shown:
        await shown.see("Upgrading the store from schema 21.")
        await shown.ready()
        lines = shown.text.splitlines()
        (first,) = (line for line in lines if "The store needs an upgrade." in line)
        assert first.strip().startswith("The store needs an upgrade. Making a backup of it first:")
