"""Telegram keeps the contract of all platforms, in every shape of chat."""

from __future__ import annotations

import pytest

from tests.platforms.contract import RemoteContract
from tests.platforms.rig import RemoteRig
from tests.platforms.telegram.rig import Shape, TelegramRig


class TestTelegram(RemoteContract):
    @pytest.fixture
    def rig(self, rig: TelegramRig) -> RemoteRig:
        return rig

    @pytest.fixture(params=[shape for shape in Shape if shape is not Shape.GROUP])
    def shape(self, request: pytest.FixtureRequest) -> str:
        """To a bot, a group is a supergroup in which less can happen."""
        return request.param
