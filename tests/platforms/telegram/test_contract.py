"""Telegram passes the contract suite in every shape of chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.suite import RemoteContract
from tests.fakes.telegram import Peer
from tests.rigs.telegram.contract import AnnaOnTelegram, Shape


class TestTelegram(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[AnnaOnTelegram]:
        async with AnnaOnTelegram.plugged_in(peer) as rig:
            yield rig

    @pytest.fixture(params=[shape for shape in Shape if shape is not Shape.GROUP])
    def shape(self, request: pytest.FixtureRequest) -> str:
        """To a bot, a group is a supergroup with fewer features."""
        return request.param
