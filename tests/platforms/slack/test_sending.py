"""What is sent to Slack: once, to the right thread, quietly."""

from __future__ import annotations

import dataclasses
import json

import pytest

from segue.core.address import Address
from segue.platforms.base import Button, Upload
from segue.platforms.errors import Refused
from segue.platforms.markup import parts
from segue.platforms.slack import client
from segue.testing.contract.rig import PHOTO, Place, failure, home_of, one_attachment, part, reading
from segue.testing.http import Request, Response, serving
from segue.testing.peers import Trouble
from tests.fakes.slack import Settings
from tests.rigs.slack.contract import AnnaOnSlack, Shape

FILE = Upload(PHOTO.name, PHOTO.media_type, PHOTO.content)


async def home(rig: AnnaOnSlack, shape: Shape = Shape.CHANNEL) -> Address:
    async with reading(rig.adapter) as reader:
        return await home_of(rig, reader, await rig.place(shape))


@pytest.mark.parametrize("shape", Shape)
async def test_after_a_restart_a_message_is_found_by_its_key(rig: AnnaOnSlack, shape: Shape):
    at = await home(rig, shape)
    thread = await rig.adapter.create_handoff_thread(at, "Boats", key="thread")
    assert thread is not None
    first = await rig.adapter.send(thread, part("Once."), key="message")
    file = await rig.adapter.send_file(thread, FILE, part("Look."), key="file")
    restarted = rig.another()
    await restarted.connect()
    assert await restarted.create_handoff_thread(at, "Boats", key="thread") == thread
    assert await restarted.send(thread, part("Once."), key="message") == first
    assert await restarted.send_file(thread, FILE, part("Look."), key="file") == file
    await restarted.close()
    assert len(await rig.seen("Once.")) == len(await rig.seen("Look.")) == 1


async def test_a_message_is_found_on_any_page_of_the_history(
    rig: AnnaOnSlack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client, "PAGE", 2)
    at = await home(rig)
    for number in range(5):
        await rig.adapter.send(at, part(str(number)), key=str(number))
    await rig.adapter.connect()  # another gateway may have been there
    await rig.adapter.send(at, part("0"), key="0")
    assert len(await rig.seen("0")) == 1


async def test_an_unconfirmed_message_is_found_in_a_thread_of_more_than_a_thousand(
    rig: AnnaOnSlack,
):
    at = await home(rig)
    thread = await rig.adapter.create_handoff_thread(at, "Boats", key="thread")
    assert thread is not None
    await rig.others(Place(at.chat_id, thread.thread_id), 1_100)
    await rig.driver.fail("reply", Trouble.DROP_AFTER)
    assert (await failure(rig.adapter.send(thread, part("Once."), key="1"))).arrived
    await rig.adapter.send(thread, part("Once."), key="1")
    assert len(await rig.seen("Once.")) == 1


async def test_a_chat_is_searched_once(rig: AnnaOnSlack):
    at = await home(rig)
    for number in range(3):
        await rig.adapter.send(at, part(str(number)), key=str(number))
    assert (await rig.driver.look()).calls["conversations.history"] == 1


async def test_without_the_scopes_to_look_no_keys_are_promised(rig: AnnaOnSlack):
    assert rig.adapter.capabilities.keys
    few = tuple(it for it in Settings().scopes if not it.endswith(":history"))
    at = await home(rig)
    await rig.driver.settings(Settings(scopes=few))
    await rig.adapter.connect()
    assert not rig.adapter.capabilities.keys
    for _ in range(2):
        await rig.adapter.send(at, part("Twice."), key="1")
    assert len(await rig.seen("Twice.")) == 2
    assert (await rig.adapter.send_file(at, FILE, part("Look."), key="2")).startswith("file ")


async def test_links_and_names_in_a_message_reach_no_one(rig: AnnaOnSlack):
    at = await home(rig)
    [text] = parts("<!channel> <@U1> @here https://example.com", rig.adapter.capabilities)
    await rig.adapter.send(at, text, key="1")
    [sent] = [it for it in (await rig.driver.look()).messages if "example.com" in it.text]
    assert sent.mentions == ()
    posted = (await rig.driver.calls("chat.postMessage"))[-1].parameters
    assert (posted["unfurl_links"], posted["unfurl_media"]) == (False, False)


