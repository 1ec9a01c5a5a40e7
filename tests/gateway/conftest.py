"""A house with a platform and its users, for the gateways of the tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest

import segue.store
from segue import config
from segue.config import Settings
from segue.core.session import ME
from segue.store import owners
from segue.testing.platform import serving
from tests.harness import stores
from tests.harness.house import House


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

    async def build() -> House:
        peer = await stack.enter_async_context(serving())
        driver = await stack.enter_async_context(peer.driver())
        store = await stack.enter_async_context(await segue.store.open(settings.store))
        await owners.ensure(store, ME)
        await owners.introduced(store, ME)
        house = House(peer, driver, settings.store, settings, store)
        house.anna = await driver.user("Anna")
        house.eve = await driver.user("Eve")
        await house.pair(house.anna)
        return house

    yield runner.run(build())
    runner.run(stack.aclose())
