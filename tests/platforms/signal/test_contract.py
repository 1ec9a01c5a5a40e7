"""Signal passes the contract suite in every shape of chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.rig import Rig
from segue.testing.contract.suite import RemoteContract
from tests.fakes.signal import Peer
from tests.rigs.signal.contract import AnnaOnSignal, Shape


class TestSignal(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[AnnaOnSignal]:
        async with AnnaOnSignal.plugged_in(peer) as rig:
            yield rig

    @pytest.fixture(params=Shape)
    def shape(self, request: pytest.FixtureRequest) -> str:
        return request.param

    async def test_two_threads_and_two_chats_have_different_addresses(
        self, rig: Rig, shape: str
    ) -> None:
        if shape == Shape.SELF:
            pytest.skip("an account has one Note to Self")
        await super().test_two_threads_and_two_chats_have_different_addresses(rig, shape)
