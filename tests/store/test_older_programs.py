"""A newer program does not migrate the store while an older one uses it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import psycopg
import pytest

import segue.store
from segue.core.errors import StoreError
from segue.store import connections, database, owners, postgres_schema, processes
from segue.store.base import SqlDialect
from segue.store.connections import LimitedConnection
from segue.store.processes import OpenProcess
from tests.store.samples import on_postgres, on_sqlite
from tests.store.test_files import set_version
from tests.store.test_lifeline import administering

OLD = database.LATEST - 1

LIVING = """
import fcntl, os, sys
lock = os.open(sys.argv[1].format(pid=os.getpid()), os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
print("ready", flush=True)
sys.stdin.read()
"""
"""An older program, as far as a newer one knows it. Its lock file is empty."""


async def make(url: str, version: int = database.LATEST) -> None:
    async with await segue.store.open(url) as store:
        await owners.ensure(store, "me")
    set_version(url, version)


def version_of(url: str) -> int:
    if url.startswith("sqlite"):
        return apsw.Connection(url.removeprefix("sqlite://")).pragma("user_version")
    with psycopg.connect(url) as connection:
        ((found,),) = connection.execute("SELECT version FROM segue.schema_version").fetchall()
        return found


@contextmanager
def older(run: Path) -> Generator[int]:
    """An older program that has the SQLite store open, and its process id."""
    lock = f"{run}/{processes.machine()}-{{pid}}-abcd1234.lock"
    command = [sys.executable, "-c", LIVING, lock, "gateway", "run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        try:
            yield program.pid
        finally:
            program.kill()


@on_sqlite
async def test_a_store_that_an_older_program_uses_is_not_migrated(url: str, tmp_path: Path):
    await make(url, OLD)
    with older(tmp_path / "segue.db-run") as pid:
        with pytest.raises(StoreError, match="An older version of Segue uses") as refused:
            await segue.store.open(url)
        assert version_of(url) == OLD
    said = str(refused.value)
    assert f"(process {pid}, since 20" in said
    assert "gateway run" in said
    assert f"Type `kill {pid}`" in said
    assert f"from schema {OLD} to {database.LATEST}" in said


@on_sqlite
async def test_the_lock_file_of_a_program_that_was_killed_does_not_block_a_migration(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await make(url, OLD)
    with older(tmp_path / "segue.db-run"):
        pass
    monkeypatch.setattr(database, "scripts", lambda *_: ["SELECT 1"])
    async with await segue.store.open(url) as store:
        assert await owners.get(store, "me")
    assert version_of(url) == database.LATEST


@on_sqlite
async def test_a_program_of_this_version_does_not_block_a_migration(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Such as one that starts at the same time."""
    await make(url, OLD)
    other = processes.Processes(tmp_path / "segue.db-run", processes.new_process_name())
    monkeypatch.setattr(database, "scripts", lambda *_: ["SELECT 1"])
    async with await segue.store.open(url):
        assert version_of(url) == database.LATEST
    other.close()


@on_sqlite
async def test_a_store_of_this_version_is_opened_whoever_uses_it(url: str, tmp_path: Path):
    await make(url)
    with older(tmp_path / "segue.db-run"):
        async with await segue.store.open(url) as store:
            assert await owners.get(store, "me")


@contextmanager
def connected(url: str, application: str, process: str = "") -> Generator[None]:
    """A program that has the PostgreSQL store open."""
    with psycopg.connect(url, autocommit=True, application_name=application) as connection:
        if process:
            lock = f"SELECT pg_advisory_lock({connections.LOCK})"
            connection.execute(lock.encode(), {"process": process})
        yield


@on_postgres
async def test_a_database_that_an_older_program_uses_is_not_migrated(url: str):
    await make(url, OLD)
    process = "server.example-4711-abcd1234"
    with administering(url) as admin:
        admin.execute(
            "INSERT INTO segue.gateways (process, name, started, until) VALUES (%s, %s, 1, 1)",
            (process, "a gateway on server.example (process 4711)"),
        )
    with (
        connected(url, "segue", process),
        pytest.raises(StoreError, match="An older version of Segue uses") as refused,
    ):
        await segue.store.open(url)
    assert version_of(url) == OLD
    said = str(refused.value)
    assert "`a gateway on server.example (process 4711)` on server.example (process 4711" in said
    assert "Stop those on other machines there." in said


@on_postgres
@pytest.mark.parametrize(
    ("application", "named"),
    [
        ("segue", "Running: a Segue program (since 20"),
        (f"segue {OLD} far.example-12-abcd1234", "a Segue program on far.example (process 12"),
    ],
)
async def test_any_older_connection_blocks_a_migration(url: str, application: str, named: str):
    await make(url, OLD)
    with (
        connected(url, application),
        pytest.raises(StoreError, match="An older version of Segue uses") as refused,
    ):
        await segue.store.open(url)
    assert named in str(refused.value)
    assert version_of(url) == OLD


@on_postgres
async def test_an_older_program_of_this_machine_is_named_with_its_command_line(url: str):
    await make(url, OLD)
    name = f"{processes.machine()}-{os.getpid()}-abcd1234"
    with (
        connected(url, f"segue {OLD} {name}"),
        pytest.raises(StoreError, match="An older version of Segue uses") as refused,
    ):
        await segue.store.open(url)
    assert f"`{processes.command_line(os.getpid())}` (process {os.getpid()}," in str(refused.value)


@on_postgres
@pytest.mark.parametrize("application", ["psql", f"segue {database.LATEST} here-1-abcd1234"])
async def test_other_connections_do_not_block_a_migration(
    url: str, application: str, monkeypatch: pytest.MonkeyPatch
):
    await make(url, OLD)
    monkeypatch.setattr(database, "scripts", lambda *_: ["SELECT 1"])
    with connected(url, application):
        async with await segue.store.open(url):
            assert version_of(url) == database.LATEST


@on_postgres
async def test_an_older_program_that_has_just_ended_does_not_block_a_migration(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    """The server lists its connection for a moment."""
    await make(url, OLD)
    other = psycopg.connect(url, autocommit=True, application_name="segue")
    real = postgres_schema._older

    def look(connection: LimitedConnection) -> list[OpenProcess]:
        found = real(connection)
        other.close()
        return found

    monkeypatch.setattr(database, "scripts", lambda *_: ["SELECT 1"])
    monkeypatch.setattr(postgres_schema, "_older", look)
    async with await segue.store.open(url):
        assert version_of(url) == database.LATEST


@on_postgres
async def test_an_older_program_that_connects_during_the_migration_stops_it(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    await make(url, OLD)
    other = psycopg.connect(url, autocommit=True)
    real = postgres_schema._older
    looks = 0

    def look(connection: LimitedConnection) -> list[OpenProcess]:
        nonlocal looks
        looks += 1
        if looks == 2:
            other.execute("SET application_name = 'segue'")
        return real(connection)

    monkeypatch.setattr(database, "scripts", lambda *_: ["CREATE TABLE segue.half (a INT)"])
    monkeypatch.setattr(postgres_schema, "_older", look)
    with other, pytest.raises(StoreError, match="An older version of Segue uses"):
        await segue.store.open(url)
    assert version_of(url) == OLD
    with administering(url) as admin:
        assert admin.execute("SELECT to_regclass('segue.half')").fetchone() == (None,)


async def test_of_programs_that_migrate_at_once_all_open_the_store(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    await make(url, OLD)
    real = database.scripts

    def scripts(dialect: SqlDialect, version: int) -> list[str]:
        return ["SELECT 1"] if version == OLD else real(dialect, version)

    monkeypatch.setattr(database, "scripts", scripts)
    stores = await asyncio.gather(*(segue.store.open(url) for _ in range(5)))
    assert version_of(url) == database.LATEST
    for store in stores:
        assert await owners.get(store, "me")
        await store.close()


async def test_an_older_program_that_opens_a_migrated_store_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    await make(url)
    async with await segue.store.open(url):
        monkeypatch.setattr(database, "LATEST", OLD)
        with pytest.raises(StoreError, match="written by a newer version"):
            await segue.store.open(url)


# A schema version that is not true

NULLED = """
ALTER TABLE segue.schema_version ALTER version DROP NOT NULL;
UPDATE segue.schema_version SET version = NULL
"""


@pytest.mark.parametrize("version", [-1, -(2**31), 0, 1, OLD])
async def test_a_false_schema_version_is_refused_and_nothing_is_changed(url: str, version: int):
    await make(url, version)
    with pytest.raises(StoreError, match="schema version") as refused:
        await segue.store.open(url)
    assert f" is {version}, which is not true: " in str(refused.value)
    assert version_of(url) == version
    set_version(url, database.LATEST)
    async with await segue.store.open(url) as store:
        assert await owners.get(store, "me")


@on_postgres
@pytest.mark.parametrize(
    ("tampered", "reason"),
    [
        ("DELETE FROM segue.schema_version", "is missing, .* has 0 rows"),
        ("INSERT INTO segue.schema_version VALUES (3)", "has 2 rows"),
        (
            "ALTER TABLE segue.schema_version ALTER version TYPE TEXT USING 'seventeen'",
            "is 'seventeen', which is not true: it is not a natural number",
        ),
        (
            "ALTER TABLE segue.schema_version ALTER version TYPE NUMERIC USING 1.5",
            "not a natural number",
        ),
        (
            NULLED,
            "is None, which is not true",
        ),
    ],
)
async def test_a_tampered_schema_version_is_refused(url: str, tampered: str, reason: str):
    await make(url)
    with administering(url) as admin:
        admin.execute(tampered.encode())
    with pytest.raises(StoreError, match=reason):
        await segue.store.open(url)


def test_the_lock_of_a_process_is_not_taken_by_looking(tmp_path: Path):
    mine = processes.Processes(tmp_path, processes.new_process_name())
    assert processes.older(tmp_path) == []
    with next(iter(tmp_path.glob("*.lock"))).open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    mine.close()
