"""A strict Discord fake with a bot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from segue.testing.discord import Peer
from segue.testing.discord.process import FAKE
from tests.harness.fakes import forked
from tests.platforms.discord.rig import DiscordRig


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


@pytest.fixture
def rig(peer: Peer, runner: asyncio.Runner) -> Generator[DiscordRig]:
    plugged = DiscordRig.plugged_in(peer)
    yield runner.run(plugged.__aenter__())
    runner.run(plugged.__aexit__(None, None, None))
