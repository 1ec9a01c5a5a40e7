"""The real Synapse with a bot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from tests.fakes.matrix import MatrixPeer
from tests.fakes.matrix import peer as peer
from tests.rigs.matrix.contract import AnnaOnMatrix


@pytest.fixture
def rig(peer: MatrixPeer, runner: asyncio.Runner) -> Generator[AnnaOnMatrix]:
    plugged = AnnaOnMatrix.plugged_in(peer)
    yield runner.run(plugged.__aenter__())
    runner.run(plugged.__aexit__(None, None, None))
