"""What can happen to a call, and a fake in a process of its own."""

from __future__ import annotations

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
