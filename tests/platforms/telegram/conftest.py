"""A strict Telegram fake with a bot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from segue.testing.telegram import Peer
from segue.testing.telegram.process import FAKE
from tests.harness.fakes import forked
from tests.platforms.telegram.rig import TelegramRig


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


@pytest.fixture
def rig(peer: Peer, runner: asyncio.Runner) -> Generator[TelegramRig]:
    plugged = TelegramRig.plugged_in(peer)
    yield runner.run(plugged.__aenter__())
    runner.run(plugged.__aexit__(None, None, None))