@pytest.mark.parametrize("shape", Shape)
async def test_the_owner_alone_is_notified_of_a_new_thread_in_a_channel(
    rig: AnnaOnSlack, shape: Shape
):
    at = await home(rig, shape)
    thread = await rig.adapter.create_handoff_thread(at, "Boats <!here>", key="1")
    assert thread is not None
    for key in ("1", "1", "2"):  # she may have left the thread before the second handoff
        await rig.adapter.invite(thread, [rig.anna, "!channel"], key=key)
    shown = (await rig.driver.look(at.chat_id)).messages
    found = [(it.thread, it.mentions) for it in shown if it.mentions]
    dm = shape in (Shape.DM, Shape.ASSISTANT)
    assert found == ([] if dm else 2 * [(thread.thread_id, (f"<@{rig.anna}>",))])


async def test_a_message_with_buttons_can_be_as_long_as_any_other(rig: AnnaOnSlack):
    at = await home(rig)
    long = "x" * rig.adapter.capabilities.length
    buttons = [Button("Yes", "y"), Button("N" * 200, "n")]
    receipt = await rig.adapter.send(at, part(long), key="1", buttons=buttons)
    await rig.adapter.edit(at, receipt, part("Done."))
    [after] = await rig.seen("Done.")
    assert (after.id, after.labels) == (receipt, ())


async def test_a_status_that_an_edit_would_leave_is_removed(rig: AnnaOnSlack):
    at = await rig.adapter.create_handoff_thread(await home(rig), "Boats", key="1")
    assert at is not None
    receipt = await rig.adapter.send(at, part("…"), key="2")
    await rig.adapter.typing(at)
    await rig.adapter.edit(at, receipt, part("Done."))
    await rig.driver.until(lambda shown: shown.calls["assistant.threads.setStatus"] == 2)
    await rig.adapter.typing(dataclasses.replace(at, thread_id=None))  # nothing to show it in
    assert (await rig.driver.look()).calls["assistant.threads.setStatus"] == 2


async def test_a_file_whose_message_is_not_found_has_arrived_all_the_same(rig: AnnaOnSlack):
    at = await home(rig)
    await rig.adapter.send(at, part("before"), key="1")
    await rig.driver.fail("conversations.history", Trouble.BROKEN)
    receipt = await rig.adapter.send_file(at, FILE, part("Look."), key="2")
    assert receipt.startswith("file ")
    assert not (await failure(rig.adapter.edit(at, receipt, part("No.")))).retry


