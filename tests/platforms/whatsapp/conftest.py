"""A strict WhatsApp fake with a number."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from segue.testing.whatsapp import Peer
from segue.testing.whatsapp.process import FAKE
from tests.harness.fakes import forked
from tests.platforms.whatsapp.rig import WhatsAppRig, plugged_in


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


@pytest.fixture
def rig(peer: Peer, runner: asyncio.Runner) -> Generator[WhatsAppRig]:
    plugged = plugged_in(peer)
    yield runner.run(plugged.__aenter__())
    runner.run(plugged.__aexit__(None, None, None))
