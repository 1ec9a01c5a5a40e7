"""Rights on PostgreSQL: an error names the role, the database, and the command that helps."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

import segue.store
from segue.core.errors import StoreError
from segue.store import database, owners
from tests.fakes import postgres
from tests.store.test_files import set_version

pytestmark = pytest.mark.real


@dataclass(frozen=True)
class Guest:
    admin: psycopg.Connection[Any]
    theirs: str
    """The URL of the administrator."""

    @property
    def url(self) -> str:
        return self.theirs.replace("postgres@", "guest@")

    async def may(self) -> None:
        """Open the store after carrying out what each error says."""
        for _ in range(5):
            try:
                async with await segue.store.open(self.url) as store:
                    await owners.ensure(store, "me")
                    return
            except StoreError as error:
                said = str(error)
                assert "The role guest " in said
                command = shlex.split(said.partition("`")[2].partition("`")[0])
                assert command[:4] == ["psql", "-d", self.admin.info.dbname, "-c"]
                self.admin.execute(command[4].encode())
        raise AssertionError("it is still not allowed")


@pytest.fixture
def guest(postgres_server: postgres.Server) -> Generator[Guest]:
    """A role without any right on a new database, in which another role has made a store."""
    with postgres_server.database() as url, psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS guest")
        admin.execute("CREATE ROLE guest LOGIN")
        yield Guest(admin, url)


async def test_a_role_that_may_not_create_a_store_learns_how_to(guest: Guest):
    with pytest.raises(StoreError, match=r"GRANT CREATE ON DATABASE .* TO \"guest\""):
        await segue.store.open(guest.url)
    await guest.may()


async def test_a_role_that_may_not_connect_learns_how_to(guest: Guest):
    database = guest.admin.info.dbname
    guest.admin.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC".encode())
    with pytest.raises(StoreError, match="GRANT CONNECT ON DATABASE"):
        await segue.store.open(guest.url)
    await guest.may()


async def test_a_role_that_may_not_use_the_tables_learns_how_to(guest: Guest):
    async with await segue.store.open(guest.theirs) as store:
        await owners.ensure(store, "me")
    with pytest.raises(StoreError, match="GRANT USAGE ON SCHEMA segue"):
        await segue.store.open(guest.url)
    await guest.may()


async def test_a_role_that_may_not_migrate_the_tables_learns_how_to(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
):
    async with await segue.store.open(guest.theirs) as store:
        await owners.ensure(store, "me")
    await guest.may()
    set_version(guest.theirs, database.LATEST - 1)
    alter = ["ALTER TABLE segue.owners ADD COLUMN new_one BIGINT"]
    with monkeypatch.context() as patched:
        patched.setattr(database, "scripts", lambda *_: alter)
        with pytest.raises(StoreError, match='GRANT "postgres" TO "guest"'):
            await segue.store.open(guest.url)
        await guest.may()


async def test_a_database_that_is_read_only_is_reported(guest: Guest):
    database = guest.admin.info.dbname
    guest.admin.execute(
        f"ALTER DATABASE {database} SET default_transaction_read_only = on".encode()
    )
    with pytest.raises(StoreError, match="default_transaction_read_only = off") as refused:
        await segue.store.open(guest.theirs)
    assert "file" not in str(refused.value)
