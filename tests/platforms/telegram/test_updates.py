"""Receiving updates from Telegram, from the server to the Inbound."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from segue.core.errors import ConnectFailed
from segue.platforms.base import Inbound
from segue.platforms.telegram.adapter import TelegramAdapter
from segue.testing.contract.rig import UpdateReader, home_of, reading
from tests.fakes.telegram import Peer, Settings, Upload
from tests.rigs.telegram.contract import AnnaOnTelegram, Shape


def uploads(*names: str) -> list[Upload]:
    return [Upload(name=name, media_type="text/plain", content=b"x") for name in names]


def files_in(inbound: Inbound) -> list[str]:
    return [file.name for file in inbound.attachments]


async def test_an_adapter_has_caught_up_after_a_batch_that_is_not_full(rig: AnnaOnTelegram):
    at = await rig.place(Shape.DM)
    await rig.driver.hold()
    for number in range(rig.many):
        await rig.say(at, str(number))
    await rig.driver.release()
    async with reading(rig.adapter) as reader:
        for number in range(rig.many):
            assert (await reader.next()).text == str(number)
            assert not rig.adapter.is_caught_up
        await rig.say(at, "next")
        assert (await reader.next()).text == "next"
        assert rig.adapter.is_caught_up


async def test_an_album_is_one_message(rig: AnnaOnTelegram):
    at = await rig.place(Shape.DM)
    anna = int(rig.anna)
    chat = int(at.chat)
    async with reading(rig.adapter) as reader:
        await rig.driver.hold()
        await rig.say(at, "before")
        first = await rig.driver.say(anna, chat, "compare", files=uploads("a", "b", "c"))
        await rig.say(at, "after")
        await rig.driver.say(anna, chat, "", files=uploads("d", "e"))
        await rig.driver.release()
        heard = [await reader.next() for _ in range(4)]
        await rig.say(at, "next")
        assert (await reader.next()).text == "next"
    parsed = [(it.text, files_in(it)) for it in heard]
    assert parsed == [("before", []), ("compare", ["a", "b", "c"]), ("after", []), ("", ["d", "e"])]
    assert heard[1].message_id == str(first)
    assert (await rig.driver.look()).unconfirmed == 1


async def test_an_album_that_arrives_in_two_polls_is_one_message(peer: Peer, rig: AnnaOnTelegram):
    at = await rig.place(Shape.DM)
    anna = int(rig.anna)
    chat = int(at.chat)
    adapter = TelegramAdapter(peer.token, peer.url, album_seconds=0.3)
    await adapter.connect()
    async with reading(adapter) as reader:
        await home_of(rig, reader, at)
        polls = (await rig.driver.look()).calls["getUpdates"]
        async with waiting(reader) as next_:
            await rig.driver.until(lambda shown: shown.calls["getUpdates"] > polls)
            await rig.driver.say(anna, chat, "", files=uploads("a"), album="77")
            await rig.driver.say(anna, chat, "compare", files=uploads("b"), album="77")
            inbound = await next_
    await adapter.close()
    assert (inbound.text, files_in(inbound)) == ("compare", ["a", "b"])


@pytest.mark.parametrize(
    "frame",
    [
        '{"update_id":{id},"message":{"text":"\\ud83d"}}',
        '{"update_id":{id},"message":{"text":"no end}}',
        '{"message":{"text":"\\ud83d"}}',
    ],
)
async def test_an_update_that_cannot_be_read_is_skipped_and_logged(
    rig: AnnaOnTelegram, frame: str, caplog: pytest.LogCaptureFixture
):
    at = await rig.place(Shape.DM)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        await rig.driver.hold()
        await rig.say(at, "before")
        await rig.driver.deliver(frame)
        await rig.say(at, "after")
        await rig.driver.release()
        assert [(await reader.next()).text for _ in range(2)] == ["before", "after"]
        await rig.say(at, "last")
        assert (await reader.next()).text == "last"
    assert (await rig.driver.look()).unconfirmed == 1
    assert "updates skipped platform=telegram" in caplog.text


# Other clients of the same bot


@contextlib.asynccontextmanager
async def waiting(reader: UpdateReader) -> AsyncGenerator[asyncio.Future[Inbound]]:
    """While a poll is waiting for the next update."""
    next_ = asyncio.ensure_future(reader.next())
    try:
        yield next_
    finally:
        next_.cancel()
        await asyncio.gather(next_, return_exceptions=True)


async def test_another_program_with_the_same_token_is_named(peer: Peer, rig: AnnaOnTelegram):
    other = TelegramAdapter(peer.token, peer.url)
    await other.connect()
    async with reading(rig.adapter) as reader, reading(other) as theirs:
        polls = (await rig.driver.look()).calls.get("getUpdates", 0)
        async with waiting(reader) as ours:
            await rig.driver.until(lambda shown: shown.calls.get("getUpdates", 0) > polls)
            async with waiting(theirs):
                with pytest.raises(ConnectFailed, match="another program"):
                    await ours
    await other.close()


async def test_a_webhook_is_removed_and_pending_updates_are_kept(rig: AnnaOnTelegram):
    at = await rig.place(Shape.DM)
    await rig.driver.bot(Settings(webhook="https://example.com/hook"))
    await rig.say(at, "Are you there?")
    async with reading(rig.adapter) as reader:
        with pytest.raises(ConnectFailed, match="webhook"):
            await reader.next()
    await rig.adapter.connect()
    async with reading(rig.adapter) as reader:
        assert (await reader.next()).text == "Are you there?"
    [deleted] = await rig.driver.calls("deleteWebhook")
    assert not deleted.parameters.get("drop_pending_updates")
