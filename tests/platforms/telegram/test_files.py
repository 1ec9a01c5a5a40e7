"""Files on Telegram, in both directions."""

from __future__ import annotations

import dataclasses

import pytest

from segue.platforms.base import Attachment, Part, Upload
from segue.platforms.telegram.adapter import CAPABILITIES, TelegramAdapter
from segue.testing.contract.rig import PHOTO, failure, one_attachment, part, reading
from tests.fakes.pictures import png
from tests.fakes.telegram import FileKind, Message, Status
from tests.rigs.telegram.contract import AnnaOnTelegram, Shape, home_at, topic

PICTURE = Upload("red.png", "image/png", png())
TEXT = Upload("notes.txt", "text/plain", b"first\nsecond\n")
LONG = "long " * 400


async def sent(rig: AnnaOnTelegram) -> list[Message]:
    """The texts of the bot."""
    return [it for it in (await rig.driver.look()).messages if it.author != int(rig.anna)]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (PICTURE, FileKind.PHOTO),
        (TEXT, FileKind.DOCUMENT),
        # Pictures that Telegram does not show.
        (Upload("broken.png", "image/png", b"no picture at all"), FileKind.DOCUMENT),
        (Upload("large.png", "image/png", png(size=10_100_000)), FileKind.DOCUMENT),
        (Upload("moving.gif", "image/gif", b"GIF89a"), FileKind.DOCUMENT),
    ],
)
async def test_a_picture_is_sent_as_a_photo_and_other_files_as_documents(
    rig: AnnaOnTelegram, file: Upload, kind: FileKind
):
    await rig.adapter.send_file(await topic(rig), file, part("<b>Red</b>."), key="1")
    [message] = await sent(rig)
    assert message.file is not None
    assert (message.file.kind, message.file.name) == (kind, file.name)
    assert await rig.driver.content(message.file.id) == file.data
    assert (message.text, message.entities[0].type) == ("Red.", "bold")


@pytest.mark.parametrize(
    ("said", "texts"),
    [
        (Part("", ""), [""]),
        (Part("<b>broken", "broken"), ["broken"]),
        # A text that is too long for a caption follows the file.
        (part(LONG), ["", LONG.strip()]),
    ],
)
async def test_any_text_can_be_a_caption_and_be_edited(
    rig: AnnaOnTelegram, said: Part, texts: list[str]
):
    at = await topic(rig)
    receipt = await rig.adapter.send_file(at, PICTURE, said, key="1")
    assert [it.text for it in await sent(rig)] == texts
    assert {it.thread for it in await sent(rig)} == {int(at.thread_id or 0)}
    await rig.adapter.edit(at, receipt, part("Short."))
    assert [it.text for it in await sent(rig)] == [*texts[:-1], "Short."]


async def test_a_file_is_refused_where_the_bot_is_blocked(rig: AnnaOnTelegram):
    at = await home_at(rig, Shape.DM)
    await rig.driver.rights(int(rig.anna), int(at.chat_id), Status.KICKED)
    failed = await failure(rig.adapter.send_file(at, PICTURE, part("Red."), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert len(await rig.driver.calls("sendPhoto")) == 1
    assert await rig.driver.calls("sendDocument") == []


async def test_a_file_that_is_larger_than_announced_is_not_read_to_its_end(
    rig: AnnaOnTelegram, monkeypatch: pytest.MonkeyPatch
):
    small = dataclasses.replace(CAPABILITIES, attachment_bytes=1000)
    monkeypatch.setattr(TelegramAdapter, "capabilities", small)
    async with reading(rig.adapter) as reader:
        file = await one_attachment(rig, reader, await rig.place(Shape.DM), PHOTO)
    unsaid = Attachment(file.id, file.name, file.media_type, 0)
    assert not (await failure(rig.adapter.fetch(unsaid))).retry
