"""A strict Signal fake with an account."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from segue.testing.signal import Peer
from segue.testing.signal.process import FAKE
from tests.harness.fakes import forked
from tests.platforms.signal.rig import SignalRig


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


@pytest.fixture
def rig(peer: Peer, runner: asyncio.Runner) -> Generator[SignalRig]:
    plugged = SignalRig.plugged_in(peer)
    yield runner.run(plugged.__aenter__())
    runner.run(plugged.__aexit__(None, None, None))
