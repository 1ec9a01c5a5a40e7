"""Topics and threads, in every kind of chat."""

from __future__ import annotations

import pytest
from telegram import Message

from segue.testing.telegram import Kind, OrderRefused, Settings, Status
from tests.testing.telegram.stage import Stage, refusal, stage

NO_FORUM = "BadRequest: The chat is not a forum"
NO_THREAD = "BadRequest: Message thread not found"


async def heard(at: Stage) -> list[Message]:
    """The messages among what waits."""
    return [update.message for update in await at.updates() if update.message is not None]


async def test_chats_without_topics_have_none() -> None:
    async with stage(Settings(topics=False)) as at:
        bob = await at.hands.private(await at.hands.user("Bob"), topics=True)
        for chat in (
            await at.hands.private(at.anna),
            await at.hands.chat(Kind.GROUP, [at.anna], admin=True),
            await at.hands.chat(Kind.SUPERGROUP, [at.anna], manage_topics=True),
            await at.hands.chat(Kind.CHANNEL, [at.anna], admin=True),
        ):
            assert await refusal(at.bot.create_forum_topic(chat, "x")) == NO_FORUM
            lost = at.bot.send_message(chat, "x", message_thread_id=7)
            assert await refusal(lost) == NO_THREAD
        await at.bot.create_forum_topic(bob, "x")


async def test_a_bot_needs_the_right_to_manage_topics() -> None:
    async with stage() as at:
        for status in (Status.MEMBER, Status.ADMINISTRATOR):
            await at.hands.rights(at.anna, at.forum, status)
            creating = at.bot.create_forum_topic(at.forum, "x")
            assert await refusal(creating) == "BadRequest: Not enough rights to create a topic"
        await at.hands.rights(at.anna, at.forum, Status.ADMINISTRATOR, manage_topics=True)
        await at.bot.create_forum_topic(at.forum, "x")


async def test_in_a_closed_topic_only_those_write_who_opened_it_or_manage_topics() -> None:
    async with stage() as at:
        thread = (await at.bot.create_forum_topic(at.forum, "x")).message_thread_id
        await at.hands.close_topic(at.anna, at.forum, thread)
        [closed] = await heard(at)
        assert closed.forum_topic_closed is not None
        assert closed.message_thread_id == thread
        await at.bot.send_message(at.forum, "x", message_thread_id=thread)
        assert (await at.hands.look()).threads[0].closed, "it stays closed"
        await at.hands.say(at.anna, at.forum, "the group is hers", thread=thread)
        ben = await at.hands.user("Ben")
        with pytest.raises(OrderRefused, match="TOPIC_CLOSED"):
            await at.hands.say(ben, at.forum, "x", thread=thread)
        await at.bot.reopen_forum_topic(at.forum, thread)
        await at.hands.say(ben, at.forum, "x", thread=thread)
        again = at.bot.reopen_forum_topic(at.forum, thread)
        assert await refusal(again) == "BadRequest: Topic_not_modified"


async def test_a_bot_without_rights_does_not_write_in_a_closed_topic_of_anothers() -> None:
    async with stage() as at:
        thread = await at.hands.open_topic(at.anna, at.forum, "hers")
        await at.hands.close_topic(at.anna, at.forum, thread)
        await at.hands.rights(at.anna, at.forum, Status.MEMBER)
        sending = at.bot.send_message(at.forum, "x", message_thread_id=thread)
        assert await refusal(sending) == "BadRequest: Topic_closed"


async def test_a_deleted_topic_is_not_found_or_leaks_into_the_chat() -> None:
    async with stage() as at:
        dm = await at.hands.private(at.anna)
        for silently in (False, True):
            thread = (await at.bot.create_forum_topic(dm, "x")).message_thread_id
            await at.bot.send_message(dm, "before", message_thread_id=thread)
            await at.hands.delete_topic(dm, thread, silently=silently)
            await at.bot.send_chat_action(dm, "typing", message_thread_id=thread)
            sending = at.bot.send_message(dm, "after", message_thread_id=thread)
            if not silently:
                assert await refusal(sending) == NO_THREAD
                continue
            sent = await sending
            assert (sent.message_thread_id, sent.is_topic_message) == (None, None)
            assert (await at.hands.look(dm)).texts == ["after"]


async def test_a_reply_in_a_supergroup_has_a_thread_that_is_no_topic() -> None:
    async with stage() as at:
        for chat in (at.forum, await at.hands.chat(Kind.SUPERGROUP, [at.anna])):
            first = await at.hands.say(at.anna, chat, "first")
            second = await at.hands.say(at.anna, chat, "second", reply_to=first)
            await at.hands.say(at.anna, chat, "third", reply_to=second)
            for message in (await heard(at))[-2:]:
                assert (message.message_thread_id, message.is_topic_message) == (first, None)
            lost = at.bot.send_message(chat, "x", message_thread_id=first)
            assert await refusal(lost) == NO_THREAD
        group = await at.hands.chat(Kind.GROUP, [at.anna])
        first = await at.hands.say(at.anna, group, "first")
        await at.hands.say(at.anna, group, "second", reply_to=first)
        assert (await heard(at))[-1].message_thread_id is None
