"""Files that the bot sends and gets."""

from __future__ import annotations

from segue.testing.telegram import FileKind, Kind, Upload
from tests.testing.telegram.stage import refusal, stage

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
MEGABYTE = 1024 * 1024


async def test_a_photo_is_a_picture_of_at_most_10_megabytes() -> None:
    async with stage() as at:
        sent = await at.bot.send_photo(at.forum, PICTURE)
        assert sent.photo[-1].file_size == len(PICTURE)
        [message] = (await at.hands.look()).messages
        assert message.file is not None
        assert message.file.kind is FileKind.PHOTO
        none = at.bot.send_photo(at.forum, b"not a picture")
        assert await refusal(none) == "BadRequest: Image_process_failed"
        large = at.bot.send_photo(at.forum, PICTURE + bytes(10 * MEGABYTE))
        assert "is too big for a photo" in await refusal(large)


async def test_a_file_has_a_size_and_its_caption_a_length() -> None:
    async with stage() as at:
        await at.bot.send_document(at.forum, b"x", caption="x" * 1024)
        long = at.bot.send_document(at.forum, b"x", caption="x" * 1025)
        assert await refusal(long) == "BadRequest: Message caption is too long"
        empty = at.bot.send_document(at.forum, b"")
        assert await refusal(empty) == "BadRequest: File must be non-empty"
        large = at.bot.send_document(at.forum, bytes(50 * MEGABYTE + 1), write_timeout=30)
        assert "Request Entity Too Large" in await refusal(large)


async def test_no_more_than_20_megabytes_are_downloaded() -> None:
    async with stage() as at:
        upload = Upload(name="a", media_type="a/b", content=bytes(20 * MEGABYTE + 1))
        group = await at.hands.chat(Kind.GROUP, [at.anna])
        await at.hands.say(at.anna, group, "", files=[upload])
        [update] = await at.updates()
        assert update.message is not None
        assert update.message.document is not None
        large = at.bot.get_file(update.message.document.file_id)
        assert await refusal(large) == "BadRequest: File is too big"
        assert await refusal(at.bot.get_file("x")) == "BadRequest: Invalid file_id"
