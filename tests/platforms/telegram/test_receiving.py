"""What is heard on Telegram, from the server to the Inbound."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from segue.core.errors import ConnectFailed
from segue.platforms.base import Button, Inbound, InboundKind
from segue.platforms.telegram.adapter import TelegramAdapter
from segue.testing.contract.rig import Ear, home_of, listening, part
from segue.testing.telegram import Peer, Settings, Trouble, Upload
from tests.platforms.telegram.rig import Shape, TelegramRig

NAME = "@segue_test_bot"


def uploads(*names: str) -> list[Upload]:
    return [Upload(name=name, media_type="text/plain", content=b"x") for name in names]


def files_in(inbound: Inbound) -> list[str]:
    return [file.name for file in inbound.attachments]


async def test_an_album_is_one_message(rig: TelegramRig):
    at = await rig.place(Shape.DM)
    anna, chat = int(rig.anna), int(at.chat)
    async with listening(rig.adapter) as ear:
        await rig.hands.hold()
        await rig.say(at, "before")
        first = await rig.hands.say(anna, chat, "compare", files=uploads("a", "b", "c"))
        await rig.say(at, "after")
        await rig.hands.say(anna, chat, "", files=uploads("d", "e"))
        await rig.hands.release()
        heard = [await ear.next() for _ in range(4)]
        await rig.say(at, "next")
        assert (await ear.next()).text == "next"
    assert [(it.text, files_in(it)) for it in heard] == [
        ("before", []),
        ("compare", ["a", "b", "c"]),
        ("after", []),
        ("", ["d", "e"]),
    ]
    assert heard[1].message_id == str(first)
    assert (await rig.hands.look()).unconfirmed == 1


async def test_an_album_that_comes_with_two_polls_is_one_message(peer: Peer, rig: TelegramRig):
    at = await rig.place(Shape.DM)
    anna, chat = int(rig.anna), int(at.chat)
    adapter = TelegramAdapter(peer.token, peer.url, album_seconds=0.3)
    await adapter.connect()
    async with listening(adapter) as ear:
        await home_of(rig, ear, at)
        polls = (await rig.hands.look()).calls["getUpdates"]
        async with waiting(ear) as next_:
            await rig.hands.until(lambda shown: shown.calls["getUpdates"] > polls)
            await rig.hands.say(anna, chat, "", files=uploads("a"), album="77")
            await rig.hands.say(anna, chat, "compare", files=uploads("b"), album="77")
            inbound = await next_
    await adapter.close()
    assert (inbound.text, files_in(inbound)) == ("compare", ["a", "b"])


async def test_an_album_is_not_confirmed_before_it_is_recorded(rig: TelegramRig):
    at = await rig.place(Shape.DM)
    await rig.hands.say(int(rig.anna), int(at.chat), "compare", files=uploads("a", "b"))
    async with listening(rig.adapter) as ear:
        first = await ear.next()
    await rig.adapter.close()
    restarted = rig.another()
    await restarted.connect()
    async with listening(restarted) as ear:
        assert await ear.next() == first
    await restarted.close()


async def test_an_album_is_meant_for_whom_its_text_is(rig: TelegramRig):
    chat = int((await rig.place(Shape.GROUP)).chat)
    async with listening(rig.adapter) as ear:
        heard: list[Inbound] = []
        for text in (f"{NAME} compare", "among ourselves", ""):
            await rig.hands.say(
                int(rig.anna), chat, text, files=uploads("a", "b"), album=f"7{text}"
            )
            heard.append(await ear.next())
        await rig.hands.say(int(rig.anna), chat, f"{NAME} look", files=uploads("a"), album="9")
        heard.append(await ear.next())
        await rig.hands.say(int(rig.anna), chat, "", files=uploads("late"), album="9")
        heard.append(await ear.next())
    assert [it.addressed for it in heard] == [True, False, False, True, True]


async def test_a_topic_that_a_person_opened_is_a_place_of_its_own(rig: TelegramRig):
    anna = int(rig.anna)
    at = await rig.place(Shape.FORUM)
    thread = await rig.hands.open_topic(anna, int(at.chat), "Hers")
    async with listening(rig.adapter) as ear:
        await rig.hands.say(anna, int(at.chat), "Here.", thread=thread)
        inbound = await ear.next()
        assert (inbound.address.thread_id, inbound.topic) == (str(thread), "Hers")
        await rig.adapter.send(inbound.address, part("Here too."), key="1")
    [seen] = await rig.seen("Here too.")
    assert seen.place.thread == str(thread)


async def pressed(rig: TelegramRig, ear: Ear) -> str:
    """A button under a message of ours; the id of the query."""
    at = await rig.place(Shape.DM)
    home = await home_of(rig, ear, at)
    receipt = await rig.adapter.send(home, part("Well?"), key="1", buttons=[Button("Yes", "y")])
    return await rig.hands.press(int(rig.anna), int(at.chat), int(receipt), "Yes")


async def test_a_button_stops_waiting_once_its_press_is_acknowledged(rig: TelegramRig):
    async with listening(rig.adapter) as ear:
        query = await pressed(rig, ear)
        press = await ear.next()
        assert press.kind is InboundKind.BUTTON
        assert await rig.hands.calls("answerCallbackQuery") == []
        rig.adapter.acknowledge(press)
        shown = await rig.hands.until(lambda shown: bool(shown.answered))
    assert shown.answered == (query,)


async def test_an_answer_to_a_press_that_hangs_holds_up_nothing(rig: TelegramRig):
    await rig.hands.fail("answerCallbackQuery", Trouble.HANG, times=3)
    async with listening(rig.adapter) as ear:
        await pressed(rig, ear)
        press = await ear.next()
        for _ in range(3):
            rig.adapter.acknowledge(press)
        await rig.hands.until(lambda shown: shown.hanging == 3)
        await rig.hands.say(int(rig.anna), int(rig.anna), "Next.")
        assert (await ear.next()).text == "Next."
    await rig.adapter.close()
    await rig.hands.calm()


@pytest.mark.parametrize(
    "frame",
    [
        '{"update_id":{id},"message":{"text":"\\ud83d"}}',
        '{"update_id":{id},"message":{"text":"\x01"}}',
        '{"update_id":{id},"message":{"text":"\\q"}}',
        '{"update_id":{id},"message":{"text":"no end}}',
        '{"message":{"text":"\\ud83d"}}',
    ],
)
async def test_an_update_that_cannot_be_read_is_skipped_and_logged(
    rig: TelegramRig, frame: str, caplog: pytest.LogCaptureFixture
):
    at = await rig.place(Shape.DM)
    async with listening(rig.adapter) as ear:
        await home_of(rig, ear, at)
        await rig.hands.hold()
        await rig.say(at, "before")
        await rig.hands.deliver(frame)
        await rig.say(at, "after")
        await rig.hands.release()
        assert [(await ear.next()).text for _ in range(2)] == ["before", "after"]
        await rig.say(at, "last")
        assert (await ear.next()).text == "last"
    assert (await rig.hands.look()).unconfirmed == 1
    assert "updates skipped platform=telegram" in caplog.text


async def test_one_that_cannot_be_read_is_skipped_by_a_bot_that_just_started(rig: TelegramRig):
    at = await rig.place(Shape.DM)
    await rig.hands.deliver('{"update_id":{id},"message":{"text":"no end}}')
    await rig.hands.deliver('{"update_id":{id},"message":{"text":"\\ud83d"}}')
    await rig.say(at, "after")
    async with listening(rig.adapter) as ear:
        assert (await ear.next()).text == "after"


# Who else is there


@contextlib.asynccontextmanager
async def waiting(ear: Ear) -> AsyncGenerator[asyncio.Future[Inbound]]:
    """While somebody waits for what comes next."""
    next_ = asyncio.ensure_future(ear.next())
    try:
        yield next_
    finally:
        next_.cancel()
        await asyncio.gather(next_, return_exceptions=True)


async def test_another_program_with_the_same_token_is_named(peer: Peer, rig: TelegramRig):
    other = TelegramAdapter(peer.token, peer.url)
    await other.connect()
    async with listening(rig.adapter) as ear, listening(other) as theirs:
        polls = (await rig.hands.look()).calls.get("getUpdates", 0)
        async with waiting(ear) as ours:
            await rig.hands.until(lambda shown: shown.calls.get("getUpdates", 0) > polls)
            async with waiting(theirs):
                with pytest.raises(ConnectFailed, match="another program"):
                    await ours
    await other.close()


async def test_a_webhook_is_removed_and_what_waits_is_kept(rig: TelegramRig):
    at = await rig.place(Shape.DM)
    await rig.hands.bot(Settings(webhook="https://example.com/hook"))
    await rig.say(at, "Are you there?")
    async with listening(rig.adapter) as ear:
        with pytest.raises(ConnectFailed, match="webhook"):
            await ear.next()
    await rig.adapter.connect()
    async with listening(rig.adapter) as ear:
        assert (await ear.next()).text == "Are you there?"
    [deleted] = await rig.hands.calls("deleteWebhook")
    assert not deleted.parameters.get("drop_pending_updates")
