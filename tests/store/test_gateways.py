"""Which gateways are alive, and which platform each of them serves."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from segue.core.address import Platform
from segue.core.errors import SessionHeld, SessionMoved
from segue.core.session import Session
from segue.store import Store, gateways, leases, sessions, transcripts
from segue.store.gateways import ALIVE_SECONDS, LinkState, PlatformHealth
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import ODD, said

TELEGRAM, SLACK, MATRIX = Platform.TELEGRAM, Platform.SLACK, Platform.MATRIX


async def test_a_gateway_is_present_once_it_announces_itself(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    terminal = await open_store()
    assert await gateways.alive(terminal) == ()
    assert await gateways.serving(terminal, TELEGRAM) is None
    here = await gateways.announce(store, "gateway on desk", [TELEGRAM, SLACK])
    assert (here.process, here.name) == (store.process, "gateway on desk")
    assert (here.platforms, here.started) == ({TELEGRAM, SLACK}, clock.now())
    assert await gateways.alive(terminal) == (here,)
    assert await gateways.serving(terminal, SLACK) == here
    assert await gateways.serving(terminal, MATRIX) is None


async def test_a_platform_is_served_by_one_gateway(store: Store, open_store: OpenStore):
    other = await open_store()
    first = await gateways.announce(store, "first", [TELEGRAM, SLACK])
    second = await gateways.announce(other, "second", [TELEGRAM, MATRIX])
    assert second.platforms == {MATRIX}
    assert await gateways.serving(store, TELEGRAM) == first
    assert {gateway.name for gateway in await gateways.alive(store)} == {"first", "second"}


async def test_of_gateways_that_start_at_once_one_serves_the_platform(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    announced = await asyncio.gather(*(gateways.announce(o, "g", [TELEGRAM]) for o in openings))
    assert sum(TELEGRAM in gateway.platforms for gateway in announced) == 1


async def test_a_gateway_may_announce_itself_again_with_more_platforms(
    store: Store, clock: FakeClock
):
    first = await gateways.announce(store, "before", [TELEGRAM])
    clock.advance(1)
    again = await gateways.announce(store, "after", [TELEGRAM, SLACK])
    assert (again.name, again.platforms) == ("after", {TELEGRAM, SLACK})
    assert again.started == first.started
    assert await gateways.alive(store) == (again,)


async def test_a_platform_that_a_gateway_leaves_is_free_for_others(
    store: Store, open_store: OpenStore
):
    other = await open_store()
    await gateways.announce(store, "one", [TELEGRAM, SLACK])
    assert await gateways.leave(store, TELEGRAM)
    assert not await gateways.leave(store, TELEGRAM)
    assert not await gateways.leave(other, SLACK)
    assert (await gateways.announce(other, "two", [TELEGRAM, SLACK])).platforms == {TELEGRAM}
    assert (await gateways.announce(store, "one", [SLACK])).platforms == {SLACK}


async def test_heartbeats_keep_a_gateway_alive(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    terminal = await open_store()
    await gateways.announce(store, "gateway", [TELEGRAM])
    for _ in range(5):
        clock.advance(ALIVE_SECONDS - 1)
        assert await gateways.heartbeat(store)
        assert await gateways.serving(terminal, TELEGRAM)
    clock.advance(ALIVE_SECONDS)
    assert await gateways.alive(terminal) == ()
    assert await gateways.serving(terminal, TELEGRAM) is None


async def test_a_silent_gateway_is_replaced_and_learns_it_from_its_next_heartbeat(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    await gateways.announce(store, "silent", [TELEGRAM, SLACK])
    clock.advance(ALIVE_SECONDS)
    replacement = await gateways.announce(other, "replacement", [TELEGRAM])
    assert replacement.platforms == {TELEGRAM}
    assert not await gateways.heartbeat(store)
    again = await gateways.announce(store, "silent", [TELEGRAM, SLACK])
    assert again.platforms == {SLACK}
    assert await gateways.serving(store, TELEGRAM) == replacement


async def test_the_leases_of_a_silent_gateway_are_free_once_it_is_replaced(
    store: Store, open_store: OpenStore, clock: FakeClock, session: Session
):
    silent, terminal = await open_store(), await open_store()
    await gateways.announce(silent, "silent", [TELEGRAM])
    mine = await sessions.create(terminal, "me", Platform.LOCAL)
    await leases.acquire(terminal, mine.id, "a terminal")
    lost = await leases.acquire(silent, session.id, "silent")
    clock.advance(ALIVE_SECONDS)
    with pytest.raises(SessionHeld):
        await leases.acquire(store, session.id, "replacement")
    await gateways.announce(store, "replacement", [TELEGRAM])
    await leases.acquire(store, session.id, "replacement")
    with pytest.raises(SessionMoved):
        await transcripts.append(silent, lost, [said("Still here?")])
    with pytest.raises(SessionHeld):
        await leases.acquire(store, mine.id, "replacement")


async def test_a_silent_gateway_keeps_its_sessions_until_another_process_acquires_them(
    store: Store, open_store: OpenStore, clock: FakeClock, session: Session
):
    silent = await open_store()
    await gateways.announce(silent, "silent", [TELEGRAM, SLACK])
    lease = await leases.acquire(silent, session.id, "silent")
    clock.advance(ALIVE_SECONDS)
    await gateways.announce(store, "replacement", [TELEGRAM])
    await gateways.announce(silent, "silent", [TELEGRAM, SLACK])
    await transcripts.append(silent, lease, [said("Still here.")])
    await leases.renew(silent, lease)
    with pytest.raises(SessionHeld):
        await leases.acquire(store, session.id, "replacement")


async def test_a_late_gateway_keeps_its_leases(store: Store, clock: FakeClock, session: Session):
    await gateways.announce(store, "late", [TELEGRAM])
    lease = await leases.acquire(store, session.id, "late")
    clock.advance(ALIVE_SECONDS)
    await gateways.announce(store, "late", [TELEGRAM])
    await transcripts.append(store, lease, [said("Still here.")])


async def test_a_late_heartbeat_counts_if_no_gateway_took_over(store: Store, clock: FakeClock):
    await gateways.announce(store, "late", [TELEGRAM])
    clock.advance(10 * ALIVE_SECONDS)
    assert await gateways.heartbeat(store)
    assert await gateways.serving(store, TELEGRAM)


async def test_a_gateway_whose_process_ended_is_gone_at_once(store: Store, open_store: OpenStore):
    dying = await open_store()
    await gateways.announce(dying, "dying", [TELEGRAM])
    await dying.close()
    assert await gateways.alive(store) == ()
    assert await gateways.serving(store, TELEGRAM) is None
    assert (await gateways.announce(store, "next", [TELEGRAM])).platforms == {TELEGRAM}


async def test_the_platforms_of_a_withdrawn_gateway_are_free(store: Store, open_store: OpenStore):
    other = await open_store()
    await gateways.announce(store, "leaving", [TELEGRAM])
    assert await gateways.withdraw(store)
    assert not await gateways.withdraw(store)
    assert not await gateways.heartbeat(store)
    assert await gateways.alive(other) == ()
    assert (await gateways.announce(other, "next", [TELEGRAM])).platforms == {TELEGRAM}


async def test_a_platform_is_connecting_until_its_gateway_records_its_health(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    here = await gateways.announce(store, "gateway", [TELEGRAM, SLACK])
    assert {link.platform: link.state for link in here.links.values()} == {
        TELEGRAM: LinkState.CONNECTING,
        SLACK: LinkState.CONNECTING,
    }
    began = clock.now()
    clock.advance(1)
    account = {"account": "bot 1", "link": "https://t.example/bot?start={code}"}
    assert await gateways.report(store, TELEGRAM, LinkState.CONNECTED, **account)
    (seen,) = await gateways.alive(await open_store())
    assert seen.links[TELEGRAM] == PlatformHealth(
        platform=TELEGRAM, state=LinkState.CONNECTED, detail="", since=clock.now(), **account
    )
    assert (seen.links[SLACK].state, seen.links[SLACK].since) == (LinkState.CONNECTING, began)


async def test_a_platform_that_is_down_keeps_its_account_and_the_time_of_the_failure(
    store: Store, clock: FakeClock
):
    await gateways.announce(store, "gateway", [TELEGRAM])
    await gateways.report(store, TELEGRAM, LinkState.CONNECTED, account="bot 1", link="x{code}")
    clock.advance(1)
    fell = clock.now()
    for detail in ("refused", "no route"):
        assert await gateways.report(store, TELEGRAM, LinkState.DOWN, detail=detail)
        clock.advance(1)
        (seen,) = await gateways.alive(store)
        health = seen.links[TELEGRAM]
        assert (health.state, health.detail, health.since) == (LinkState.DOWN, detail, fell)
        assert (health.account, health.link) == ("bot 1", "x{code}")
    again = await gateways.announce(store, "gateway", [TELEGRAM])
    assert again.links[TELEGRAM] == health
    await gateways.report(store, TELEGRAM, LinkState.CONNECTED)
    (seen,) = await gateways.alive(store)
    assert (seen.links[TELEGRAM].detail, seen.links[TELEGRAM].since) == ("", clock.now())


async def test_only_the_gateway_that_serves_a_platform_records_its_health(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    await gateways.announce(store, "first", [TELEGRAM])
    await gateways.announce(other, "second", [TELEGRAM, SLACK])
    assert not await gateways.report(other, TELEGRAM, LinkState.DOWN)
    assert not await gateways.report(store, SLACK, LinkState.DOWN)
    assert not await gateways.report(store, MATRIX, LinkState.DOWN)
    await gateways.report(store, TELEGRAM, LinkState.DOWN)
    clock.advance(ALIVE_SECONDS)
    taken = await gateways.announce(other, "second", [TELEGRAM, SLACK])
    assert taken.links[TELEGRAM].state is LinkState.CONNECTING
    assert not await gateways.report(store, TELEGRAM, LinkState.CONNECTED)


async def test_a_gateway_that_never_announced_itself_has_no_heartbeat(store: Store):
    assert not await gateways.heartbeat(store)
    assert not await gateways.withdraw(store)


async def test_a_wall_clock_that_jumps_an_hour_stops_no_gateway(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await gateways.announce(store, "gateway", [TELEGRAM])
    clock.set_wall(clock.now() + timedelta(hours=1))
    assert (await gateways.announce(await open_store(), "thief", [TELEGRAM])).platforms == set()
    assert await gateways.heartbeat(store)


async def test_a_gateway_can_have_any_name_and_no_platform(store: Store):
    gateway = await gateways.announce(store, ODD, [])
    assert (gateway.name, gateway.platforms) == ("a\ufffdb\ufffdc", frozenset())


async def test_the_last_contact_is_that_of_one_account(store: Store, clock: FakeClock):
    assert await gateways.last_contact(store, TELEGRAM, "bot") is None
    await gateways.record_contact(store, TELEGRAM, "bot")
    first = clock.now()
    clock.advance(60)
    await gateways.record_contact(store, TELEGRAM, ODD)
    assert await gateways.last_contact(store, TELEGRAM, "bot") == first
    assert await gateways.last_contact(store, SLACK, "bot") is None
    await gateways.record_contact(store, TELEGRAM, "bot")
    assert await gateways.last_contact(store, TELEGRAM, "bot") == clock.now()
