"""Files on Telegram, in both directions."""

from __future__ import annotations

import dataclasses

import pytest

from segue.core.address import Address
from segue.platforms.base import Attachment, Part, Upload
from segue.platforms.telegram.adapter import CAPABILITIES, TelegramAdapter
from segue.testing.contract.rig import failure, listening, part
from segue.testing.pictures import png
from segue.testing.telegram import FileKind, Message, Status
from segue.testing.telegram import Upload as PersonsUpload
from tests.platforms.telegram.rig import Shape, TelegramRig, home_at

PICTURE = Upload("red.png", "image/png", png())
TEXT = Upload("notes.txt", "text/plain", b"first\nsecond\n")
LONG = "long " * 400


async def topic(rig: TelegramRig, shape: Shape = Shape.FORUM) -> Address:
    home = await home_at(rig, shape)
    return await rig.adapter.create_handoff_thread(home, "Work", key="1") or home


async def sent(rig: TelegramRig) -> list[Message]:
    """What the bot has said."""
    people = {int(rig.anna)}
    return [it for it in (await rig.hands.look()).messages if it.author not in people]


async def only_file(rig: TelegramRig) -> tuple[FileKind, str, bytes]:
    [message] = await sent(rig)
    assert message.file is not None
    return message.file.kind, message.file.name, await rig.hands.content(message.file.id)


async def test_a_picture_is_shown_as_one(rig: TelegramRig):
    await rig.adapter.send_file(await topic(rig), PICTURE, part("<b>Red</b>."), key="1")
    kind, _, content = await only_file(rig)
    assert (kind, content) == (FileKind.PHOTO, PICTURE.data)
    [message] = await sent(rig)
    assert (message.text, message.entities[0].type) == ("Red.", "bold")


async def test_what_is_no_picture_is_a_document(rig: TelegramRig):
    await rig.adapter.send_file(await topic(rig), TEXT, part("My notes."), key="1")
    assert await only_file(rig) == (FileKind.DOCUMENT, "notes.txt", TEXT.data)


@pytest.mark.parametrize(
    "picture",
    [
        Upload("broken.png", "image/png", b"no picture at all"),
        Upload("large.png", "image/png", png(size=10_100_000)),
        Upload("moving.gif", "image/gif", b"GIF89a"),
    ],
)
async def test_a_picture_that_telegram_does_not_show_is_a_document(
    rig: TelegramRig, picture: Upload
):
    await rig.adapter.send_file(await topic(rig), picture, part("See."), key="1")
    kind, name, content = await only_file(rig)
    assert (kind, name) == (FileKind.DOCUMENT, picture.name)
    assert content == picture.data


async def test_a_file_may_have_nothing_said_of_it_and_get_it_later(rig: TelegramRig):
    at = await topic(rig)
    receipt = await rig.adapter.send_file(at, TEXT, Part("", ""), key="1")
    await rig.adapter.edit(at, receipt, part("These are my notes."))
    [message] = await sent(rig)
    assert message.text == "These are my notes."


async def test_what_is_too_long_for_a_file_follows_it(rig: TelegramRig):
    at = await topic(rig)
    receipt = await rig.adapter.send_file(at, PICTURE, part(LONG), key="1")
    picture, text = await sent(rig)
    assert picture.file is not None
    assert (picture.text, text.text) == ("", LONG.strip())
    assert picture.thread == text.thread == int(at.thread_id or 0)
    await rig.adapter.edit(at, receipt, part("Short."))
    assert [it.text for it in await sent(rig)] == ["", "Short."]


async def test_markup_that_telegram_refuses_is_not_a_reason_to_keep_the_file(rig: TelegramRig):
    await rig.adapter.send_file(await topic(rig), TEXT, Part("<b>broken", "broken"), key="1")
    [message] = await sent(rig)
    assert message.text == "broken"


async def test_a_file_is_refused_where_the_bot_is_blocked(rig: TelegramRig):
    at = await topic(rig, Shape.DM)
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.KICKED)
    failed = await failure(rig.adapter.send_file(at, PICTURE, part("Red."), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert len(await rig.hands.calls("sendPhoto")) == 1
    assert await rig.hands.calls("sendDocument") == []


async def test_a_file_that_is_too_large_is_refused_before_it_is_sent(rig: TelegramRig):
    at = await topic(rig)
    large = Upload("large", "application/zip", bytes(CAPABILITIES.upload_bytes + 1))
    failed = await failure(rig.adapter.send_file(at, large, part("Large."), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "50,000,001" in failed.reason
    assert await rig.hands.calls("sendDocument") == []


@pytest.mark.parametrize("kind", FileKind)
async def test_what_people_send_can_be_fetched(rig: TelegramRig, kind: FileKind):
    at = await rig.place(Shape.DM)
    upload = PersonsUpload(name="a.png", media_type="image/png", content=png(), kind=kind)
    async with listening(rig.adapter) as ear:
        await rig.hands.say(int(rig.anna), int(at.chat), "Look", files=[upload])
        inbound = await ear.next()
    [attachment] = inbound.attachments
    assert inbound.text == "Look"
    assert await rig.adapter.fetch(attachment) == png()


async def test_a_file_of_more_than_twenty_megabytes_is_not_fetched(rig: TelegramRig):
    large = Attachment("x", "film.mp4", "video/mp4", CAPABILITIES.attachment_bytes + 1)
    failed = await failure(rig.adapter.fetch(large))
    assert (failed.retry, failed.arrived) == (False, False)
    assert await rig.hands.calls("getFile") == []


async def test_a_file_that_turns_out_to_be_larger_is_not_taken_whole(
    rig: TelegramRig, monkeypatch: pytest.MonkeyPatch
):
    small = dataclasses.replace(CAPABILITIES, attachment_bytes=1000)
    monkeypatch.setattr(TelegramAdapter, "capabilities", small)
    at = await rig.place(Shape.DM)
    upload = PersonsUpload(name="a.bin", media_type="application/zip", content=bytes(2000))
    async with listening(rig.adapter) as ear:
        await rig.hands.say(int(rig.anna), int(at.chat), "", files=[upload])
        [attachment] = (await ear.next()).attachments
    unsaid = Attachment(attachment.id, attachment.name, attachment.media_type, 0)
    assert not (await failure(rig.adapter.fetch(unsaid))).retry