async def test_a_file_whose_thread_is_deleted_before_it_is_posted_is_taken_back(rig: AnnaOnSlack):
    at = await home(rig)
    thread = await rig.adapter.create_handoff_thread(at, "Boats", key="1")
    assert thread is not None
    assert thread.thread_id is not None
    await rig.adapter.send(thread, part("before"), key="2")  # so the adapter does not look first
    await rig.driver.delete_thread(thread.chat_id, thread.thread_id)
    failed = await failure(rig.adapter.send_file(thread, FILE, part("Look."), key="3"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert await rig.seen("Look.") == []


@pytest.mark.parametrize("shape", Shape)
async def test_a_message_for_a_thread_that_was_deleted_is_never_posted(
    rig: AnnaOnSlack, shape: Shape
):
    at = await home(rig, shape)
    thread = await rig.adapter.create_handoff_thread(at, "Boats", key="thread")
    assert thread is not None
    assert thread.thread_id is not None
    await rig.adapter.send(thread, part("before"), key="1")  # so the adapter does not look first
    async with reading(rig.adapter) as reader:
        await rig.driver.delete_thread(thread.chat_id, thread.thread_id)
        await rig.say(Place(at.chat_id, at.thread_id), "after")
        while (await reader.next()).text != "after":
            pass
        replies = (await rig.driver.look()).calls["reply"]
        failed = await failure(rig.adapter.send(thread, part("No."), key="2"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert (await rig.driver.look()).calls["reply"] == replies


@pytest.mark.parametrize("shape", Shape)
async def test_a_thread_whose_first_message_is_deleted_goes_on_below_the_tombstone(
    rig: AnnaOnSlack, shape: Shape
):
    at = await home(rig, shape)
    thread = await rig.adapter.create_handoff_thread(at, "Boats", key="thread")
    assert thread is not None
    assert thread.thread_id is not None
    first = await rig.adapter.send(thread, part("before"), key="1")
    await rig.driver.delete(thread.chat_id, thread.thread_id)
    restarted = rig.another()
    await restarted.connect()
    assert await restarted.send(thread, part("before"), key="1") == first
    after = await restarted.send(thread, part("after"), key="2")
    await restarted.edit(thread, after, part("edited"))
    await restarted.send_file(thread, FILE, part("Look."), key="3")
    await restarted.close()
    for text in ("before", "edited", "Look."):
        [seen] = await rig.seen(text)
        assert seen.place == Place(thread.chat_id, thread.thread_id)


async def test_what_the_owner_writes_below_a_tombstone_is_heard(rig: AnnaOnSlack):
    at = await home(rig)
    thread = await rig.adapter.create_handoff_thread(at, "Boats", key="thread")
    assert thread is not None
    assert thread.thread_id is not None
    await rig.adapter.send(thread, part("before"), key="1")
    await rig.driver.delete(thread.chat_id, thread.thread_id)
    async with reading(rig.adapter) as reader:
        await rig.say(Place(at.chat_id, thread.thread_id), "after")
        heard = [await reader.next(), await reader.next()]
    assert (heard[-1].text, heard[-1].address) == ("after", thread)


async def test_a_thread_that_is_gone_with_its_last_reply_gets_no_messages(rig: AnnaOnSlack):
    at = await home(rig)
    thread = await rig.adapter.create_handoff_thread(at, "Boats", key="thread")
    assert thread is not None
    assert thread.thread_id is not None
    reply = await rig.adapter.send(thread, part("before"), key="1")
    await rig.driver.delete(thread.chat_id, thread.thread_id)
    await rig.driver.delete(thread.chat_id, reply)
    failed = await failure(rig.adapter.send(thread, part("after"), key="2"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert await rig.seen("after") == []


async def test_a_file_without_words_has_its_name(rig: AnnaOnSlack):
    at = await home(rig)
    await rig.adapter.send_file(at, FILE, part(""), key="1")
    assert len(await rig.seen(FILE.name)) == 1


async def test_a_web_page_in_the_place_of_a_file_is_refused(rig: AnnaOnSlack):
    async with reading(rig.adapter) as reader:
        file = await one_attachment(rig, reader, await rig.place(Shape.DM), PHOTO)
    few = tuple(it for it in Settings().scopes if it != "files:read")
    await rig.driver.settings(Settings(scopes=few))
    failed = await failure(rig.adapter.fetch(file))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "files:read" in failed.reason


async def test_the_token_goes_to_slack_alone():
    asked: list[str] = []

    async def answer(request: Request) -> Response:
        asked.append(request.target)
        file = {"id": "F1", "url_private_download": "http://127.0.0.1:9/api/elsewhere"}
        return Response(body=json.dumps({"ok": True, "file": file}).encode())

    async with serving(answer) as url:
        slack = client.SlackClient("xoxb-1", "xapp-1", url, 5.0)
        with pytest.raises(Refused, match="not on Slack"):
            await slack.fetch("F1", 100)
        await slack.close()
    assert asked == ["/api/files.info"]


@pytest.mark.parametrize(
    ("rights", "told"),
    [
        ({"joined": False}, "write `/invite @segue` there"),
        ({"archived": True}, "archived"),
        ({"error": "restricted_action_read_only_channel"}, "does not let the app write there"),
    ],
)
async def test_a_channel_where_the_app_cannot_write_says_why(
    rig: AnnaOnSlack, rights: dict[str, object], told: str
):
    at = await home(rig)
    await rig.driver.do("rights", None, user=rig.anna, chat=at.chat_id, **rights)
    failed = await failure(rig.adapter.send(at, part("Hello?"), key="1"))
    assert told in failed.reason
    assert (failed.retry, failed.arrived) == (False, False)
