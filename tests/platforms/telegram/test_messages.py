"""Sending on Telegram, and its errors."""

from __future__ import annotations

import dataclasses

import pytest

from segue.core.address import Address, ChatType
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.base import Part
from segue.platforms.markup import parts
from segue.platforms.telegram.client import FAILURES, result
from segue.testing.contract.rig import failure, part, reading
from tests.fakes.telegram import Settings, Status, Trouble
from tests.rigs.telegram.contract import AnnaOnTelegram, Shape, home_at, topic


def place(at: Address) -> tuple[int, int]:
    assert at.thread_id is not None
    return int(at.chat_id), int(at.thread_id)


# Messages


async def test_markup_is_sent_without_link_previews(rig: AnnaOnTelegram):
    at = await home_at(rig, Shape.DM)
    [made] = parts("**Look** at [this](https://example.com) & `x < 1`", rig.adapter.capabilities)
    receipt = await rig.adapter.send(at, made, key="1")
    message = await rig.driver.message("Look at this & x < 1")
    assert [entity.type for entity in message.entities] == ["bold", "text_link", "code"]
    assert not message.preview
    [made] = parts("See https://example.com", rig.adapter.capabilities)
    await rig.adapter.edit(at, receipt, made)
    assert not (await rig.driver.message("See https://example.com")).preview


# Topics


async def is_closed(rig: AnnaOnTelegram) -> bool:
    [found] = (await rig.driver.look()).threads
    return found.closed


async def test_a_closed_topic_is_reopened(rig: AnnaOnTelegram):
    at = await topic(rig)
    async with reading(rig.adapter) as reader:
        await rig.adapter.send(at, part("One."), key="1")
        assert await rig.driver.calls("reopenForumTopic") == []
        await rig.driver.close_topic(int(rig.anna), *place(at))
        chat, thread = place(at)
        await rig.driver.say(int(rig.anna), chat, "closed", thread=thread)
        while (await reader.next()).text != "closed":
            pass
    for text in ("Still here.", "And here."):
        await rig.adapter.send(at, part(text), key=text)
        message = await rig.driver.message(text)
        assert (message.chat, message.thread) == place(at)
    assert not await is_closed(rig)
    assert len(await rig.driver.calls("reopenForumTopic")) == 1


@pytest.mark.parametrize("trouble", [None, Trouble.BUSY, Trouble.BROKEN, Trouble.DROP_AFTER])
async def test_a_topic_closed_before_a_restart_is_reopened_even_if_the_first_attempt_fails(
    rig: AnnaOnTelegram, trouble: Trouble | None
):
    at = await topic(rig)
    await rig.driver.close_topic(int(rig.anna), *place(at))
    restarted = rig.another()
    await restarted.connect()
    if trouble is not None:
        await rig.driver.fail("reopenForumTopic", trouble)
    for text in ("Still here.", "And here."):
        await restarted.send(at, part(text), key=text)
    await restarted.close()
    assert not await is_closed(rig)
    assert len(await rig.driver.calls("reopenForumTopic")) == (2 if trouble else 1)
    assert len(await rig.driver.calls("sendMessage")) == 2


