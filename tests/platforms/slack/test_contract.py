"""Slack passes the contract suite in every shape of chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.rig import Feature
from segue.testing.contract.suite import RemoteContract
from tests.fakes.slack import Peer
from tests.rigs.slack.contract import NONE, AnnaOnSlack, Shape, plugged_in


class TestSlack(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[AnnaOnSlack]:
        async with plugged_in(peer) as rig:
            yield rig

    @pytest.fixture(params=Shape)
    def shape(self, request: pytest.FixtureRequest, rig: AnnaOnSlack) -> str:
        """Only into channels is the bot invited."""
        channel = request.param in (Shape.CHANNEL, Shape.PRIVATE)
        rig.lacks = NONE if channel else NONE | {Feature.JOINS}
        return request.param
