"""Discord passes the contract for connections that fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.connection import ReconnectContract
from tests.fakes.discord import serving
from tests.rigs.discord.contract import AnnaOnDiscord


class TestDiscordReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[AnnaOnDiscord]:
        async with serving() as peer, AnnaOnDiscord.plugged_in(peer) as rig:
            yield rig
