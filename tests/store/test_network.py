"""PostgreSQL behind a network that stalls and drops, and statements that the server cancels."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest

import segue.store
from segue.core.errors import StoreError
from segue.store import Store, Tx, connections, owners, postgres
from tests.harness.database_proxy import DatabaseProxy
from tests.store.conftest import OpenStore
from tests.store.processes import until
from tests.store.samples import on_postgres
from tests.store.test_lifeline import administering, until_held

WITHIN = 20.0

pytestmark = on_postgres


@asynccontextmanager
async def behind_proxy(url: str) -> AsyncGenerator[tuple[Store, DatabaseProxy]]:
    async with (
        DatabaseProxy(url).running() as proxy,
        asyncio.timeout(WITHIN),
        await segue.store.open(proxy.url) as store,
    ):
        yield store, proxy


@contextmanager
def one_statement(monkeypatch: pytest.MonkeyPatch, name: str, sql: str) -> Generator[None]:
    """Inside, this statement of every transaction is another one."""
    with monkeypatch.context() as patched:
        patched.setattr(postgres, name, sql)
        yield


@pytest.mark.parametrize("how", ["read", "write"])
async def test_a_transaction_whose_first_statement_fails_is_not_left_open(
    store: Store, how: str, monkeypatch: pytest.MonkeyPatch
):
    name = "_BEGIN_READING" if how == "read" else "_BEGIN"
    for _ in range(postgres.CONNECTIONS):
        with one_statement(monkeypatch, name, "BEGIN; SELECT 1 / 0"), pytest.raises(psycopg.Error):
            await getattr(store, how)(lambda _: None)
    await asyncio.gather(*(owners.ensure(store, f"{n}") for n in range(10)))
    assert len(await owners.all_owners(store)) == 11


@pytest.mark.parametrize("how", ["read", "write"])
async def test_a_transaction_whose_rollback_is_cancelled_is_not_left_open(
    store: Store, how: str, monkeypatch: pytest.MonkeyPatch
):
    def fails(tx: Tx) -> None:
        tx.rows("SELECT 1 / 0")

    for _ in range(postgres.CONNECTIONS):
        with one_statement(monkeypatch, "_ROLLBACK", "SELECT 1 / 0"), pytest.raises(psycopg.Error):
            await getattr(store, how)(fails)
    await asyncio.gather(*(owners.ensure(store, f"{n}") for n in range(10)))
    assert len(await owners.all_owners(store)) == 11


async def test_a_cancelled_statement_fails_only_its_own_call(store: Store, url: str):
    begun = threading.Event()

    def slow(tx: Tx) -> None:
        tx.rows("SELECT 1")
        begun.set()
        tx.rows("SELECT pg_sleep(60)")

    for how in (store.read, store.write):
        begun.clear()
        calling = asyncio.ensure_future(how(slow))
        assert await asyncio.to_thread(begun.wait, WITHIN)
        with administering(url) as admin:
            await asyncio.to_thread(until, lambda: cancel_sleepers(admin))
        with pytest.raises(StoreError, match="canceling statement"):
            await calling
    await asyncio.gather(*(owners.ensure(store, f"{n}") for n in range(10)))


def cancel_sleepers(admin: psycopg.Connection[Any]) -> bool:
    sql = (
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
        " WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
    )
    return bool(admin.execute(sql).fetchall())


async def test_a_call_on_a_stalled_connection_ends_with_an_error(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.5)
    async with behind_proxy(url) as (behind, proxy):
        await owners.ensure(behind, "before")
        proxy.stall()
        proxy.is_up = False
        for how in (owners.all_owners(behind), owners.ensure(behind, "meanwhile")):
            with pytest.raises(StoreError):
                await how
        proxy.is_up = True
        await eventually(behind, "after")


async def test_a_stalled_lifeline_is_replaced(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "PING_SECONDS", 0.3)
    monkeypatch.setattr(connections, "POLL_SECONDS", 0.1)
    async with behind_proxy(url) as (behind, proxy):
        before = set(proxy.links)
        proxy.stall()
        while True:
            if set(proxy.links) - before:
                break
            await asyncio.sleep(0.01)
        await eventually(behind, "after")


async def test_a_store_on_a_stalled_network_can_be_closed(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(connections, "PING_SECONDS", 0.3)
    async with behind_proxy(url) as (behind, proxy):
        await owners.ensure(behind, "before")
        proxy.stall()
        proxy.is_up = False
        await behind.close()


@pytest.mark.parametrize("error", [psycopg.InterfaceError, psycopg.InternalError, ValueError])
async def test_the_lifeline_survives_any_error(
    store: Store, error: type[Exception], url: str, monkeypatch: pytest.MonkeyPatch
):
    async with behind_proxy(url) as (behind, proxy):
        failed = asyncio.Event()

        def fails(*_: Any, **__: Any) -> Any:
            failed.set()
            raise error("something unexpected")

        with monkeypatch.context() as patched:
            patched.setattr(psycopg.AsyncConnection, "notifies", fails)
            proxy.cut()
            await failed.wait()
        await eventually(behind, "after")
        with administering(url) as admin:
            await until_held(admin, behind)


async def test_connections_that_are_cut_again_and_again_leave_the_store_working(
    store: Store, url: str, open_store: OpenStore
):
    async with behind_proxy(url) as (behind, proxy):
        kept: list[str] = []
        for n in range(20):
            proxy.cut()
            try:
                await owners.ensure(behind, f"{n}")
            except StoreError:
                continue
            kept.append(f"{n}")
        await eventually(behind, "after")
        known = {owner.id for owner in await owners.all_owners(store)}
        assert {*kept, "after"} <= known


async def eventually(store: Store, owner: str) -> None:
    """Write as soon as the store works again."""
    while True:
        try:
            await owners.ensure(store, owner)
        except StoreError:
            await asyncio.sleep(0.05)
        else:
            return
