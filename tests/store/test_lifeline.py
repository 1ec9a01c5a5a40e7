"""Which processes are alive on PostgreSQL, and what a live process does when its connection
breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from segue.core.address import Platform
from segue.core.errors import SessionHeld, SessionMoved, StoreError
from segue.core.session import Session
from segue.store import Store, connections, gateways, leases, owners, transcripts
from segue.store.gateways import ALIVE_SECONDS
from segue.store.postgres import CONNECTIONS, PostgresEngine
from segue.testing.clock import FakeClock
from tests.fakes import postgres
from tests.store.conftest import OpenStore
from tests.store.processes import until
from tests.store.samples import hold, on_postgres, said, texts

TELEGRAM = Platform.TELEGRAM
NEVER = 1000.0

pytestmark = on_postgres


@contextmanager
def administering(url: str) -> Generator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as admin:
        yield admin


def cut(admin: psycopg.Connection[Any], store: Store) -> None:
    """Break the connection that holds the lock of `store`."""
    sql = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks"
        " WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted"
        f" AND ((classid::bigint << 32) | objid::bigint) = {connections.LOCK}"
    )
    found = admin.execute(sql.encode(), {"process": store.process}).fetchall()
    assert found == [(True,)]


def is_held(admin: psycopg.Connection[Any], store: Store) -> bool:
    sql = f"SELECT pg_try_advisory_xact_lock_shared({connections.LOCK})"
    return admin.execute(sql.encode(), {"process": store.process}).fetchall() == [(False,)]


@contextmanager
def full(admin: psycopg.Connection[Any], server: postgres.Server) -> Generator[None]:
    """Inside, the server accepts no new connection to the database of `admin`."""
    alter = f"ALTER DATABASE {admin.info.dbname} ALLOW_CONNECTIONS"
    with administering(server.url("postgres")) as outside:
        outside.execute(f"{alter} false".encode())
        try:
            yield
        finally:
            outside.execute(f"{alter} true".encode())


async def until_held(admin: psycopg.Connection[Any], store: Store) -> None:
    await asyncio.to_thread(until, lambda: is_held(admin, store))


async def test_a_process_whose_connection_breaks_keeps_its_leases(
    store: Store, open_store: OpenStore, session: Session, url: str
):
    other = await open_store()
    lease = await hold(store, session.id)
    with administering(url) as admin:
        cut(admin, store)
        await until_held(admin, store)
    with pytest.raises(SessionHeld):
        await leases.acquire(other, session.id, "another")
    await transcripts.append(store, lease, [said("Still here.")])


async def test_a_process_without_its_lifeline_cannot_write(
    store: Store,
    open_store: OpenStore,
    session: Session,
    url: str,
    postgres_server: postgres.Server,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.01)
    other = await open_store()
    lease = await hold(store, session.id)
    await gateways.announce(store, "cut off", [TELEGRAM])
    await asyncio.gather(*(owners.all_owners(other) for _ in range(CONNECTIONS)))
    with administering(url) as admin:
        with full(admin, postgres_server):
            cut(admin, store)
            async with asyncio.timeout(10):
                while True:
                    try:
                        await owners.ensure(store, "me")
                    except StoreError as error:
                        if "does not answer" not in str(error):
                            raise
                        if "not currently accepting connections" in str(error):  # it has retried
                            break
            with pytest.raises(
                StoreError, match=r"does not answer: .*not currently accepting connections"
            ):
                await transcripts.append(store, lease, [said("in two hands")])
            taken = await leases.acquire(other, session.id, "another")
            assert (await gateways.announce(other, "next", [TELEGRAM])).platforms == {TELEGRAM}
        await until_held(admin, store)
    await transcripts.append(other, taken, [said("in one")])
    monkeypatch.undo()
    with pytest.raises(SessionMoved):
        await transcripts.append(store, lease, [said("in two hands")])
    assert texts(await transcripts.load(store, session.id)) == ["in one"]
    assert (await gateways.announce(store, "cut off", [TELEGRAM])).platforms == set()


async def test_a_process_that_was_cut_off_declares_no_gateway_gone_for_a_while(
    store: Store,
    open_store: OpenStore,
    session: Session,
    url: str,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
):
    serving = await open_store()
    await gateways.announce(serving, "serving", [TELEGRAM])
    await leases.acquire(serving, session.id, "serving", seconds=NEVER)
    for grace, taken in ((NEVER, set[Platform]()), (0.0, {TELEGRAM})):
        monkeypatch.setattr(connections, "GRACE_SECONDS", grace)
        with administering(url) as admin:
            cut(admin, store)
            await until_held(admin, store)
        clock.advance(ALIVE_SECONDS)
        assert (await gateways.announce(store, "standby", [TELEGRAM])).platforms == taken


async def test_a_process_that_was_cut_off_declares_no_process_dead_for_a_while(
    store: Store,
    open_store: OpenStore,
    session: Session,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
):
    dying = await open_store()
    await hold(dying, session.id)
    monkeypatch.setattr(connections, "GRACE_SECONDS", NEVER)
    with administering(url) as admin:
        cut(admin, store)
        await until_held(admin, store)
    await dying.close()
    with pytest.raises(SessionHeld):
        await leases.acquire(store, session.id, "too soon")
    assert await leases.acquire(await open_store(), session.id, "who was not cut off")


async def test_concurrent_callers_all_see_that_a_process_is_dead(
    store: Store, open_store: OpenStore, session: Session
):
    dying, others = await open_store(), [store, await open_store(), await open_store()]
    await hold(dying, session.id)
    await dying.close()
    found = await asyncio.gather(*(leases.get(other, session.id) for other in others * 10))
    assert not any(found)


async def test_a_gateway_that_does_not_know_yet_that_it_was_cut_off_announces_itself(store: Store):
    await gateways.announce(store, "cut off", [TELEGRAM])
    engine = store._engine
    assert isinstance(engine, PostgresEngine)
    await engine._lifeline.close()  # its lock is free, as if the server had ended the connection
    async with asyncio.timeout(10):
        here = await gateways.announce(store, "cut off", [TELEGRAM])
    assert here.platforms == {TELEGRAM}
