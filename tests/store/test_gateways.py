"""Which gateways are alive, and which platform each of them serves."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from segue.core.address import Platform
from segue.core.errors import SessionHeld, SessionMoved
from segue.core.session import Session
from segue.store import Store
from segue.store.gateways import ALIVE_SECONDS, LinkState, PlatformHealth
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import ODD, said

TELEGRAM, SLACK, MATRIX = Platform.TELEGRAM, Platform.SLACK, Platform.MATRIX


async def test_a_gateway_is_present_once_it_announces_itself(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    terminal = await open_store()
    assert await terminal.gateways.alive() == ()
    assert await terminal.gateways.serving(TELEGRAM) is None
    here = await store.gateways.announce("gateway on desk", [TELEGRAM, SLACK])
    assert (here.process, here.name) == (store.process, "gateway on desk")
    assert (here.platforms, here.started) == ({TELEGRAM, SLACK}, clock.now())
    assert await terminal.gateways.alive() == (here,)
    assert await terminal.gateways.serving(SLACK) == here
    assert await terminal.gateways.serving(MATRIX) is None


async def test_a_platform_is_served_by_one_gateway(store: Store, open_store: OpenStore):
    other = await open_store()
    first = await store.gateways.announce("first", [TELEGRAM, SLACK])
    second = await other.gateways.announce("second", [TELEGRAM, MATRIX])
    assert second.platforms == {MATRIX}
    assert await store.gateways.serving(TELEGRAM) == first
    assert {gateway.name for gateway in await store.gateways.alive()} == {"first", "second"}


async def test_of_gateways_that_start_at_once_one_serves_the_platform(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    announced = await asyncio.gather(*(o.gateways.announce("g", [TELEGRAM]) for o in openings))
    assert sum(TELEGRAM in gateway.platforms for gateway in announced) == 1


async def test_a_gateway_may_announce_itself_again_with_more_platforms(
    store: Store, clock: FakeClock
):
    first = await store.gateways.announce("before", [TELEGRAM])
    clock.advance(1)
    again = await store.gateways.announce("after", [TELEGRAM, SLACK])
    assert (again.name, again.platforms) == ("after", {TELEGRAM, SLACK})
    assert again.started == first.started
    assert await store.gateways.alive() == (again,)


async def test_a_platform_that_a_gateway_leaves_is_free_for_others(
    store: Store, open_store: OpenStore
):
    other = await open_store()
    await store.gateways.announce("one", [TELEGRAM, SLACK])
    assert await store.gateways.leave(TELEGRAM)
    assert not await store.gateways.leave(TELEGRAM)
    assert not await other.gateways.leave(SLACK)
    assert (await other.gateways.announce("two", [TELEGRAM, SLACK])).platforms == {TELEGRAM}
    assert (await store.gateways.announce("one", [SLACK])).platforms == {SLACK}


async def test_heartbeats_keep_a_gateway_alive(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    terminal = await open_store()
    await store.gateways.announce("gateway", [TELEGRAM])
    for _ in range(5):
        clock.advance(ALIVE_SECONDS - 1)
        assert await store.gateways.heartbeat()
        assert await terminal.gateways.serving(TELEGRAM)
    clock.advance(ALIVE_SECONDS)
    assert await terminal.gateways.alive() == ()
    assert await terminal.gateways.serving(TELEGRAM) is None


async def test_a_silent_gateway_is_replaced_and_learns_it_from_its_next_heartbeat(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    await store.gateways.announce("silent", [TELEGRAM, SLACK])
    clock.advance(ALIVE_SECONDS)
    replacement = await other.gateways.announce("replacement", [TELEGRAM])
    assert replacement.platforms == {TELEGRAM}
    assert not await store.gateways.heartbeat()
    again = await store.gateways.announce("silent", [TELEGRAM, SLACK])
    assert again.platforms == {SLACK}
    assert await store.gateways.serving(TELEGRAM) == replacement


async def test_the_leases_of_a_silent_gateway_are_free_once_it_is_replaced(
    store: Store, open_store: OpenStore, clock: FakeClock, session: Session
):
    silent, terminal = await open_store(), await open_store()
    await silent.gateways.announce("silent", [TELEGRAM])
    mine = await terminal.sessions.create("me", Platform.LOCAL)
    await terminal.leases.acquire(mine.id, "a terminal")
    lost = await silent.leases.acquire(session.id, "silent")
    clock.advance(ALIVE_SECONDS)
    with pytest.raises(SessionHeld):
        await store.leases.acquire(session.id, "replacement")
    await store.gateways.announce("replacement", [TELEGRAM])
    await store.leases.acquire(session.id, "replacement")
    with pytest.raises(SessionMoved):
        await silent.transcripts.append(lost, [said("Still here?")])
    with pytest.raises(SessionHeld):
        await store.leases.acquire(mine.id, "replacement")


async def test_a_silent_gateway_keeps_its_sessions_until_another_process_acquires_them(
    store: Store, open_store: OpenStore, clock: FakeClock, session: Session
):
    silent = await open_store()
    await silent.gateways.announce("silent", [TELEGRAM, SLACK])
    lease = await silent.leases.acquire(session.id, "silent")
    clock.advance(ALIVE_SECONDS)
    await store.gateways.announce("replacement", [TELEGRAM])
    await silent.gateways.announce("silent", [TELEGRAM, SLACK])
    await silent.transcripts.append(lease, [said("Still here.")])
    await silent.leases.renew(lease)
    with pytest.raises(SessionHeld):
        await store.leases.acquire(session.id, "replacement")


async def test_a_late_gateway_keeps_its_leases(store: Store, clock: FakeClock, session: Session):
    await store.gateways.announce("late", [TELEGRAM])
    lease = await store.leases.acquire(session.id, "late")
    clock.advance(ALIVE_SECONDS)
    await store.gateways.announce("late", [TELEGRAM])
    await store.transcripts.append(lease, [said("Still here.")])


async def test_a_late_heartbeat_counts_if_no_gateway_took_over(store: Store, clock: FakeClock):
    await store.gateways.announce("late", [TELEGRAM])
    clock.advance(10 * ALIVE_SECONDS)
    assert await store.gateways.heartbeat()
    assert await store.gateways.serving(TELEGRAM)


async def test_a_gateway_whose_process_ended_is_gone_at_once(store: Store, open_store: OpenStore):
    dying = await open_store()
    await dying.gateways.announce("dying", [TELEGRAM])
    await dying.close()
    assert await store.gateways.alive() == ()
    assert await store.gateways.serving(TELEGRAM) is None
    assert (await store.gateways.announce("next", [TELEGRAM])).platforms == {TELEGRAM}


async def test_the_platforms_of_a_withdrawn_gateway_are_free(store: Store, open_store: OpenStore):
    other = await open_store()
    await store.gateways.announce("leaving", [TELEGRAM])
    assert await store.gateways.withdraw()
    assert not await store.gateways.withdraw()
    assert not await store.gateways.heartbeat()
    assert await other.gateways.alive() == ()
    assert (await other.gateways.announce("next", [TELEGRAM])).platforms == {TELEGRAM}


async def test_a_platform_is_connecting_until_its_gateway_records_its_health(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    here = await store.gateways.announce("gateway", [TELEGRAM, SLACK])
    assert {link.platform: link.state for link in here.links.values()} == {
        TELEGRAM: LinkState.CONNECTING,
        SLACK: LinkState.CONNECTING,
    }
    began = clock.now()
    clock.advance(1)
    account = {"account": "bot 1", "link": "https://t.example/bot?start={code}"}
    assert await store.gateways.report(TELEGRAM, LinkState.CONNECTED, **account)
    (seen,) = await (await open_store()).gateways.alive()
    assert seen.links[TELEGRAM] == PlatformHealth(
        platform=TELEGRAM, state=LinkState.CONNECTED, detail="", since=clock.now(), **account
    )
    assert (seen.links[SLACK].state, seen.links[SLACK].since) == (LinkState.CONNECTING, began)


async def test_a_platform_that_is_down_keeps_its_account_and_the_time_of_the_failure(
    store: Store, clock: FakeClock
):
    await store.gateways.announce("gateway", [TELEGRAM])
    await store.gateways.report(TELEGRAM, LinkState.CONNECTED, account="bot 1", link="x{code}")
    clock.advance(1)
    fell = clock.now()
    for detail in ("refused", "no route"):
        assert await store.gateways.report(TELEGRAM, LinkState.DOWN, detail=detail)
        clock.advance(1)
        (seen,) = await store.gateways.alive()
        health = seen.links[TELEGRAM]
        assert (health.state, health.detail, health.since) == (LinkState.DOWN, detail, fell)
        assert (health.account, health.link) == ("bot 1", "x{code}")
    again = await store.gateways.announce("gateway", [TELEGRAM])
    assert again.links[TELEGRAM] == health
    await store.gateways.report(TELEGRAM, LinkState.CONNECTED)
    (seen,) = await store.gateways.alive()
    assert (seen.links[TELEGRAM].detail, seen.links[TELEGRAM].since) == ("", clock.now())


async def test_only_the_gateway_that_serves_a_platform_records_its_health(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    await store.gateways.announce("first", [TELEGRAM])
    await other.gateways.announce("second", [TELEGRAM, SLACK])
    assert not await other.gateways.report(TELEGRAM, LinkState.DOWN)
    assert not await store.gateways.report(SLACK, LinkState.DOWN)
    assert not await store.gateways.report(MATRIX, LinkState.DOWN)
    await store.gateways.report(TELEGRAM, LinkState.DOWN)
    clock.advance(ALIVE_SECONDS)
    taken = await other.gateways.announce("second", [TELEGRAM, SLACK])
    assert taken.links[TELEGRAM].state is LinkState.CONNECTING
    assert not await store.gateways.report(TELEGRAM, LinkState.CONNECTED)


async def test_a_gateway_that_never_announced_itself_has_no_heartbeat(store: Store):
    assert not await store.gateways.heartbeat()
    assert not await store.gateways.withdraw()


async def test_a_wall_clock_that_jumps_an_hour_stops_no_gateway(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    await store.gateways.announce("gateway", [TELEGRAM])
    clock.set_wall(clock.now() + timedelta(hours=1))
    assert (await (await open_store()).gateways.announce("thief", [TELEGRAM])).platforms == set()
    assert await store.gateways.heartbeat()


async def test_a_gateway_can_have_any_name_and_no_platform(store: Store):
    gateway = await store.gateways.announce(ODD, [])
    assert (gateway.name, gateway.platforms) == ("a\ufffdb\ufffdc", frozenset())


async def test_the_last_contact_is_that_of_one_account(store: Store, clock: FakeClock):
    assert await store.gateways.last_contact(TELEGRAM, "bot") is None
    await store.gateways.keep_contact(TELEGRAM, "bot")
    first = clock.now()
    clock.advance(60)
    await store.gateways.keep_contact(TELEGRAM, ODD)
    assert await store.gateways.last_contact(TELEGRAM, "bot") == first
    assert await store.gateways.last_contact(SLACK, "bot") is None
    await store.gateways.keep_contact(TELEGRAM, "bot")
    assert await store.gateways.last_contact(TELEGRAM, "bot") == clock.now()
