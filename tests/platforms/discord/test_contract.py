"""Discord passes the contract suite in every kind of channel in which users can write."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.suite import RemoteContract
from tests.fakes.discord import Peer
from tests.rigs.discord.contract import AnnaOnDiscord, Shape


class TestDiscord(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[AnnaOnDiscord]:
        async with AnnaOnDiscord.plugged_in(peer) as rig:
            yield rig

    @pytest.fixture(params=[shape for shape in Shape if shape is not Shape.FORUM])
    def shape(self, request: pytest.FixtureRequest) -> str:
        """In a forum there are only threads, so nothing is written outside of them."""
        return request.param
