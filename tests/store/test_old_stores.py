"""The stores of all earlier versions, which `make_old_store` made with the code of each.

Each is upgraded with its conversations, also if the process is killed in the middle of it.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

import segue.store
from segue.approvals.queries import ApprovalState
from segue.core.address import Platform
from segue.handoffs.values import State
from segue.store import Store, database, leases, owners, search, sessions, transcripts
from segue.store.base import SqlDialect
from segue.store.outbox import OutgoingState
from segue.testing.clock import FakeClock
from tests.harness import stores
from tests.store import make_old_store
from tests.store.processes import Troupe, stage_door, statements_of
from tests.store.samples import on_sqlite, said, texts
from tests.store.test_older_programs import version_of

VERSIONS = make_old_store.numbers()
KEPT = frozenset(
    {"owners", "identities", "homes", "sessions", "messages", "bindings", "doors", "handoffs"}
    | {"inbox", "outbox", "approvals", "grants", "notes", "pairings", "jobs", "runs", "reports"}
    | {"gateways", "browsers", "pages", "page_messages", "wishes", "moves", "contacts"}
    | {"session_counts", "unindexed"}
)
"""Tables in which every store has rows, if its version has the table."""


def put(version: int, url: str) -> None:
    """Put the store of that version there. Version 0 is no store."""
    file, dump, _ = make_old_store.names(version)
    if url.startswith("postgres"):
        stores.drop(url)
        if version:
            with psycopg.connect(url) as connection:
                connection.execute(gzip.decompress(dump.read_bytes()))
        return
    path = Path(url.removeprefix("sqlite://"))
    for old in path.parent.glob(f"{path.name}*"):
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
    if version:
        path.touch(0o600)
        path.write_bytes(gzip.decompress(file.read_bytes()))
        run = path.with_name(f"{path.name}-run")
        run.mkdir(0o700)
        (run / "created").touch(0o600)


def written(version: int) -> list[dict[str, Any]]:
    """The conversations in the store of that version."""
    return json.loads(make_old_store.names(version)[2].read_text()) if version else []


async def conversations(store: Store) -> list[dict[str, Any]]:
    """The conversations in a store of today, in the form of `written`."""
    found = [
        {
            "id": session.id,
            "title": session.title,
            "messages": [_plain(m) for m in await transcripts.load(store, session.id)],
            "owner": session.owner,
        }
        for owner in await owners.all_owners(store)
        for session in await sessions.list_sessions(store, owner.id)
    ]
    return sorted(found, key=lambda conversation: conversation["id"])


def _plain(message: Any) -> dict[str, Any]:
    names = ("at", "role", "content", "tool_calls", "tool_call_id", "tool_name", "kind")
    whole = json.loads(msgspec.json.encode(message)) | {"at": message.at.isoformat()}
    return {name: whole[name] for name in names if name in whole}


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows in a store that is not open."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite://"))
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()
    with psycopg.connect(url, options="-c search_path=segue") as connection:
        return connection.execute(sql.encode()).fetchall()


def tables(url: str) -> set[str]:
    if url.startswith("sqlite"):
        found = query(url, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    else:
        found = query(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'segue'")
    return {name for (name,) in found}


def test_every_migration_has_its_store():
    assert list(range(1, database.LATEST + 1)) == VERSIONS
    missing = [path.name for n in VERSIONS for path in make_old_store.names(n) if not path.exists()]
    assert not missing, "Type `.venv/bin/python -m tests.store.make_old_store`, and commit them."


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_store_holds_something_of_everything(url: str, version: int):
    put(version, url)
    assert version_of(url) == version
    empty = {t for t in KEPT & tables(url) if query(url, f"SELECT count(*) FROM {t}") == [(0,)]}
    assert not empty
    assert states(url, "handoffs") == set(State)
    assert states(url, "outbox") == set(OutgoingState)
    if "approvals" in tables(url):
        assert states(url, "approvals") == set(ApprovalState)
    assert query(url, "SELECT count(*) FROM messages WHERE tool_calls IS NOT NULL") == [(2,)]


def states(url: str, table: str) -> set[str]:
    return {state for (state,) in query(url, f"SELECT DISTINCT state FROM {table}")}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_of_every_version_is_upgraded_with_its_conversations(
    url: str, version: int, clock: FakeClock
):
    put(version, url)
    async with await segue.store.open(url, clock=clock) as store:
        assert await conversations(store) == written(version)
    assert version_of(url) == database.LATEST


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_conversation_of_every_version_goes_on(url: str, version: int, clock: FakeClock):
    put(version, url)
    async with await segue.store.open(url, clock=clock) as store:
        for conversation in written(version):
            lease = await leases.acquire(store, conversation["id"], "a terminal", take_over=True)
            before = texts(await transcripts.load(store, conversation["id"]))
            await transcripts.append(store, lease, [said("more")])
            after = texts(await transcripts.load(store, conversation["id"]))
            assert after == [*before, "more"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_sessions_of_every_version_are_counted_listed_and_found(
    url: str, version: int, clock: FakeClock
):
    put(version, url)
    async with await segue.store.open(url, clock=clock) as store:
        assert await sessions.count(store) == len(written(version))
        for platform in (Platform.TELEGRAM, Platform.SLACK):
            listed = [
                session.address
                for owner in await owners.all_owners(store)
                for session in await sessions.list_sessions(store, owner.id, platform=platform)
            ]
            assert [address and address.platform for address in listed] == [platform]
        assert not await search.is_complete(store)
        assert len(await search.messages(store, "me", "garden")) == 2
        assert await search.is_complete(store)


# Killed in the middle


@pytest.fixture(scope="module")
def door() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="segue-") as folder, stage_door(Path(folder)) as door:
        yield door


@pytest.fixture
def troupe(door: str) -> Generator[Troupe]:
    troupe = Troupe(door)
    yield troupe
    troupe.close()


def count_statements(url: str, migration: int) -> int:
    dialect = SqlDialect.SQLITE if url.startswith("sqlite") else SqlDialect.POSTGRES
    return len(statements_of(dialect, migration))


async def kill_and_open(troupe: Troupe, url: str, version: int, migration: int, after: int) -> None:
    """Upgrade a store, but be killed after so many statements of a migration. Then open it."""
    put(version, url)
    program = troupe.player()
    program.tell("migrate_and_die", url=url, migration=migration, statements=after)
    assert program.hear() == {"dies": True}
    program.ended()
    troupe.close()
    if version:
        assert version_of(url) == version
    async with await segue.store.open(url, clock=FakeClock()) as store:
        assert await conversations(store) == written(version)
    assert version_of(url) == database.LATEST


@pytest.mark.parametrize("migration", VERSIONS)
async def test_a_migration_that_was_killed_in_the_middle_starts_again(
    url: str, migration: int, troupe: Troupe
):
    half = max(1, count_statements(url, migration) // 2)
    await kill_and_open(troupe, url, migration - 1, migration, half)


@pytest.mark.kill
@pytest.mark.parametrize(
    "migration",
    [
        *(pytest.param(version, marks=pytest.mark.long) for version in VERSIONS[:-1]),
        VERSIONS[-1],
    ],
)
async def test_a_migration_that_was_killed_after_any_statement_starts_again(
    url: str, migration: int, troupe: Troupe
):
    for after in range(count_statements(url, migration) + 1):
        await kill_and_open(troupe, url, migration - 1, migration, after)
        await kill_and_open(troupe, url, min(1, migration - 1), migration, after)


@on_sqlite
@pytest.mark.parametrize(
    ("version", "stride"),
    [(1, 41), (VERSIONS[-2], 41)]
    + [
        pytest.param(version, 1, marks=[pytest.mark.kill, pytest.mark.long])
        for version in (1, 12, VERSIONS[-2])
    ]
    + [pytest.param(12, 7, marks=pytest.mark.kill)],
)
async def test_an_upgrade_that_was_killed_at_any_step_starts_again(
    url: str, version: int, stride: int, troupe: Troupe
):
    """Every write to the disk is a step."""
    step = 0
    for step in range(1, 2000, stride):
        put(version, url)
        program = troupe.player()
        program.tell("open_and_die", url=url, at=step)
        try:
            program.answer()
        except EOFError:
            program.ended()
        else:
            break
        async with await segue.store.open(url, clock=FakeClock()) as store:
            assert await conversations(store) == written(version)
        troupe.close()
    assert step > 20, f"only {step} steps were seen"
