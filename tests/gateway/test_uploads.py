"""Files that the agent sends to a chat."""

from __future__ import annotations

import asyncio
from pathlib import Path

from segue.gateway import writer
from segue.gateway.janitor import Janitor
from segue.platforms.base import Capabilities, Upload
from segue.store import outbox
from segue.store.outbox import Draft, OutgoingState
from segue.testing.platform import Rules, Trouble
from tests.gateway.test_approvals import question
from tests.harness.house import House
from tests.turns.conftest import call

ABLE = Capabilities(files=True, upload_bytes=100)


async def queue(house: House, chat: str, path: Path, body: str = "") -> str:
    address = await house.home(chat)
    data = await asyncio.to_thread(path.read_bytes)
    draft = Draft(key="a file", address=address, body=body, file=str(path), data=data)
    assert await outbox.enqueue(house.store, draft)
    return draft.key


async def test_a_file_arrives_with_its_caption(house: House, tmp_path: Path):
    path = tmp_path / "boat.png"
    path.write_bytes(b"a boat")
    chat = await house.chat()
    async with house.gateway():
        await queue(house, chat, path, "Our boat.")
        shown = await house.driver.message("Our boat.", chat=chat)
    assert shown.file is not None
    assert shown.file.name == "boat.png"


async def test_a_file_needs_no_caption(house: House, tmp_path: Path):
    path = tmp_path / "boat.png"
    path.write_bytes(b"a boat")
    chat = await house.chat()
    async with house.gateway():
        await queue(house, chat, path)
        shown = await house.driver.until(lambda shown: bool(shown.messages), chat=chat)
    assert [(m.text, m.file and m.file.name) for m in shown.messages] == [("", "boat.png")]


async def test_without_file_support_the_message_says_where_the_file_is(
    house: House, tmp_path: Path
):
    path = tmp_path / "boat.png"
    path.write_bytes(b"a boat")
    await house.driver.rules(Rules(files=False))
    chat = await house.chat()
    async with house.gateway():
        await queue(house, chat, path, "Our boat.")
        shown = await house.driver.until(lambda shown: bool(shown.messages), chat=chat)
    assert shown.texts[0].startswith(f"Our boat.\n\n`{path} (it stays on the machine")


async def test_a_file_that_may_have_arrived_is_not_sent_again_where_there_are_no_keys(
    house: House, tmp_path: Path
):
    path = tmp_path / "boat.png"
    path.write_bytes(b"a boat")
    await house.driver.rules(Rules(keys=False))
    await house.driver.fail("send_file", Trouble.DROP_AFTER)
    chat = await house.chat()
    async with house.gateway():
        key = await queue(house, chat, path, "Our boat.")
        await house.driver.message("Our boat.", chat=chat)
        await house.idle()
    outgoing = await outbox.get(house.store, key)
    assert outgoing is not None
    assert outgoing.state is OutgoingState.UNCERTAIN
    assert (await house.driver.look(chat)).texts == ["Our boat."]


async def test_a_file_that_fails_later_is_reported_in_its_chat(house: House, tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("Ask about the mast.")
    chat = await house.chat()
    script = [call("send_file", path=str(path)), "It is on its way.", "Sorry."]
    async with house.gateway(model=script):
        await house.driver.fail("send_file", Trouble.FORBIDDEN)
        await house.driver.say(house.anna, chat, "Send me your notes")
        await house.driver.press(house.anna, (await question(house, chat)).id, "Allow")
        await house.driver.message("It is on its way.", chat=chat)
        await house.idle()
        await Janitor(house.store).clean_up()
        await house.driver.until(
            lambda shown: any("notes.txt` could not be sent: " in it for it in shown.texts),
            chat=chat,
        )
        await Janitor(house.store).clean_up()
        await house.idle()
    texts = (await house.driver.look(chat)).texts
    assert sum("could not be sent" in text for text in texts) == 1
    session = await house.session_at(await house.address(chat))
    _, told = (await house.said(session.id))[-1]
    assert str(path) in told


async def test_the_agent_sends_a_file_after_approval(house: House, tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("Ask about the mast.")
    chat = await house.chat()
    script = [call("send_file", path=str(path), caption="My notes."), "There they are."]
    async with house.gateway(model=script):
        await house.driver.say(house.anna, chat, "Send me your notes")
        await house.driver.press(house.anna, (await question(house, chat)).id, "Allow")
        shown = await house.driver.message("My notes.", chat=chat)
        await house.driver.message("There they are.", chat=chat)
    assert shown.file is not None
    assert shown.file.name == "notes.txt"


async def test_a_file_is_sent_with_the_content_it_had_when_it_was_approved(
    house: House, tmp_path: Path
):
    path = tmp_path / "boat.png"
    path.write_bytes(b"a boat")
    chat = await house.chat()
    key = await queue(house, chat, path, "Our boat.")
    path.write_bytes(b"a key")
    outgoing = await outbox.get(house.store, key)
    assert outgoing is not None
    assert await outbox.data(house.store, outgoing) == b"a boat"


async def test_the_content_of_a_delivered_file_is_not_kept(house: House, tmp_path: Path):
    path = tmp_path / "boat.png"
    path.write_bytes(b"a boat")
    chat = await house.chat()
    key = await queue(house, chat, path, "Our boat.")
    outgoing = await outbox.get(house.store, key)
    assert outgoing is not None
    await outbox.prune(house.store, outgoing.queued)
    assert await outbox.data(house.store, outgoing) == b"a boat"
    async with house.gateway():
        await house.driver.message("Our boat.", chat=chat)
        await house.idle()
    await outbox.prune(house.store, outgoing.queued)
    assert await outbox.data(house.store, outgoing) == b""


def test_a_file_that_cannot_be_sent_is_refused_with_the_reason():
    path = Path("/somewhere/fits.PNG")
    assert "only" in str(writer.upload(path, bytes(101), ABLE))
    assert "ask for it again" in str(writer.upload(path, b"", ABLE))
    assert writer.upload(path, bytes(100), ABLE) == Upload("fits.PNG", "image/png", bytes(100))
