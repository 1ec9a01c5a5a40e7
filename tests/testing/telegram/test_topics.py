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


async def test_a_topic_is_opened_written_in_and_answered_in() -> None:
    async with stage() as at:
        for chat in (at.forum, await at.hands.private(at.anna)):
            topic = await at.bot.create_forum_topic(chat, " Moving\n in ")
            thread = topic.message_thread_id
            assert topic.name == "Moving in"
            sent = await at.bot.send_message(chat, "I am here.", message_thread_id=thread)
            assert (sent.message_thread_id, sent.is_topic_message) == (thread, True)
            await at.hands.say(at.anna, chat, "Good.", thread=thread)
            await at.hands.say(at.anna, chat, "And here?")
            inside, outside = (await heard(at))[-2:]
            assert (inside.message_thread_id, inside.is_topic_message) == (thread, True)
            assert (outside.message_thread_id, outside.is_topic_message) == (None, None)
            [shown] = (await at.hands.look(chat)).topics
            assert (shown.id, shown.name, shown.by) == (thread, "Moving in", at.bot.id)


async def test_what_is_in_a_topic_replies_to_its_beginning() -> None:
    async with stage() as at:
        thread = (await at.bot.create_forum_topic(at.forum, "x")).message_thread_id
        await at.hands.say(at.anna, at.forum, "plain", thread=thread)
        [message] = await heard(at)
        assert message.reply_to_message is not None
        assert message.reply_to_message.message_id == thread
        assert message.reply_to_message.forum_topic_created is not None


async def test_two_forums_have_topics_of_the_same_ids() -> None:
    async with stage() as at:
        other = await at.hands.chat(Kind.FORUM, [at.anna], manage_topics=True)
        threads = [await at.bot.create_forum_topic(chat, "x") for chat in (at.forum, other)]
        assert len({topic.message_thread_id for topic in threads}) == 1
        await at.bot.send_message(at.forum, "x", message_thread_id=threads[0].message_thread_id)
        assert not (await at.hands.look(other)).messages


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


async def test_a_bot_manages_what_it_has_opened_whatever_its_rights_are() -> None:
    async with stage() as at:
        own = (await at.bot.create_forum_topic(at.forum, "x")).message_thread_id
        hers = await at.hands.open_topic(at.anna, at.forum, "y")
        await at.hands.rights(at.anna, at.forum, Status.MEMBER)
        await at.bot.close_forum_topic(at.forum, own)
        closing = at.bot.close_forum_topic(at.forum, hers)
        reason = "BadRequest: Not enough rights to close or open the topic"
        assert await refusal(closing) == reason
        dm = await at.hands.private(at.anna)
        private = (await at.bot.create_forum_topic(dm, "x")).message_thread_id
        await at.bot.edit_forum_topic(dm, private, "y")
        closing = at.bot.close_forum_topic(dm, private)
        assert await refusal(closing) == "BadRequest: The chat is not a supergroup forum"


async def test_a_topic_has_a_name_of_1_to_128_characters() -> None:
    async with stage(errors=1) as at:
        await at.bot.create_forum_topic(at.forum, "x" * 128)
        empty = at.bot.create_forum_topic(at.forum, " \n ")
        assert await refusal(empty) == "BadRequest: Name must be non-empty"
        await refusal(at.bot.create_forum_topic(at.forum, "x" * 129))


async def test_in_a_closed_topic_only_those_write_who_opened_it_or_manage_topics() -> None:
    async with stage() as at:
        thread = (await at.bot.create_forum_topic(at.forum, "x")).message_thread_id
        await at.hands.close_topic(at.anna, at.forum, thread)
        [closed] = await heard(at)
        assert closed.forum_topic_closed is not None
        assert closed.message_thread_id == thread
        await at.bot.send_message(at.forum, "x", message_thread_id=thread)
        assert (await at.hands.look()).topics[0].closed, "it stays closed"
        await at.hands.say(at.anna, at.forum, "the group is hers", thread=thread)
        ben = await at.hands.user("Ben")
        with pytest.raises(OrderRefused, match="TOPIC_CLOSED"):
            await at.hands.say(ben, at.forum, "x", thread=thread)
        await at.bot.reopen_forum_topic(at.forum, thread)
        await at.hands.say(ben, at.forum, "x", thread=thread)
        again = at.bot.reopen_forum_topic(at.forum, thread)
        assert await refusal(again) == "BadRequest: Topic_not_modified"
        await at.bot.close_forum_topic(at.forum, thread)
        assert (await at.hands.look()).topics[0].closed


async def test_a_bot_without_rights_does_not_write_in_a_closed_topic_of_anothers() -> None:
    async with stage() as at:
        thread = await at.hands.open_topic(at.anna, at.forum, "hers")
        await at.hands.close_topic(at.anna, at.forum, thread)
        await at.hands.rights(at.anna, at.forum, Status.MEMBER)
        sending = at.bot.send_message(at.forum, "x", message_thread_id=thread)
        assert await refusal(sending) == "BadRequest: Topic_closed"


async def test_a_topic_is_renamed_and_deleted() -> None:
    async with stage() as at:
        thread = (await at.bot.create_forum_topic(at.forum, "x")).message_thread_id
        await at.bot.edit_forum_topic(at.forum, thread, "y")
        assert (await at.hands.topic(at.forum)).name == "y"
        await at.bot.delete_forum_topic(at.forum, thread)
        assert not (await at.hands.look()).topics
        gone = at.bot.edit_forum_topic(at.forum, thread, "z")
        assert await refusal(gone) == "BadRequest: Topic_id_invalid"


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


async def test_people_open_topics_too() -> None:
    async with stage() as at:
        thread = await at.hands.open_topic(at.anna, at.forum, "Hers")
        [opened] = await heard(at)
        assert opened.forum_topic_created is not None
        assert (opened.message_id, opened.message_thread_id) == (thread, thread)
        await at.bot.send_message(at.forum, "x", message_thread_id=thread)


async def test_the_general_topic_has_no_id() -> None:
    async with stage() as at:
        sending = at.bot.send_message(at.forum, "x", message_thread_id=1)
        assert await refusal(sending) == NO_THREAD


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
