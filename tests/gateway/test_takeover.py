"""Gateways that lose a platform, a session or a handoff to another one while they run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import pytest

import segue.store
from segue.core.address import Platform
from segue.core.session import SECOND, Ticks
from segue.gateway import service
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import LEASE_SECONDS
from segue.handoffs.values import Handoff, State
from segue.store import Store, gateways, inbox
from segue.store.base import SystemClock
from segue.store.gateways import ALIVE_SECONDS, LinkState
from segue.testing.platform import Driver, PeerAdapter, Shape, serving
from tests.gateway.test_commands import Waiting
from tests.harness.house import TELEGRAM, WITHIN, House

MATRIX = Platform.MATRIX


class Later(SystemClock):
    """The clock of a process for which all others have been silent for too long."""

    def ticks(self) -> Ticks:
        return Ticks(super().ticks() + int((ALIVE_SECONDS + LEASE_SECONDS) * SECOND))


@dataclass
class Rival:
    """Another gateway, which believes that the first one hangs."""

    store: Store

    async def take(self) -> None:
        taken = await gateways.announce(self.store, "a rival", [TELEGRAM])
        assert taken.platforms == {TELEGRAM}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(service, "STANDBY_SECONDS", 0.05)


@contextlib.asynccontextmanager
async def rival(house: House) -> AsyncGenerator[Rival]:
    async with await segue.store.open(house.url, clock=Later()) as store:
        yield Rival(store)


@contextlib.asynccontextmanager
async def on_two(house: House) -> AsyncGenerator[tuple[Driver, str]]:
    """A gateway that also serves Matrix; the driver of the users there, and Anna among them."""
    async with (
        serving() as peer,
        peer.driver() as driver,
        await segue.store.open(house.url) as store,
    ):
        anna = await driver.user("Anna")
        await house.pair(anna, MATRIX)
        async with house.serve(store, PeerAdapter(MATRIX, peer.url, peer.token), house.adapter()):
            await house.until_link(LinkState.CONNECTED, MATRIX)
            yield driver, anna


async def until(happens: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            if await happens():
                return
            await asyncio.sleep(0.005)


async def until_given_up(house: House) -> None:
    """Wait until the first gateway serves Matrix alone."""

    async def is_given_up() -> bool:
        return any(g.platforms == frozenset({MATRIX}) for g in await gateways.alive(house.store))

    await until(is_given_up)


async def test_a_gateway_that_loses_one_platform_keeps_the_rest_and_serves_it_again_when_free(
    house: House,
):
    chat = await house.chat()
    async with on_two(house) as (driver, anna), rival(house) as other:
        there = await driver.chat(Shape.DM, [anna])
        await other.take()
        await until_given_up(house)
        await house.driver.say(house.anna, chat, "hello")
        await driver.say(anna, there, "still here?")
        await driver.message("(1) still here?", chat=there)
        assert not await inbox.waiting(house.store, [TELEGRAM])
        assert (await house.driver.look(chat)).texts == ["hello"]
        await gateways.withdraw(other.store)
        await house.driver.message("(1) hello", chat=chat)


async def test_a_turn_on_a_lost_platform_is_left_to_the_other_gateway(house: House):
    chat = await house.chat()
    house.model = model = Waiting()
    async with on_two(house), rival(house) as other:
        await house.driver.say(house.anna, chat, "hello")
        await model.asked.wait()
        (waiting,) = await inbox.waiting(house.store, [TELEGRAM])
        await other.take()
        await until_given_up(house)
        assert await inbox.waiting(house.store, [TELEGRAM]) == (waiting,)
        model.go.set()
        await gateways.withdraw(other.store)
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    assert (await house.driver.look(chat)).texts == ["hello", "(1) hello"]


async def test_a_turn_on_a_platform_that_is_still_served_is_finished(house: House):
    house.model = model = Waiting()
    async with on_two(house) as (driver, anna), rival(house) as other:
        there = await driver.chat(Shape.DM, [anna])
        await driver.say(anna, there, "hello")
        await model.asked.wait()
        await other.take()
        await until_given_up(house)
        model.go.set()
        await driver.message("(1) hello", chat=there)


async def test_a_handoff_to_a_lost_platform_can_be_claimed_at_once(house: House):
    chat = await house.chat(Shape.FORUM)
    await house.home(chat, "group")
    house.model = model = Waiting()
    async with on_two(house), house.terminal(("What is 6 times 7?", "42.")) as desk:
        handing_off = asyncio.create_task(desk.hand_off())
        await model.asked.wait()
        (running,) = await handoffs.in_flight(house.store)
        assert running.state is State.RUNNING
        assert running.lease_until is not None
        async with rival(house) as other, await segue.store.open(house.url) as next_one:
            claim: Handoff | None = None

            async def is_claimed() -> bool:
                nonlocal claim
                claim = await handoffs.claim_next(next_one, [TELEGRAM])
                return claim is not None

            await other.take()
            await until(is_claimed)
            assert claim is not None
            assert SystemClock().ticks() < running.lease_until, "it was not given up, but ran out"
            assert claim.thread == running.thread
            await handoffs.fail(next_one, claim, "enough")
        assert (await handing_off).error == "enough"


async def test_updates_of_a_lost_platform_are_left_to_the_other_gateway(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """Even before the gateway has noticed: it must not confirm an update that it cannot record."""
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 1000.0)
    chat = await house.chat()
    async with on_two(house), rival(house) as other:
        await other.take()
        await house.driver.say(house.anna, chat, "hello")
        await until_given_up(house)
        assert not await inbox.waiting(house.store)
        assert (await house.driver.look(chat)).unconfirmed == 1
