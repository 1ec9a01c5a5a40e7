"""What the bot is told, and how it gets to know it."""

from __future__ import annotations

import asyncio
import json

from telegram import Update

from segue.testing.telegram import FileKind, Kind, Settings, Status, Upload
from tests.testing.telegram.stage import Stage, refusal, stage


async def texts(at: Stage, **more: int) -> list[str | None]:
    return [it.effective_message and it.effective_message.text for it in await at.updates(**more)]


# Polling


async def test_an_update_comes_until_it_is_confirmed() -> None:
    async with stage() as at:
        for text in ("one", "two", "three"):
            await at.hands.say(at.anna, at.forum, text)
        first = (await at.updates())[0].update_id
        assert await texts(at) == ["one", "two", "three"]
        assert await texts(at, limit=2) == ["one", "two"]
        assert await texts(at, offset=first + 1) == ["two", "three"]
        assert await texts(at) == ["two", "three"]
        assert await texts(at, offset=-1) == ["three"]
        assert (await at.hands.look()).unconfirmed == 1


async def test_a_poll_waits_for_what_comes() -> None:
    async with stage() as at:
        polling = asyncio.ensure_future(at.bot.get_updates(timeout=10))
        await at.hands.until(lambda shown: shown.counts.get("getUpdates") == 1)
        await at.hands.say(at.anna, at.forum, "hello")
        [update] = await polling
        assert update.message is not None
        assert update.message.text == "hello"


async def test_one_bot_polls_at_a_time_and_none_beside_a_webhook() -> None:
    async with stage() as at:
        polling = asyncio.ensure_future(at.bot.get_updates(timeout=10))
        await at.hands.until(lambda shown: shown.counts.get("getUpdates") == 1)
        assert (await at.http.get("getUpdates")).json() == {"ok": True, "result": []}
        assert (await refusal(polling)).startswith("Conflict: terminated by other getUpdates")
        await at.hands.bot(Settings(webhook="https://example.org"))
        assert (await refusal(at.updates())).startswith("Conflict: can't use getUpdates method")
        assert (await at.bot.get_webhook_info()).url == "https://example.org"
        await at.bot.delete_webhook()
        assert await texts(at) == []


async def test_only_what_is_asked_for_comes() -> None:
    async with stage() as at:
        await at.updates(allowed_updates=["edited_message"])
        said = await at.hands.say(at.anna, at.forum, "one")
        await at.hands.edit(at.forum, said, "two")
        [update] = await at.updates()
        assert update.edited_message is not None
        assert update.edited_message.text == "two"
        await at.updates(allowed_updates=[])
        await at.hands.say(at.anna, at.forum, "three")
        assert await texts(at) == ["two", "three"]


async def test_updates_come_twice_and_backwards_when_a_test_wants_that() -> None:
    async with stage() as at:
        await at.hands.say(at.anna, at.forum, "one")
        [one] = await at.updates()
        assert await texts(at, offset=one.update_id + 1) == []
        await at.hands.repeat()
        assert [it.update_id for it in await at.updates(offset=one.update_id + 1)] == [
            one.update_id
        ]
        assert await texts(at, offset=one.update_id + 1) == []
        await at.hands.hold()
        for text in ("two", "three"):
            await at.hands.say(at.anna, at.forum, text)
        assert await texts(at) == []
        await at.hands.release(backwards=True)
        three, two = await at.updates()
        assert three.update_id > two.update_id
        assert await texts(at, offset=two.update_id + 1) == ["three"]


async def test_malformed_updates_come_with_ids() -> None:
    async with stage() as at:
        frames = ['{"message": {"text": 7}, "update_id": "x"}', "[1]", '{"a', "[" * 99_999]
        await at.hands.inject(frames)
        answer = (await at.http.get("getUpdates")).json()
        first = answer["result"][0].pop("update_id")
        assert isinstance(first, int)
        assert answer["result"][0] == {"message": {"text": 7}}
        assert answer["result"][1] == {"update_id": first + 1, "message": [1]}
        assert answer["result"][2] == {"update_id": first + 2, "message": '{"a'}
        assert answer["result"][3]["update_id"] == first + 3
        assert await texts(at, offset=first + 4) == []


# What is told


def kinds(updates: tuple[Update, ...]) -> list[str]:
    return [
        next(name for name in json.loads(it.to_json()) if name != "update_id") for it in updates
    ]


