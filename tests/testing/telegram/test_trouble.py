"""What can happen to a call, and a fake in a process of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from telegram.error import Forbidden, NetworkError, RetryAfter, TelegramError, TimedOut

from segue.testing.telegram import Kind, Trouble, running
from tests.testing.telegram.stage import bot_of, stage

DONE = frozenset({Trouble.DROP_AFTER, Trouble.GARBLED, Trouble.HANG_AFTER, Trouble.DELAY})
ERRORS: dict[Trouble, type[TelegramError]] = {
    Trouble.BUSY: RetryAfter,
    Trouble.BROKEN: NetworkError,
    Trouble.FORBIDDEN: Forbidden,
    Trouble.DROP_BEFORE: NetworkError,
    Trouble.DROP_AFTER: NetworkError,
    Trouble.GARBLED: TelegramError,
    Trouble.HANG: TimedOut,
    Trouble.HANG_AFTER: TimedOut,
}


# The library warns of what its next version will call the seconds to wait.
@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")
@pytest.mark.parametrize("trouble", Trouble)
async def test_a_call_meets_every_trouble(trouble: Trouble) -> None:
    async with stage() as at:
        await at.hands.fail("sendMessage", trouble, seconds=0.05)
        sending = at.bot.send_message(at.forum, "x", read_timeout=0.4)
        if trouble is Trouble.DELAY:
            await sending
        else:
            with pytest.raises(ERRORS[trouble]):
                await sending
        await at.hands.calm()
        assert len((await at.hands.look()).messages) == (trouble in DONE)
        await at.bot.send_message(at.forum, "y")


async def test_trouble_is_had_so_often_and_in_one_chat() -> None:
    async with stage() as at:
        dm = await at.hands.private(at.anna)
        await at.hands.fail("createForumTopic", Trouble.BUSY, times=2, seconds=6.2, chat=at.forum)
        await at.bot.create_forum_topic(dm, "x")
        for _ in range(2):
            assert await at.post("createForumTopic", chat_id=at.forum, name="x") == (
                429,
                "Too Many Requests: retry after 7",
            )
        await at.bot.create_forum_topic(at.forum, "x")


async def test_what_is_broken_is_a_502_in_html() -> None:
    async with stage() as at:
        await at.hands.fail("getMe", Trouble.BROKEN)
        answer = await at.http.get("getMe")
        assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html")


async def test_polls_and_downloads_meet_trouble_too() -> None:
    async with stage() as at:
        for method in ("getUpdates", "download"):
            await at.hands.fail(method, Trouble.FORBIDDEN)
        with pytest.raises(Forbidden):
            await at.updates()
        sent = await at.bot.send_document(at.forum, b"x")
        assert sent.document is not None
        file = await sent.document.get_file()
        with pytest.raises(Forbidden):
            await file.download_as_bytearray()
        assert await file.download_as_bytearray() == b"x"


async def test_while_it_is_down_nobody_gets_in() -> None:
    async with stage() as at:
        polling = asyncio.ensure_future(at.bot.get_updates(timeout=10))
        await at.hands.until(lambda shown: shown.counts.get("getUpdates") == 1)
        await at.hands.down()
        with pytest.raises(NetworkError):
            await polling
        with pytest.raises(NetworkError):
            await at.bot.get_me()
        await at.hands.say(at.anna, at.forum, "Are you there?")
        await at.hands.up()
        assert len(await at.updates()) == 1


async def test_a_fake_of_its_own_notes_every_call(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running(journal=journal) as peer:
        async with peer.hands() as hands, bot_of(peer) as bot:
            anna = await hands.user("Anna")
            group = await hands.chat(Kind.GROUP, [anna])
            await bot.send_message(group, "hello")
            await hands.clear()
            assert not (await hands.look()).messages
    noted = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(it["method"], it["status"]) for it in noted] == [("getMe", 200), ("sendMessage", 200)]
    assert noted[-1]["parameters"]["text"] == "hello"
