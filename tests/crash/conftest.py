"""Fixtures that survive every crash: the platform, and the process that forks terminals."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from segue.testing.platform import Peer, running
from tests.crash.world import Nursery
from tests.store.conftest import postgres_server as postgres_server


@pytest.fixture(scope="session")
def peer() -> Generator[Peer]:
    with running() as peer:
        yield peer


@pytest.fixture(scope="session")
def nursery() -> Generator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()
