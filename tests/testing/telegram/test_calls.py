"""What the bot may call: what Telegram answers, in its own words."""

from __future__ import annotations

from typing import Any

import pytest
from telegram import (
    Bot,
    BotCommand,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    ChatMemberAdministrator,
    ChatMemberMember,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    ReactionTypeEmoji,
    ReplyParameters,
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


async def test_a_bot_is_who_its_token_says() -> None:
    async with stage(Settings(topics=False, reads_all=False)) as at:
        me = await at.bot.get_me()
        assert (me.id, me.is_bot, me.username) == (7000000001, True, "segue_test_bot")
        assert (me.has_topics_enabled, me.can_read_all_group_messages) == (False, False)


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


async def test_a_token_that_was_revoked_is_nobodys_until_it_is_given_back() -> None:
    async with stage() as at:
        await at.hands.bot(Settings(revoked=True))
        assert await at.post("getMe") == (401, "Unauthorized")
        await at.hands.bot(Settings())
        assert await at.post("getMe") == (200, "ok")


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
        assert (await at.hands.errors())[1] == "sendMessage: SendMessage has no parameter 'to'"
        assert not (await at.hands.look()).messages


async def test_a_method_that_the_server_does_not_have_yet_is_not_found() -> None:
    async with stage(Settings(missing=("sendMessageDraft",))) as at:
        dm = await at.hands.private(at.anna)
        assert await at.post("sendMessageDraft", chat_id=dm, draft_id=1) == (404, "Not Found")


async def test_every_call_is_recorded_with_what_it_said() -> None:
    async with stage() as at:
        await at.bot.send_message(at.forum, "hello", parse_mode=ParseMode.HTML)
        await refusal(at.bot.send_message(1, "hello"))
        first, second = await at.hands.calls("sendMessage")
        assert first.parameters == {"chat_id": at.forum, "text": "hello", "parse_mode": "HTML"}
        assert (first.status, first.description) == (200, "")
        assert (second.status, second.description) == (400, "Bad Request: chat not found")
        assert (await at.hands.look()).counts["sendMessage"] == 2


# Messages


async def test_a_message_is_shown_as_its_markup_says() -> None:
    async with stage() as at:
        sent = await at.bot.send_message(
            at.forum,
            "<b>Hi</b> &lt;Anna&gt;",
            parse_mode=ParseMode.HTML,
            link_preview_options=LinkPreviewOptions(is_disabled=True),
            reply_markup=keyboard(("Yes", "y"), ("No", "n")),
            disable_notification=True,
        )
        assert sent.text == "Hi <Anna>"
        message = await at.hands.message("Hi <Anna>", chat=at.forum)
        assert (message.id, message.labels) == (sent.message_id, ("Yes", "No"))
        assert [it.of(message.text) for it in message.entities] == ["Hi"]
        assert (message.preview, message.quiet, message.thread) == (False, True, None)
        assert message.source == "<b>Hi</b> &lt;Anna&gt;"


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


async def test_an_edit_changes_the_message_and_one_that_changes_nothing_is_refused() -> None:
    async with stage() as at:
        sent = await at.bot.send_message(at.forum, "a", reply_markup=keyboard(("Yes", "y")))
        where: dict[str, Any] = {"chat_id": at.forum, "message_id": sent.message_id}
        await at.bot.edit_message_text("b", **where)
        [message] = (await at.hands.look()).messages
        assert (message.text, message.labels, message.earlier) == ("b", (), ("a",))
        assert await refusal(at.bot.edit_message_text("b", **where)) == NOT_MODIFIED
        await at.bot.edit_message_reply_markup(**where, reply_markup=keyboard(("No", "n")))
        assert (await at.hands.look()).messages[0].labels == ("No",)
        long = at.bot.edit_message_text("x" * 4097, **where)
        assert await refusal(long) == "BadRequest: Message_too_long"
        gone = at.bot.edit_message_text("c", at.forum, 99)
        assert await refusal(gone) == "BadRequest: Message to edit not found"
        hers = await at.hands.say(at.anna, at.forum, "mine")
        other = at.bot.edit_message_text("c", at.forum, hers)
        assert await refusal(other) == "BadRequest: Message can't be edited"


async def test_messages_are_deleted_and_reacted_to() -> None:
    async with stage() as at:
        said = await at.hands.say(at.anna, at.forum, "hello")
        await at.bot.set_message_reaction(at.forum, said, "👍")
        assert (await at.hands.look()).messages[0].reactions == ("👍",)
        bad = at.bot.set_message_reaction(at.forum, said, ReactionTypeEmoji("🐙"))
        assert await refusal(bad) == "BadRequest: Reaction_invalid"
        await at.bot.delete_message(at.forum, said)
        again = at.bot.delete_message(at.forum, said)
        assert await refusal(again) == "BadRequest: Message to delete not found"


async def test_a_button_is_pressed_and_answered() -> None:
    async with stage() as at:
        sent = await at.bot.send_message(at.forum, "Well?", reply_markup=keyboard(("Yes", "y:1")))
        await at.hands.press(at.anna, at.forum, sent.message_id, "Yes")
        await at.hands.press(at.anna, at.forum, sent.message_id, "Yes", old=True)
        query, old = (update.callback_query for update in await at.updates())
        assert query is not None
        assert old is not None
        assert (query.data, query.from_user.id) == ("y:1", at.anna)
        assert query.message is not None
        assert query.message.message_id == sent.message_id
        assert old.message is not None
        assert not old.message.is_accessible
        await query.answer("Thanks")
        assert [it.text for it in (await at.hands.look()).answered] == ["Thanks"]
        late = at.bot.answer_callback_query("7")
        assert (await refusal(late)).startswith("BadRequest: Query is too old and response timeout")


async def test_a_reply_needs_what_it_replies_to() -> None:
    async with stage() as at:
        said = await at.hands.say(at.anna, at.forum, "hello")
        sent = await at.bot.send_message(at.forum, "hi", reply_to_message_id=said)
        assert sent.reply_to_message is not None
        assert sent.reply_to_message.message_id == said
        gone = at.bot.send_message(at.forum, "hi", reply_to_message_id=99)
        assert await refusal(gone) == "BadRequest: Message to be replied not found"
        anyway = ReplyParameters(99, allow_sending_without_reply=True)
        await at.bot.send_message(at.forum, "hi", reply_parameters=anyway)


async def test_typing_and_drafts_are_shown() -> None:
    async with stage() as at:
        dm = await at.hands.private(at.anna)
        await at.bot.send_chat_action(dm, "typing")
        for text in ("I am", "I am <b>here</b>"):
            await at.bot.send_message_draft(dm, 5, text, parse_mode=ParseMode.HTML)
        shown = await at.hands.look(dm)
        assert [(it.action, it.times) for it in shown.typing] == [("typing", 1)]
        assert [(it.text, it.times) for it in shown.drafts] == [("I am here", 2)]
        await at.bot.send_message(dm, "I am here.")
        assert not (await at.hands.look(dm)).drafts
        group = at.bot.send_message_draft(at.forum, 5, "x")
        assert await refusal(group) == "BadRequest: Textdraft_peer_invalid"


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


async def test_a_chat_says_what_it_is_and_what_the_bot_is_in_it() -> None:
    async with stage() as at:
        bob = await at.hands.user("Bob")
        group = await at.hands.chat(Kind.SUPERGROUP, [at.anna, bob], description="work")
        dm = await at.hands.private(at.anna)
        told = await at.bot.get_chat(group)
        assert (told.type, told.title, told.description) == ("supergroup", "Team", "work")
        assert not told.is_forum
        assert (await at.bot.get_chat(at.forum)).is_forum
        assert (await at.bot.get_chat(dm)).first_name == "Anna"
        assert isinstance(await at.bot.get_chat_member(group, at.bot.id), ChatMemberMember)
        member = await at.bot.get_chat_member(at.forum, at.bot.id)
        assert isinstance(member, ChatMemberAdministrator)
        assert member.can_manage_topics
        assert (await at.bot.get_chat_member(group, at.anna)).status == "creator"
        assert (await at.bot.get_chat_member(group, bob)).status == "member"
        assert (await at.bot.get_chat_member(at.forum, bob)).status == "left"
        assert await at.bot.get_chat_member_count(group) == 3
        names = [it.user.id for it in await at.bot.get_chat_administrators(at.forum)]
        assert names == [at.anna, at.bot.id]


async def test_commands_are_kept_by_scope() -> None:
    async with stage() as at:
        everywhere, here = BotCommandScopeAllPrivateChats(), BotCommandScopeChat(at.forum)
        await at.bot.set_my_commands([BotCommand("new", "Begin anew")])
        await at.bot.set_my_commands([BotCommand("stop", "Stop")], scope=here)
        assert [it.command for it in await at.bot.get_my_commands()] == ["new"]
        assert [it.command for it in await at.bot.get_my_commands(scope=here)] == ["stop"]
        assert not await at.bot.get_my_commands(scope=everywhere)
        await at.bot.delete_my_commands(scope=here)
        assert [menu.scope.type for menu in (await at.hands.look()).menus] == ["default"]
        wrong = at.bot.set_my_commands([BotCommand("New", "Begin anew")])
        assert await refusal(wrong) == "BadRequest: Bot_command_invalid"


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
