"""WhatsApp passes the contract suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from segue.testing.contract.suite import RemoteContract
from segue.testing.whatsapp import Peer
from tests.platforms.whatsapp.rig import WhatsAppRig


class TestWhatsApp(RemoteContract):
    @pytest.fixture
    async def rig(self, peer: Peer) -> AsyncGenerator[WhatsAppRig]:
        async with WhatsAppRig.plugged_in(peer) as rig:
            yield rig
