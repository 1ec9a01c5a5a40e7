"""Fixtures that survive every crash: the platforms, and the process that forks terminals."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.crash.world import Nursery
from tests.harness.fakes import forked
from tests.rigs import PlatformRig
from tests.store.conftest import postgres_server as postgres_server


class Fakes:
    """The fakes of the platforms, each started when it is first needed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started: dict[str, Any] = {}

    def of(self, rig: type[PlatformRig]) -> Any:
        """The peer of that rig's platform."""
        package = rig.fake.package
        if package not in self._started:
            self._started[package] = self._stack.enter_context(forked(rig.fake))
        return self._started[package]


@pytest.fixture(scope="session")
def fakes() -> Generator[Fakes]:
    with ExitStack() as stack:
        yield Fakes(stack)


@pytest.fixture(scope="session")
def nursery() -> Generator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()
