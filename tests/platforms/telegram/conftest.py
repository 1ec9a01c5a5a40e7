"""A strict Telegram fake with a bot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from segue.testing.telegram import Hands, Peer, Settings
from segue.testing.telegram.process import FAKE
from tests.harness.fakes import forked
from tests.platforms.telegram.rig import TelegramRig


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


@pytest.fixture
def rig(peer: Peer, runner: asyncio.Runner) -> Generator[TelegramRig]:
    async def begin() -> tuple[TelegramRig, Hands]:
        hands = peer.hands()
        rig = TelegramRig(peer, hands)
        await rig.begin(Settings())
        return rig, hands

    async def end() -> None:
        await rig.end()
        await hands.close()

    rig, hands = runner.run(begin())
    yield rig
    runner.run(end())
