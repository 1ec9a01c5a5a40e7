"""The real Synapse with a bot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from segue.testing.synapse import Server
from tests.harness.matrix import server as server
from tests.platforms.matrix.rig import MatrixRig, plugged_in


@pytest.fixture
def rig(server: Server, tmp_path: Path, runner: asyncio.Runner) -> Generator[MatrixRig]:
    plugged = plugged_in(server, tmp_path)
    yield runner.run(plugged.__aenter__())
    runner.run(plugged.__aexit__(None, None, None))
