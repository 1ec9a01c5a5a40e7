"""Signal passes the contract for connections that fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.connection import ReconnectContract
from tests.fakes.signal import serving
from tests.rigs.signal.contract import AnnaOnSignal


class TestSignalReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[AnnaOnSignal]:
        async with serving() as peer, AnnaOnSignal.plugged_in(peer) as rig:
            yield rig