@pytest.mark.parametrize("shape", [Shape.FORUM, Shape.TOPICS])
async def test_a_message_that_lands_outside_a_deleted_topic_is_deleted(
    rig: AnnaOnTelegram, shape: Shape
):
    at = await topic(rig, shape)
    await rig.driver.delete_topic(*place(at), silently=True)
    failed = await failure(rig.adapter.send(at, part("For you only."), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "deleted" in failed.reason
    assert not await rig.seen("For you only.")
    [deleted] = await rig.driver.calls("deleteMessage")
    assert deleted.status == 200


async def test_a_topic_is_opened_where_the_home_is_a_topic_itself(rig: AnnaOnTelegram):
    first = await topic(rig)
    second = await rig.adapter.create_handoff_thread(first, "More", key="2")
    assert second is not None
    assert (second.chat_id, second.thread_id != first.thread_id) == (first.chat_id, True)


# Chats that refuse the bot


@pytest.mark.parametrize(
    ("shape", "status", "advice"),
    [
        (Shape.DM, Status.KICKED, "unblock it"),
        (Shape.SUPERGROUP, Status.KICKED, "add it there again"),
        (Shape.SUPERGROUP, Status.LEFT, "add it there again"),
        (Shape.FORUM, None, "/resume in another chat"),
        (Shape.REFUSED, None, "the topic is closed"),
    ],
)
async def test_an_error_in_a_chat_without_write_access_says_what_to_do(
    rig: AnnaOnTelegram, shape: Shape, status: Status | None, advice: str
):
    at = await home_at(rig, shape)
    anna = int(rig.anna)
    chat = int(at.chat_id)
    if status is not None:
        await rig.driver.rights(anna, chat, status)
    else:
        thread = await rig.driver.open_topic(anna, chat, "Hers")
        at = dataclasses.replace(at, thread_id=str(thread))
        if shape is Shape.FORUM:
            await rig.driver.delete_topic(chat, thread)
        else:
            await rig.driver.close_topic(anna, chat, thread)
    failed = await failure(rig.adapter.send(at, part("Hello?"), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert advice in failed.reason
    assert len(await rig.driver.calls("sendMessage")) == 1


@pytest.mark.parametrize("can", [True, False], ids=["with topics", "without"])
async def test_a_handoff_to_a_group_that_became_a_supergroup_has_its_new_address(
    rig: AnnaOnTelegram, can: bool
):
    at = await home_at(rig, Shape.GROUP)
    new = await rig.driver.migrate(int(at.chat_id), topics=can)
    if can:
        await rig.driver.rights(int(rig.anna), new, Status.ADMINISTRATOR, manage_topics=True)
    opened = await rig.adapter.create_handoff_thread(at, "Work", key="1")
    assert opened is not None
    assert (opened.chat_id, opened.thread_id is not None) == (str(new), can)


async def test_message_ids_of_a_supergroup_are_not_confused_with_those_of_its_group(
    rig: AnnaOnTelegram,
):
    """Message ids start again from 1 there."""
    at = await home_at(rig, Shape.GROUP)
    receipt = await rig.adapter.send(at, part("Hello."), key="1")
    await rig.driver.migrate(int(at.chat_id))
    await rig.adapter.send(at, part("Here."), key="2")
    assert await rig.seen("Here.")
    failed = await failure(rig.adapter.edit(at, receipt, part("Changed.")))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "Changed." not in [message.text for message in (await rig.driver.look()).messages]


async def test_an_invalid_telegram_address_is_refused(rig: AnnaOnTelegram):
    at = await home_at(rig, Shape.FORUM)
    for odd in ({"chat_id": "!room:example.com"}, {"thread_id": "first"}):
        to = dataclasses.replace(at, **odd)
        failed = await failure(rig.adapter.send(to, part("Hello?"), key="1"))
        assert (failed.retry, failed.arrived) == (False, False)


async def test_a_revoked_token_does_not_fail_the_message(rig: AnnaOnTelegram):
    at = await home_at(rig, Shape.DM)
    await rig.driver.bot(Settings(revoked=True))
    with pytest.raises(ConnectFailed, match="token"):
        await rig.adapter.send(at, part("Hello?"), key="1")


# Drafts


async def test_a_draft_is_shown_in_a_direct_message_until_the_message_comes(rig: AnnaOnTelegram):
    at = await topic(rig, Shape.TOPICS)
    assert rig.adapter.previews(at)
    assert not rig.adapter.previews(await home_at(rig, Shape.FORUM))
    for text in ("I", "I am"):
        await rig.adapter.preview(at, part(text), key="1")
    [draft] = (await rig.driver.look()).drafts
    assert ((draft.chat, draft.thread), draft.text, draft.times) == (place(at), "I am", 2)
    await rig.adapter.preview(at, Part("<b>broken", "broken"), key="2")
    [draft] = (await rig.driver.look()).drafts
    assert (draft.text, draft.times) == ("broken", 1)
    await rig.adapter.send(at, part("I am here."), key="1")
    assert (await rig.driver.look()).drafts == ()


async def test_drafts_are_tried_once_on_a_server_without_them(rig: AnnaOnTelegram):
    at = await home_at(rig, Shape.DM)
    await rig.driver.bot(Settings(missing=("sendMessageDraft",)))
    failed = await failure(rig.adapter.preview(at, part("I"), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert not rig.adapter.previews(at)


async def test_drafts_are_tried_once_in_a_chat_without_them(rig: AnnaOnTelegram):
    at = dataclasses.replace(await home_at(rig, Shape.GROUP), chat_type=ChatType.DM)
    assert rig.adapter.previews(at)
    assert not (await failure(rig.adapter.preview(at, part("I"), key="1"))).retry
    assert not rig.adapter.previews(at)
    assert rig.adapter.previews(await home_at(rig, Shape.DM))


@pytest.mark.parametrize("title", [b"\\ud83d", b"\x01", b"\xff"])
def test_a_response_with_a_lone_surrogate_is_accepted(title: bytes):
    answer = b'{"ok":true,"result":{"title":"a %s"}}' % title
    assert result(answer)["title"].startswith("a ")


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b'{"ok": <html>', b"[" * 99_999])
def test_an_invalid_response_means_that_the_message_may_have_arrived(payload: bytes):
    with pytest.raises(DeliveryFailed) as caught, FAILURES.delivering():
        result(payload)
    assert (caught.value.retry, caught.value.arrived) == (True, True)
