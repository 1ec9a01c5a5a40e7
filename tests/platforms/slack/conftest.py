"""A strict Slack fake with a bot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from tests.fakes.slack import FAKE, Peer
from tests.harness.fakes import forked
from tests.rigs.slack.contract import AnnaOnSlack, plugged_in


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


@pytest.fixture
def rig(peer: Peer, runner: asyncio.Runner) -> Generator[AnnaOnSlack]:
    plugged = plugged_in(peer)
    yield runner.run(plugged.__aenter__())
    runner.run(plugged.__aexit__(None, None, None))
