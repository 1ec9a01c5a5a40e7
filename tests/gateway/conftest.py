"""A house with a platform and its users, for the gateways of the tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest

from segue import config
from segue.config import Settings
from tests.harness import stores
from tests.harness.house import House, build


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    environment = {
        "SEGUE_CONFIG": f"{tmp_path}/config.toml",
        "SEGUE_STORE": stores.create(tmp_path / "segue.db"),
        "SEGUE_GATEWAY_LOG": f"{tmp_path}/gateway.log",
    }
    return config.load(environment)


@pytest.fixture
def house(settings: Settings, runner: asyncio.Runner) -> Generator[House]:
    """A house with Anna, who is paired, and Eve, who is not."""
    stack = contextlib.AsyncExitStack()
    yield runner.run(stack.enter_async_context(build(settings)))
    runner.run(stack.aclose())
