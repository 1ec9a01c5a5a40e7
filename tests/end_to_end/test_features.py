"""Features of platforms besides text: buttons, a menu of commands, pictures and files."""

from __future__ import annotations

import pytest

from segue import commands
from segue.commands.base import Where
from tests import rigs
from tests.end_to_end.conftest import asks_under_an_answer, on, tool_call
from tests.end_to_end.test_jobs import BREAD, asked_last, ended, jobs, pass_time, serving
from tests.fakes.models.openai import Say
from tests.fakes.pictures import png
from tests.harness.household import Household
from tests.rigs import File, View
from tests.rigs import Message as Shown

QUESTION = "May I do this?"
WITH_MENU = tuple(rig for rig in rigs.ALL if rig.has_menu)


@on(rigs.SlackRig, rigs.SignalRig, among=rigs.EDITING)
async def test_only_the_owner_answers_with_a_button(home: Household):
    await home.at_home(home.rig.forum)
    path = home.person.cwd / "made"
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(tool_call("shell", command=f"touch {path}"))
        await home.writes("make it", thread)
        question = await home.sees(QUESTION, thread)
        assert "This is question 1." in question.text
        assert question.labels == ("Allow", "Allow in this session", "Deny")
        asked = len(home.model.requests)
        for label in question.labels:
            await home.rig.press(home.eve, home.chat, question, label)
        await home.rig.say(home.eve, home.chat, "/approve 1", thread=thread)
        await home.rig.confirmed()
        assert (path.exists(), len(home.model.requests)) == (False, asked)
        await home.rig.press(home.anna, home.chat, question, "Allow")
        await home.sees("(3) make it", thread)
        settled = await home.sees("✓ Allowed", thread)
        assert (settled.id, settled.labels) == (question.id, ())
    assert path.exists()
    said = home.spoken(await home.rig.look(home.chat), thread)
    assert [m.id for m in said if "llowed" in m.text] == [question.id], "it is said once"


@on(rigs.DiscordRig, rigs.WhatsAppRig)
async def test_a_long_call_is_allowed_only_below_its_last_line(home: Household):
    """By button or reaction, and not by a number before that, whichever gateway runs."""
    await home.at_home(home.rig.dm)
    path = home.person.cwd / "made"
    lines = "\n".join(f"echo {n} {'x' * 60}" for n in range(99))
    command = f"touch {path}\n{lines}\necho the end"
    async with home.gateway():
        home.model.plans.append(tool_call("shell", command=command))
        await home.writes("make it")
        question = await offering(home, "Show all")
        assert question.labels == ("Show all", "Deny")
        await home.rig.press(home.anna, home.chat, question, "Show all")
        whole = await offering(home, "Allow")
        assert whole.id != question.id
        shown = "".join(await home.texts())
        assert all(f"echo {n} x" in shown for n in range(99))
        assert not path.exists()
        await home.rig.press(home.anna, home.chat, whole, "Allow")
        await home.sees("(1) make it")
    assert path.exists()


async def offering(home: Household, label: str) -> Shown:
    """Wait for a message that offers this choice."""

    def found(view: View) -> list[Shown]:
        return [m for m in home.spoken(view) if label in m.labels]

    return found(await home.rig.until(lambda view: bool(found(view)), home.chat))[0]


@on(rigs.DiscordRig, among=WITH_MENU)
async def test_the_menu_has_the_commands_of_the_table(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        shown = await home.rig.until(lambda view: bool(view.menu))
    assert shown.menu == {c.name: c.summary for c in commands.available(Where.CHAT)}


@on(rigs.TelegramRig, rigs.WhatsAppRig)
async def test_photos_from_the_phone_reach_the_model_as_one_message(home: Household):
    photos = 3 if home.rig.albums else 1
    await home.at_home(home.rig.dm)
    photo = File("photo.jpg", "image/jpeg", png())
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(Say(text="A boat."))
        await home.rig.say(
            home.anna, home.chat, "what is it?", thread=thread, files=[photo] * photos
        )
        await home.sees("A boat.", thread)
        await home.rig.confirmed()
    parts = home.model.requests[-1]["messages"][-1]["content"]
    assert [part["type"] for part in parts].count("image_url") == photos
    assert "what is it?" in str(parts)


@on(rigs.SignalRig)
async def test_a_file_from_the_agent_arrives(home: Household):
    await home.at_home(home.rig.dm)
    notes = home.person.cwd / "notes.txt"
    notes.write_text("Ask about the mast.")
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(tool_call("send_file", path=str(notes), caption="My notes."))
        await home.writes("send them", thread)
        question = await home.sees(QUESTION, thread)
        await home.rig.press(home.anna, home.chat, question, "Allow")
        await home.sees("(3) send them", thread)
    (sent,) = [m for m in home.spoken(await home.rig.look(home.chat), thread) if m.file]
    assert (sent.file, sent.text) == ("notes.txt", "My notes.")


THREADS_UNDER_MESSAGES = pytest.mark.parametrize(
    ("home", "kind"),
    [
        pytest.param(rigs.SlackRig, "dm", marks=pytest.mark.long),
        (rigs.SlackRig, "forum"),
        (rigs.DiscordRig, "forum"),
    ],
    indirect=["home"],
)


@THREADS_UNDER_MESSAGES
async def test_a_thread_under_an_answer_knows_the_answer(home: Household, kind: str):
    await home.at_home(getattr(home.rig, kind))
    async with home.gateway():
        await asks_under_an_answer(home)


@THREADS_UNDER_MESSAGES
async def test_a_thread_under_a_report_knows_the_report(home: Household, kind: str):
    chat = await home.at_home(getattr(home.rig, kind))
    async with serving(home):
        made = await jobs(
            home, "add", "--every", "60", "--deliver", str(home.rig.platform), "--verbatim", BREAD
        )
        await pass_time(home, 60)
        await ended(home, made["id"])
        report = await home.sees(BREAD, None)
        if isinstance(home.rig, rigs.DiscordRig):
            given = (int(home.anna), int(chat), "More", int(report.id))
            await home.rig.driver.open_thread(*given)
        await home.writes("which bread?", report.id)
        await home.sees("which bread?", report.id)
        await home.writes("and when?", report.id)
        await home.sees("(2) and when?", report.id)
    first, _, second = [text for _, text in asked_last(home)]
    assert first.endswith(f"written by you:]\n> {BREAD}\n\nwhich bread?")
    assert second == "and when?"
