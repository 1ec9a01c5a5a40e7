"""What people have on Telegram beside words: buttons, a menu of commands, pictures and files."""

from __future__ import annotations

from segue import commands
from segue.commands.base import Where
from segue.testing.models.openai import Say
from segue.testing.pictures import png
from segue.testing.telegram import FileKind, Message, Trouble, Upload
from tests.end_to_end.conftest import Home, Shape, wants

QUESTION = "May I do this?"


async def asked(home: Home, chat: int, thread: int | None) -> Message:
    return await home.sees(QUESTION, chat, thread=thread)


async def test_only_the_owner_answers_with_a_button(home: Home):
    chat = await home.at_home(Shape.FORUM)
    path = home.person.cwd / "made"
    async with home.gateway():
        thread = await home.arrives(chat)
        home.mind.plans.append(wants("shell", command=f"touch {path}"))
        await home.hands.say(home.anna, chat, "make it", thread=thread)
        question = await asked(home, chat, thread)
        assert "(question 1)" in question.text
        assert question.labels == ("Allow", "Allow in this session", "Deny")
        told = len(home.mind.requests)
        await home.hands.fail("answerCallbackQuery", Trouble.HANG, times=3)
        for name in question.labels:
            await home.hands.press(home.eve, chat, question.id, name)
        await home.hands.say(home.eve, chat, "/approve 1", thread=thread)
        await home.confirmed()
        assert (path.exists(), len(home.mind.requests)) == (False, told)
        await home.hands.calm()
        query = await home.hands.press(home.anna, chat, question.id, "Allow")
        await home.sees("(3) make it", chat, thread=thread)
        settled = await home.sees("✓ Allowed", chat, thread=thread)
        assert (settled.id, settled.labels) == (question.id, ())
    assert path.exists()
    said = home.spoken(await home.hands.look(chat), thread)
    assert [m.id for m in said if "llowed" in m.text] == [question.id], "it is told once"
    calls = await home.hands.calls("answerCallbackQuery")
    assert [it.parameters["callback_query_id"] for it in calls] == [query]


async def test_the_commands_are_on_the_menu_from_the_one_table(home: Home):
    await home.at_home(Shape.DM)
    async with home.gateway():
        shown = await home.hands.until(lambda shown: bool(shown.menu))
    table = {c.name: c.summary for c in commands.available(Where.CHAT)}
    assert {c.command: c.description for c in shown.menu} == table
    polls = (await home.hands.look()).calls.get("getUpdates", 0)
    async with home.gateway():
        await home.hands.until(lambda shown: shown.calls.get("getMyCommands", 0) == 2)
        await home.hands.until(lambda shown: shown.calls.get("getUpdates", 0) > polls)
    assert len(await home.hands.calls("setMyCommands")) == 1


async def test_photos_from_the_phone_reach_the_model_as_one_message(home: Home):
    photos = 3
    chat = await home.at_home(Shape.TOPICS)
    photo = Upload(name="photo.jpg", media_type="image/jpeg", content=png(), kind=FileKind.PHOTO)
    async with home.gateway():
        thread = await home.arrives(chat)
        home.mind.plans.append(Say(text="A boat."))
        await home.hands.say(home.anna, chat, "what is it?", thread=thread, files=[photo] * photos)
        await home.sees("A boat.", chat, thread=thread)
        await home.confirmed()
    parts = home.mind.requests[-1]["messages"][-1]["content"]
    assert [part["type"] for part in parts].count("image_url") == photos
    assert "what is it?" in str(parts)


async def test_a_file_from_the_agent_arrives_as_a_document(home: Home):
    chat = await home.at_home(Shape.DM)
    notes = home.person.cwd / "notes.txt"
    notes.write_text("Ask about the mast.")
    async with home.gateway():
        thread = await home.arrives(chat)
        home.mind.plans.append(wants("send_file", path=str(notes), caption="My *notes*."))
        await home.hands.say(home.anna, chat, "send them", thread=thread)
        question = await asked(home, chat, thread)
        await home.hands.press(home.anna, chat, question.id, "Allow")
        sent = await home.sees("My notes.", chat, thread=thread)
        await home.sees("(3) send them", chat, thread=thread)
    assert sent.file is not None
    assert (sent.file.kind, sent.file.name) == (FileKind.DOCUMENT, "notes.txt")
    assert await home.hands.content(sent.file.id) == b"Ask about the mast."
