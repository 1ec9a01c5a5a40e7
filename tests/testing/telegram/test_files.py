"""Files that the bot sends and gets."""

from __future__ import annotations

from segue.testing.telegram import FileKind, Kind, Upload
from tests.testing.telegram.stage import refusal, stage

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
MEGABYTE = 1024 * 1024


async def test_a_document_is_shown_with_its_caption() -> None:
    async with stage() as at:
        thread = (await at.bot.create_forum_topic(at.forum, "x")).message_thread_id
        content = bytes(range(256)) * 3 + b"\r\n--\r\n"
        sent = await at.bot.send_document(
            at.forum,
            content,
            filename="größe.txt",
            caption="<b>x</b>",
            parse_mode="HTML",
            message_thread_id=thread,
        )
        assert sent.document is not None
        assert (sent.document.file_name, sent.message_thread_id) == ("größe.txt", thread)
        [message] = (await at.hands.look()).messages
        assert message.file is not None
        assert (message.text, message.file.media_type) == ("x", "text/plain")
        assert await at.hands.content(message.file.id) == content
        again = await at.bot.send_document(at.forum, sent.document.file_id)
        assert again.document == sent.document


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


async def test_a_caption_is_edited_and_a_text_is_not_a_caption() -> None:
    async with stage() as at:
        file = await at.bot.send_document(at.forum, b"x", caption="a")
        text = await at.bot.send_message(at.forum, "a")
        await at.bot.edit_message_caption(at.forum, file.message_id, caption="b")
        assert (await at.hands.look()).texts == ["b", "a"]
        wrong = at.bot.edit_message_text("b", at.forum, file.message_id)
        assert await refusal(wrong) == "BadRequest: There is no text in the message to edit"
        wrong = at.bot.edit_message_caption(at.forum, text.message_id, caption="b")
        assert await refusal(wrong) == "BadRequest: There is no caption in the message to edit"


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
