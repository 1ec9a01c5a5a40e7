"""Matrix passes the contract suite in every shape of room, on the real Synapse."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.suite import RemoteContract
from tests.fakes.matrix import MatrixPeer
from tests.rigs.matrix.contract import AnnaOnMatrix, Shape


@pytest.mark.real
class TestMatrix(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: MatrixPeer) -> AsyncGenerator[AnnaOnMatrix]:
        async with AnnaOnMatrix.plugged_in(peer) as rig:
            yield rig

    @pytest.fixture(params=Shape)
    def shape(self, request: pytest.FixtureRequest) -> str:
        return request.param
