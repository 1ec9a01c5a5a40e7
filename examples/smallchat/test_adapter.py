"""SmallChat passes the contract suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from examples.smallchat.rig import SmallChatRig, plugged_in
from segue.testing.contract.suite import RemoteContract


class TestSmallChat(RemoteContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[SmallChatRig]:
        async with plugged_in() as rig:
            yield rig

    @pytest.fixture(params=["dm", "group"])
    def shape(self, request: pytest.FixtureRequest) -> str:
        return request.param
