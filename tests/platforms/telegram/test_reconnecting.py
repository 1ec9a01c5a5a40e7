"""Telegram passes the contract for connections that fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.connection import ReconnectContract
from tests.fakes.telegram import serving
from tests.rigs.telegram.contract import AnnaOnTelegram


class TestTelegramReconnects(ReconnectContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[AnnaOnTelegram]:
        async with serving() as peer, AnnaOnTelegram.plugged_in(peer) as rig:
            yield rig
