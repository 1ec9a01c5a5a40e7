"""Discord passes the contract for connections that fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.reconnecting import ReconnectContract
from tests.fakes.discord import serving
from tests.platforms.discord.rig import DiscordRig


class TestDiscordReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[DiscordRig]:
        async with serving() as peer, DiscordRig.plugged_in(peer) as rig:
            yield rig
