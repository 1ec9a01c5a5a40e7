"""Slack passes the contract for connections that fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.connection import ReconnectContract
from tests.fakes.slack import serving
from tests.rigs.slack.contract import AnnaOnSlack, plugged_in


class TestSlackReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[AnnaOnSlack]:
        async with serving() as peer, plugged_in(peer) as rig:
            yield rig
