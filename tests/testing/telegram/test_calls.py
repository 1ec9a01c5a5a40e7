"""What the bot may call: what Telegram answers, in its own words."""

from __future__ import annotations

import pytest
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
)
from telegram.constants import ParseMode
from telegram.error import InvalidToken

from segue.testing.telegram import TOKEN, Kind, Settings, Status
from tests.testing.telegram.stage import refusal, stage

NOT_MODIFIED = (
    "BadRequest: Message is not modified: specified new message content and reply markup are "
    "exactly the same as a current content and reply markup of the message"
)


def keyboard(*buttons: tuple[str, str]) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup(
        [[InlineKeyboardButton(label, callback_data=data)] for label, data in buttons]
    )


# Who may call what


async def test_a_token_of_nobodys_is_401_and_one_of_no_form_is_404() -> None:
    async with stage() as at:
        for token, status, reason in (
            (TOKEN[:-1] + "2", 401, "Unauthorized"),
            ("nonsense", 404, "Not Found"),
        ):
            answer = await at.http.post(f"{at.peer.base_url}{token}/getMe")
            assert (answer.status_code, answer.json()["description"]) == (status, reason)
            with pytest.raises(InvalidToken):
                async with Bot(token, base_url=at.peer.base_url):
                    pass


async def test_what_is_malformed_is_refused_and_noted() -> None:
    async with stage(errors=9) as at:
        assert await at.post("getme") == (200, "ok")
        assert await at.post("sing") == (404, "Not Found")
        for method, parameters in (
            ("sendMessage", {"chat_id": at.forum, "text": "x", "to": 1}),
            ("sendMessage", {"text": "x"}),
            ("sendMessage", {"chat_id": at.forum, "text": 7}),
            ("sendMessage", {"chat_id": at.forum, "text": "x", "parse_mode": "MarkdownV2"}),
            ("getUpdates", {"limit": 101}),
            ("getUpdates", {"allowed_updates": ["messages"]}),
            ("sendChatAction", {"chat_id": at.forum, "action": "singing"}),
        ):
            status, description = await at.post(method, **parameters)
            assert (status, description[:13]) == (400, "Bad Request: ")
        twice = await at.http.post("getChat", content=b"chat_id=1&chat_id=2")
        assert twice.status_code == 400
        unknown = "sendMessage: Bad Request: SendMessage has no parameter 'to'"
        assert (await at.hands.errors())[1] == unknown
        assert not (await at.hands.look()).messages


# Messages


async def test_a_text_is_neither_empty_nor_too_long() -> None:
    async with stage() as at:
        await at.bot.send_message(at.forum, "👍" * 2048)
        await at.bot.send_message(at.forum, f"<b>{'x' * 4096}</b>", parse_mode=ParseMode.HTML)
        for text, reason in (
            ("", "Message text is empty"),
            (" \n\u200b", "Text must be non-empty"),
            ("👍" * 2049, "Message is too long"),
            ("x" * 4097, "Message is too long"),
        ):
            assert await refusal(at.bot.send_message(at.forum, text)) == f"BadRequest: {reason}"
        broken = at.bot.send_message(at.forum, "<b>x", parse_mode=ParseMode.HTML)
        assert (await refusal(broken)).startswith("BadRequest: Can't parse entities: ")
        assert len((await at.hands.look()).messages) == 2


async def test_the_data_of_a_button_has_1_to_64_bytes() -> None:
    async with stage() as at:
        await at.bot.send_message(at.forum, "x", reply_markup=keyboard(("Yes", "ü" * 32)))
        long = at.bot.send_message(at.forum, "x", reply_markup=keyboard(("Yes", "ü" * 32 + "x")))
        assert await refusal(long) == "BadRequest: Button_data_invalid"
        bare = InlineKeyboardMarkup([[InlineKeyboardButton("Yes")]])
        without = at.bot.send_message(at.forum, "x", reply_markup=bare)
        assert (await refusal(without)).endswith(
            "text buttons are unallowed in the inline keyboard"
        )


# Chats


async def test_a_chat_that_the_bot_cannot_write_in_says_why() -> None:
    async with stage() as at:
        other = await at.hands.user("Other", bot=True)
        dm = await at.hands.private(await at.hands.user("Bob"))
        group = await at.hands.chat(Kind.GROUP, [at.anna])
        channel = await at.hands.chat(Kind.CHANNEL, [at.anna])
        for chat, reason in (
            (1, "BadRequest: Chat not found"),
            (at.anna, "Forbidden: bot can't initiate conversation with a user"),
            (other, "Forbidden: bots can't send messages to bots"),
            (channel, "BadRequest: Need administrator rights in the channel chat"),
        ):
            assert await refusal(at.bot.send_message(chat, "x")) == reason
        for chat, status, reason in (
            (dm, Status.KICKED, "bot was blocked by the user"),
            (group, Status.KICKED, "bot was kicked from the group chat"),
            (at.forum, Status.KICKED, "bot was kicked from the supergroup chat"),
            (at.forum, Status.LEFT, "bot is not a member of the supergroup chat"),
        ):
            await at.hands.rights(at.anna, chat, status)
            assert await refusal(at.bot.send_message(chat, "x")) == f"Forbidden: {reason}"


async def test_a_group_that_was_upgraded_names_its_supergroup() -> None:
    async with stage() as at:
        group = await at.hands.chat(Kind.GROUP, [at.anna])
        after = await at.hands.migrate(group)
        answer = await at.http.post("sendMessage", json={"chat_id": group, "text": "x"})
        assert answer.json() == {
            "ok": False,
            "error_code": 400,
            "description": "Bad Request: group chat was upgraded to a supergroup chat",
            "parameters": {"migrate_to_chat_id": after},
        }
        await at.bot.send_message(after, "x")
        told = [update.message for update in await at.updates()]
        assert [(it and it.migrate_to_chat_id, it and it.migrate_from_chat_id) for it in told] == [
            (after, None),
            (None, group),
        ]


async def test_too_many_messages_are_too_many() -> None:
    async with stage(Settings(chat_seconds=30.0)) as at:
        for _ in range(5):
            await at.bot.send_message(at.forum, "x")
        answer = await at.http.post("sendMessage", json={"chat_id": at.forum, "text": "x"})
        seconds = answer.json()["parameters"]["retry_after"]
        assert answer.status_code == 429
        assert 1 <= seconds <= 30
        assert answer.json()["description"] == f"Too Many Requests: retry after {seconds}"
        await at.bot.send_message(await at.hands.private(at.anna), "x")
