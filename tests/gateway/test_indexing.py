"""A gateway fills the full-text index in the background."""

from __future__ import annotations

from functools import partial

from segue.core.address import Platform
from segue.core.session import ME
from segue.store import search, sessions
from tests.gateway.test_takeover import until
from tests.harness.house import House
from tests.store.samples import said, say


async def test_a_gateway_indexes_what_was_said_before_it_started(house: House):
    session = await sessions.create(house.store, ME, Platform.LOCAL)
    await say(house.store, session.id, said("plant the roses"))
    assert not await search.is_complete(house.store)
    async with house.gateway():
        await until(partial(search.is_complete, house.store))
