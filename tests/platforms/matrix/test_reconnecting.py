"""Matrix passes the contract for connections that fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from segue.testing.contract.connection import ReconnectContract
from tests.platforms.matrix.homeserver import Homeserver


class TestMatrixReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncGenerator[Homeserver]:
        async with Homeserver.running(tmp_path) as rig:
            yield rig
