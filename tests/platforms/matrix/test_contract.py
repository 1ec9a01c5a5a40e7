"""Matrix passes the contract suite in every shape of room, on the real Synapse."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from segue.testing.contract.suite import RemoteContract
from segue.testing.synapse import Server
from tests.platforms.matrix.rig import MatrixRig, Shape, plugged_in


@pytest.mark.real
class TestMatrix(RemoteContract):
    @pytest.fixture
    async def rig(self, server: Server, tmp_path: Path) -> AsyncGenerator[MatrixRig]:
        async with plugged_in(server, tmp_path) as rig:
            yield rig

    @pytest.fixture(params=Shape)
    def shape(self, request: pytest.FixtureRequest) -> str:
        return request.param
