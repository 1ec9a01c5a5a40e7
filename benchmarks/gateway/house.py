"""A platform, a store and a gateway. The platform and each gateway run in separate processes."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import segue.store
from segue.core.address import Platform, Sender
from segue.core.session import ME
from segue.store import Store, owners
from segue.testing.platform import Driver, Rules, running
from tests.harness import gateway_processes

PLATFORM = Platform.TELEGRAM


@dataclass(frozen=True, slots=True)
class House:
    driver: Driver
    store: Store
    """The benchmark's own connection to the store, separate from the gateway's."""
    owner: str
    """The platform's id of the paired user."""
    environment: dict[str, str]

    def gateway(self) -> contextlib.AbstractAsyncContextManager[gateway_processes.Process]:
        return gateway_processes.gateway(self.environment, self.driver)


@contextlib.asynccontextmanager
async def house() -> AsyncGenerator[House]:
    """Set up the platform and the store, without a gateway.

    The bot gets no echo of its messages.
    """
    with tempfile.TemporaryDirectory() as folder, running(Rules(echo=False)) as peer:
        environment = gateway_processes.environment(Path(folder), peer, PLATFORM)
        async with (
            peer.driver() as driver,
            await segue.store.open(environment["SEGUE_STORE"]) as store,
        ):
            owner = await driver.user("Anna")
            await owners.ensure(store, ME)
            await owners.introduced(store, ME)
            await owners.link(store, Sender(platform=PLATFORM, user_id=owner), ME)
            yield House(driver, store, owner, environment)
