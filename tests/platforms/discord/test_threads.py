"""Threads on Discord: where a handoff arrives, and what becomes of a thread later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from segue.core.address import Address
from segue.core.errors import DeliveryFailed
from segue.platforms.base import Upload
from segue.testing.contract.rig import Act, failure, part, reading
from tests.fakes.discord import USUAL, Kind, Permission, Settings, Trouble
from tests.rigs.discord.contract import AnnaOnDiscord, Shape, home_at

IN_THREADS = Permission.CREATE_PUBLIC_THREADS | Permission.SEND_MESSAGES_IN_THREADS


async def opened(rig: AnnaOnDiscord, home: Address, key: str = "1") -> Address:
    thread = await rig.adapter.create_handoff_thread(home, "Work", key=key)
    assert thread is not None
    assert thread.thread_id is not None
    return thread


async def thread_in(rig: AnnaOnDiscord, shape: Shape = Shape.TEXT) -> Address:
    return await opened(rig, await home_at(rig, shape))


# Opening


async def test_a_thread_hangs_on_a_message_and_its_owner_is_a_member(rig: AnnaOnDiscord):
    thread = await thread_in(rig)
    await rig.adapter.invite(thread, [rig.anna], key="1")
    [shown] = (await rig.driver.look(int(thread.chat_id))).threads
    assert (shown.id, shown.title, shown.kind) == (int(thread.thread_id or 0), "Work", 11)
    assert int(rig.anna) in shown.members
    root = await rig.driver.message("Work")
    assert root.id == shown.id, "the thread was started from it"


async def test_without_the_right_to_write_in_the_channel_a_thread_stands_alone(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.TEXT)
    await rig.driver.permit(int(home.chat_id), USUAL & ~Permission.SEND_MESSAGES)
    thread = await opened(rig, home)
    [shown] = (await rig.driver.look(int(home.chat_id))).threads
    assert (str(shown.id), shown.kind) == (thread.thread_id, Kind.PUBLIC_THREAD), (
        "not a private one"
    )
    assert (await rig.driver.look()).calls["start_thread"] == 1
    await rig.adapter.send(thread, part("Here."), key="2")
    assert (await rig.driver.message("Here.")).thread == shown.id


async def test_a_refused_thread_under_a_message_is_opened_alone(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.ANNOUNCEMENT)
    await rig.driver.fail("start_thread_from_message", Trouble.FORBIDDEN)
    await opened(rig, home)
    [shown] = (await rig.driver.look(int(home.chat_id))).threads
    assert shown.kind == Kind.ANNOUNCEMENT_THREAD


async def test_a_thread_that_may_exist_without_a_message_is_not_opened_again(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.TEXT)
    await rig.driver.permit(int(home.chat_id), USUAL & ~Permission.SEND_MESSAGES)
    await rig.driver.fail("start_thread", Trouble.DROP_AFTER)
    failed = await failure(rig.adapter.create_handoff_thread(home, "Work", key="1"))
    assert (failed.retry, failed.arrived) == (False, True)
    assert "an empty thread may be left" in failed.reason


@pytest.mark.parametrize("lacking", [*IN_THREADS])
async def test_missing_rights_are_known_before_anything_is_sent(
    rig: AnnaOnDiscord, lacking: Permission
):
    home = await home_at(rig, Shape.TEXT)
    await rig.driver.permit(int(home.chat_id), USUAL & ~lacking)
    assert await rig.adapter.create_handoff_thread(home, "Work", key="1") is None
    assert "create_message" not in (await rig.driver.look()).calls


@pytest.mark.parametrize("shape", [Shape.VOICE, Shape.DM])
async def test_chats_without_threads_are_not_asked_for_any(rig: AnnaOnDiscord, shape: Shape):
    home = await home_at(rig, shape)
    assert await rig.adapter.create_handoff_thread(home, "Work", key="1") is None
    calls = (await rig.driver.look()).calls
    assert not {"create_message", "start_thread", "start_thread_from_message"} & calls.keys()


async def test_a_server_with_too_many_threads_gets_no_other(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.TEXT)
    await rig.driver.bot(Settings(active_threads=0))
    assert await rig.adapter.create_handoff_thread(home, "Work", key="1") is None


async def test_a_lost_answer_leaves_one_post_in_a_forum(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.FORUM)
    await rig.fail(Act.OPEN_THREAD, Trouble.DROP_AFTER, seconds=0)
    assert (await failure(rig.adapter.create_handoff_thread(home, "Work", key="1"))).retry
    await rig.calm()
    restarted = rig.another()
    await restarted.connect()
    post = await restarted.create_handoff_thread(home, "Work", key="1")
    other = await restarted.create_handoff_thread(home, "Work", key="2")
    await restarted.close()
    assert post is not None
    assert post != other
    assert len((await rig.driver.look(int(home.chat_id))).threads) == 2


async def test_a_forum_in_which_the_bot_may_not_post_says_so(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.FORUM)
    await rig.driver.permit(int(home.chat_id), USUAL & ~Permission.SEND_MESSAGES)
    assert await rig.adapter.create_handoff_thread(home, "Work", key="1") is None
    failed = await failure(rig.adapter.send(home, part("Here."), key="2"))
    assert "the bot lacks a permission there" in failed.reason


# Later


@pytest.mark.parametrize("revives", [True, False])
async def test_an_archived_thread_comes_back_when_spoken_to(rig: AnnaOnDiscord, revives: bool):
    """Some report that sending does not reopen it."""
    await rig.driver.bot(Settings(revives=revives))
    thread = await thread_in(rig)
    receipt = await rig.adapter.send(thread, part("One."), key="2")
    for change in (
        rig.adapter.send(thread, part("Two."), key="3"),
        rig.adapter.edit(thread, receipt, part("One!")),
    ):
        await rig.driver.set_thread(int(thread.thread_id or 0), archived=True)
        await change
        [shown] = (await rig.driver.look(int(thread.chat_id))).threads
        assert not shown.closed
    assert await rig.seen("One!")
    assert await rig.seen("Two.")


async def test_a_locked_thread_says_why_not(rig: AnnaOnDiscord):
    thread = await thread_in(rig)
    await rig.driver.set_thread(int(thread.thread_id or 0), archived=True, locked=True)
    failed = await failure(rig.adapter.send(thread, part("Two."), key="3"))
    assert not failed.retry
    assert "the thread is locked" in failed.reason


async def test_a_message_finds_its_thread_before_the_thread_is_announced(rig: AnnaOnDiscord):
    at = await rig.place(Shape.TEXT)
    await rig.driver.hold()
    theirs = await rig.driver.open_thread(int(rig.anna), int(at.chat), "Hers")
    await rig.driver.say(int(rig.anna), theirs, "Are you here?")
    await rig.driver.release(backwards=True)
    async with reading(rig.adapter) as reader:
        heard = await reader.next()
    assert (heard.address.chat_id, heard.address.thread_id) == (at.chat, str(theirs))
    assert (heard.topic, heard.chat_name) == ("Hers", "#team")


@pytest.mark.parametrize(
    ("shape", "reason"), [(Shape.TEXT, "it was deleted"), (Shape.DM, "let the bot write to you")]
)
async def test_a_place_that_is_gone_is_named(rig: AnnaOnDiscord, shape: Shape, reason: str):
    home = await home_at(rig, shape)
    if shape is Shape.DM:
        await rig.driver.dm(int(rig.anna), closed=True)
    else:
        await rig.driver.delete_channel(int(home.chat_id))
    with pytest.raises(DeliveryFailed, match=reason):
        await rig.adapter.send(home, part("Hello?"), key="1")


async def test_a_thread_that_stands_alone_is_not_opened_again_by_the_next_process(
    rig: AnnaOnDiscord,
):
    home = await home_at(rig, Shape.TEXT)
    await rig.driver.permit(int(home.chat_id), USUAL & ~Permission.SEND_MESSAGES)
    first = await opened(rig, home)
    await rig.restarted()  # it was killed before it recorded the thread
    assert await opened(rig, home) == first
    assert await opened(rig, home, key="2") != first, "this process uses it"
    await rig.adapter.send(first, part("Here."), key="3")
    await rig.restarted()
    assert await opened(rig, home, key="4") != first, "a session is in it"


async def test_a_deleted_first_message_of_a_post_does_not_block_the_next(rig: AnnaOnDiscord):
    post = await thread_in(rig, Shape.FORUM)
    number = int(post.thread_id or 0)
    await rig.driver.delete(number, number)
    home = replace(post, thread_id=None)
    assert await opened(rig, home, key="2") != post


async def test_a_message_to_a_forum_opens_a_post(rig: AnnaOnDiscord):
    post = await thread_in(rig, Shape.FORUM)
    home = replace(post, thread_id=None)
    receipt = await rig.adapter.send(home, part("It rains.\nTake a coat."), key="report/0")
    assert await rig.adapter.send(home, part("It rains.\nTake a coat."), key="report/0") == receipt
    await rig.adapter.send(home, part("And it is cold."), key="report/1")
    await rig.adapter.edit(home, receipt, part("It does not rain."))
    await rig.adapter.send(home, part("x" * 2000), key="long/0")
    shown = await rig.driver.look(int(home.chat_id))
    _, report, long = sorted(shown.threads, key=lambda it: it.id)
    assert (str(report.id), report.title) == (receipt, "It rains.")
    inside = [it.text for it in shown.messages if it.thread == report.id]
    assert inside == ["It does not rain.", "And it is cold."]
    assert "x" * 2000 in [it.text for it in shown.messages if it.thread == long.id]


async def test_a_file_for_a_forum_opens_a_post(rig: AnnaOnDiscord):
    post = await thread_in(rig, Shape.FORUM)
    home = replace(post, thread_id=None)
    chart = Upload("chart.png", "image/png", b"pixels")
    receipt = await rig.adapter.send_file(home, chart, part("Rain in May"), key="report/0")
    again = await rig.adapter.send_file(home, chart, part("Rain in May"), key="report/0")
    await rig.adapter.send(home, part("It was wet."), key="report/1")
    await rig.adapter.send_file(home, chart, part(""), key="other/0")
    shown = await rig.driver.look(int(home.chat_id))
    _, report, other = sorted(shown.threads, key=lambda it: it.id)
    assert (report.title, other.title, again) == ("Rain in May", "chart.png", receipt)
    inside = [(it.text, len(it.files)) for it in shown.messages if it.thread == report.id]
    assert inside[1:] == [("Rain in May", 1), ("It was wet.", 0)]
