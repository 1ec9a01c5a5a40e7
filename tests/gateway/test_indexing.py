"""A gateway fills the full-text index in the background."""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.session import ME
from tests.gateway.test_takeover import until
from tests.harness.house import House
from tests.store.samples import said, say


async def test_a_gateway_indexes_what_was_said_before_it_started(house: House):
    session = await house.store.sessions.create(ME, Platform.LOCAL)
    await say(house.store, session.id, said("plant the roses"))
    assert not await house.store.sessions.is_indexed()
    async with house.gateway():
        await until(house.store.sessions.is_indexed)