async def test_a_bot_is_told_what_becomes_of_it_in_a_chat() -> None:
    async with stage() as at:
        dm = await at.hands.private(at.anna)
        await at.hands.join(at.anna, at.forum)
        await at.hands.join(at.anna, dm)
        await at.hands.rights(at.anna, dm, Status.KICKED)
        updates = await at.updates()
        assert kinds(updates) == ["my_chat_member", "message", "my_chat_member", "my_chat_member"]
        changes = [it.my_chat_member for it in updates if it.my_chat_member is not None]
        assert [(it.old_chat_member.status, it.new_chat_member.status) for it in changes] == [
            ("left", "administrator"),
            ("kicked", "member"),
            ("member", "kicked"),
        ]
        assert {it.from_user.id for it in changes} == {at.anna}
        assert updates[1].message is not None
        assert [it.id for it in updates[1].message.new_chat_members] == [at.bot.id]


async def test_in_privacy_mode_a_bot_hears_what_is_meant_for_it() -> None:
    async with stage(Settings(reads_all=False)) as at:
        for kind in (Kind.GROUP, Kind.SUPERGROUP):
            group = await at.hands.chat(kind, [at.anna])
            sent = await at.bot.send_message(group, "hi")
            hers = await at.hands.say(at.anna, group, "to nobody")
            await at.hands.say(at.anna, group, "to herself", reply_to=hers)
            for text in ("/help@other_bot", "so, @other_bot?"):
                await at.hands.say(at.anna, group, text)
            for text in ("/help", "/help@segue_test_bot", "so, @Segue_Test_Bot?"):
                await at.hands.say(at.anna, group, text)
            await at.hands.say(at.anna, group, "to it", reply_to=sent.message_id)
            updates = await at.updates()
            assert [it.message and it.message.text for it in updates] == [
                "/help",
                "/help@segue_test_bot",
                "so, @Segue_Test_Bot?",
                "to it",
            ]
            await at.updates(offset=updates[-1].update_id + 1)
        await at.hands.say(at.anna, at.forum, "where it is an administrator")
        await at.hands.say(at.anna, await at.hands.private(at.anna), "in private")
        assert await texts(at) == ["where it is an administrator", "in private"]


async def test_others_than_people_write_too() -> None:
    async with stage() as at:
        other = await at.hands.user("Other", bot=True)
        channel = await at.hands.chat(Kind.CHANNEL, [at.anna], admin=True)
        await at.hands.say(other, at.forum, "a bot")
        await at.hands.say(at.anna, at.forum, "an administrator", anonymous=True)
        post = await at.hands.say(at.anna, channel, "a post")
        await at.hands.edit(channel, post, "another")
        updates = await at.updates()
        assert kinds(updates) == ["message", "message", "channel_post", "edited_channel_post"]
        bot, hidden, posted = (it.effective_message for it in updates[:3])
        assert bot is not None
        assert bot.from_user is not None
        assert bot.from_user.is_bot
        assert hidden is not None
        assert hidden.from_user is not None
        assert hidden.sender_chat is not None
        assert (hidden.from_user.username, hidden.sender_chat.id) == (
            "GroupAnonymousBot",
            at.forum,
        )
        assert posted is not None
        assert posted.from_user is None


async def test_files_come_as_what_they_are_and_can_be_downloaded() -> None:
    async with stage() as at:
        dm = await at.hands.private(at.anna)
        for kind in FileKind:
            upload = Upload(name="a.bin", media_type="a/b", content=b"\0\r\n" * 99, kind=kind)
            await at.hands.say(at.anna, dm, "a file", files=[upload])
        messages = [update.message for update in await at.updates()]
        for kind, message in zip(FileKind, messages, strict=True):
            assert message is not None
            assert message.caption == "a file"
            found = getattr(message, kind.value)
            file = await (found[-1] if kind is FileKind.PHOTO else found).get_file()
            assert bytes(await file.download_as_bytearray()) == b"\0\r\n" * 99
        assert messages[0] is not None
        assert messages[0].document is not None
        assert (messages[0].document.file_name, messages[0].document.mime_type) == ("a.bin", "a/b")


async def test_several_files_are_an_album() -> None:
    async with stage() as at:
        dm = await at.hands.private(at.anna)
        uploads = [Upload(name=f"{n}.txt", media_type="text/plain", content=b"x") for n in "ab"]
        await at.hands.say(at.anna, dm, "two", files=uploads)
        first, second = (update.message for update in await at.updates())
        assert first is not None
        assert second is not None
        assert (first.caption, second.caption) == ("two", None)
        assert first.media_group_id == second.media_group_id is not None
