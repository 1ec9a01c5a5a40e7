"""No statement of the store reads a table that grows from end to end.

The tests of the store's operations run again, while their statements are recorded, and the planner
says how it would run each of them in a store that has been in use for long. A test fails if a
statement in the source was not run: then add a test of the operation that runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import segue.store
from segue.core.address import Platform
from segue.core.session import Session
from segue.handoffs import queries as handoffs
from segue.store import Store, owners, postgres, search, sessions, sqlite
from segue.store.base import Tx
from segue.testing.clock import FakeClock
from tests.harness import stores
from tests.store import filling, plans

MODULES = (
    "approvals",
    "bindings",
    "doors",
    "fair_queues",
    "gateways",
    "grants",
    "inbox",
    "jobs",
    "leases",
    "lease_keeper",
    "outbox",
    "owners",
    "page_sessions",
    "pages",
    "pairings",
    "reports",
    "search",
    "sessions",
    "transcripts",
    "exports",
    "health",
    "turn_records",
    "release_requests",
    "operations",
    "handoffs.test_claims",
)
_QUEUE = "holds only what waits or is under way"
_PLATFORMS = "has a row for each platform or live gateway"
_CODES = "holds the codes and links of the last minutes"
_LIMITED = "is read from its newest row on, up to a limit"
ALLOWED = {
    "browsers": "has a row for each browser that is paired, and is read to unpair them",
    "contacts": _PLATFORMS,
    "gateways": _PLATFORMS,
    "gateway_platforms": _PLATFORMS,
    "gateways_pkey": _PLATFORMS,
    "gateway_platforms_pkey": _PLATFORMS,
    "sqlite_autoindex_gateways_1": _PLATFORMS,
    "sqlite_autoindex_gateway_platforms_1": _PLATFORMS,
    "approvals_waiting": _QUEUE,
    "bubbles": _QUEUE,
    "commits": "has a row for each open connection",
    "delivery_events": _QUEUE,
    "handoffs_in_flight": _QUEUE,
    "handoffs_pending": _QUEUE,
    "handoffs_running": _QUEUE,
    "inbox_waiting": _QUEUE,
    "inbox_open": _QUEUE,
    "inbox_taken": _QUEUE,
    "inbox_troubled": _LIMITED,
    "jobs_due": _LIMITED,
    "outbox_held": _QUEUE,
    "outbox_queued": _QUEUE,
    "outbox_sending": _QUEUE,
    "outbox_troubled": _LIMITED,
    "outbox_unreported": _QUEUE,
    "pg_class": "has a row for each table and index",
    "owners": "is listed whole, for the operator",
    "page_links": _CODES,
    "page_links_pkey": _CODES,
    "page_places": "has a row for each machine",
    "page_updates_waiting": _QUEUE,
    "pairings": _CODES,
    "pairings_pkey": _CODES,
    "reports_failed": _QUEUE,
    "reports_waiting": _QUEUE,
    "runs_open": _QUEUE,
    "session_counts": "has sixteen rows",
    "unindexed": _QUEUE,
    "uploads": "holds the files of messages that wait, and those of the last hour",
    "wishes": _QUEUE,
    "words": "is the full-text index; a search reads its newest matches, up to a limit",
    "word_terms": "is the same index; it is read from a word on, up to a limit",
}
"""The tables and indexes that may be read from end to end, and why that is not much."""
ALLOWED_STATEMENTS = {
    "SELECT id FROM runs WHERE started <= :now ORDER BY id DESC LIMIT 1": (
        "ends at the first run that began before now, which is the newest one"
    ),
    "SELECT job_id FROM runs WHERE id > :last": "those that began later than now",
    "SELECT EXISTS (SELECT 1 FROM last_updates WHERE chat = :chat AND account = :account) OR EXISTS"
    " (SELECT 1 FROM doors WHERE chat = :chat)": "ends at the first that is found",
    f"{handoffs._SELECT} ORDER BY h.id DESC LIMIT :limit": "begins with the newest, up to a limit",
}
_ELSEWHERE = {
    "sqlite": {
        ("database.py", "pg_total_relation_size"),
        ("search.py", "low=no << 32, high=no + 1"),
        ("search.py", "EXPLAIN"),
    },
    "postgres": {
        ("database.py", "PRAGMA"),
        ("search.py", "no=no, low=no << 32"),
        ("search.py", "word_terms"),
        ("search.py", "_TERMS"),
    },
}
"""The calls that an engine never runs: their file, and a part of them."""


def _tests() -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    for name in MODULES:
        module = importlib.import_module(
            f"tests.store.{name}" if "." in name else f"tests.store.test_{name}"
        )
        for test in vars(module).values():
            if not inspect.iscoroutinefunction(test) or not test.__name__.startswith("test_"):
                continue
            marks = [it for it in getattr(test, "pytestmark", ()) if it.name == "parametrize"]
            if any(it.args[0] == "url" for it in marks):
                continue
            for values in itertools.product(*(_parameters(it) for it in marks)):
                yield test, {name: value for one in values for name, value in one.items()}


def _parameters(mark: pytest.Mark) -> list[dict[str, Any]]:
    names = mark.args[0]
    names = [it.strip() for it in names.split(",")] if isinstance(names, str) else list(names)
    found: list[dict[str, Any]] = []
    for entry in mark.args[1]:
        values = entry.values if hasattr(entry, "marks") else entry
        values = [values] if len(names) == 1 and not hasattr(entry, "marks") else values
        found.append(dict(zip(names, values, strict=True)))
    return found


async def _run(
    test: Callable[..., Any], given: dict[str, Any], make: Callable[[], str], folder: Path
) -> None:
    """Run a test of the store on a new store."""
    url = make()
    clock = FakeClock()
    opened: list[Store] = []

    async def open_store() -> Store:
        opened.append(await segue.store.open(url, clock=clock))
        return opened[-1]

    try:
        store = await open_store()
        await owners.ensure(store, "me", "Me")
        wanted = inspect.signature(test).parameters
        known: dict[str, Any] = {"url": url, "clock": clock, "store": store}
        known |= {"open_store": open_store, "tmp_path": folder} | given
        if "session" in wanted:
            made: Session = await sessions.create(
                store, "me", Platform.LOCAL, cwd="/home/me/project"
            )
            known["session"] = made
        if set(wanted) <= set(known):
            await test(**{name: known[name] for name in wanted})
    finally:
        for store in opened:
            await store.close()


StoreTest = tuple[Callable[..., Any], dict[str, Any]]


def _record(
    transaction: type[Tx], tests: Iterable[StoreTest], make: Callable[[], str], folder: Path
) -> tuple[plans.Recorder, list[StoreTest]]:
    """Run the tests. Return what was recorded, and the tests that ran something new."""
    useful: list[StoreTest] = []
    with plans.recording(transaction) as recorder:
        for test, given in tests:
            before = len(recorder.statements), len(recorder.lines)
            with contextlib.suppress(pytest.skip.Exception):
                asyncio.run(_run(test, given, make, folder))
            if before != (len(recorder.statements), len(recorder.lines)):
                useful.append((test, given))
    return recorder, useful


def _record_sqlite(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[plans.Recorder, list[StoreTest]]:
    monkeypatch.setattr(sqlite.SqliteEngine, "_wait_for_disk", lambda *_, **__: None)
    monkeypatch.setattr(sqlite, "connect", _connect_without_disk)
    urls = (stores.create(folder / f"{number}.db") for number in itertools.count())
    return _record(sqlite.SqliteTx, _tests(), lambda: next(urls), folder)


def _report(found: dict[str, list[str]]) -> str:
    lines = [f"{finding}\n    {sql}" for sql, findings in found.items() for finding in findings]
    return "\n".join(["", *sorted(lines)])


def _missing(recorder: plans.Recorder, engine: str) -> list[str]:
    """The calls in the source that ran no statement."""
    elsewhere = _ELSEWHERE[engine]
    return [
        str(call)
        for call in plans.calls()
        if not recorder.has_run(call)
        and not any(file == call.file and part in call.text for file, part in elsewhere)
    ]


def _not_allowed(sql: str, findings: Iterator[str]) -> list[str]:
    if sql in ALLOWED_STATEMENTS:
        return []
    return [it for it in findings if it.partition(":")[0] not in ALLOWED]


def _planned(recorder: plans.Recorder) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for sql, values in recorder.statements.items():
        if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT|WITH)", sql):
            # A statement for many rows may have had none: each is found by its number.
            yield sql, values or dict.fromkeys(re.findall(r"(?<![:\w]):([a-z_]+)", sql), 1)


_connect = sqlite.connect


def _connect_without_disk(path: Path) -> apsw.Connection:
    connection = _connect(path)
    connection.pragma("synchronous", "OFF")
    return connection


@pytest.mark.timeout(600)  # it runs hundreds of other tests
def test_no_statement_scans_a_table_that_grows_on_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    recorder, _ = _record_sqlite(tmp_path, monkeypatch)
    assert _missing(recorder, "sqlite") == [], "not tested: add a test to tests/store"
    stores.create(tmp_path / "plain.db")
    plain = apsw.Connection(str(tmp_path / "plain.db"))
    stores.create(tmp_path / "known.db")
    known = apsw.Connection(str(tmp_path / "known.db"))
    with known:
        filling.fill(known.execute, sessions=5_000, messages=4)
    for connection in (plain, known):
        connection.execute(search._TERMS)
    stats = plans.sqlite_stats(known)
    found: dict[str, list[str]] = {}
    for sql, values in _planned(recorder):
        # No program collects statistics, but a person may.
        for connection in (plain, known):
            scans = plans.sqlite_scans(connection, sql, values, stats)
            found.setdefault(sql, []).extend(_not_allowed(sql, scans))
    assert not any(found.values()), _report(found)


@pytest.mark.real
@pytest.mark.timeout(600)
def test_no_statement_scans_a_table_that_grows_on_postgres(
    postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Not all tests, because a store on PostgreSQL takes longer to make.
    _, useful = _record_sqlite(tmp_path, monkeypatch)
    recorder, _ = _record(
        postgres.PostgresTx, useful, lambda: stores.empty(postgres_database), tmp_path
    )
    assert _missing(recorder, "postgres") == [], "not tested: add a test to tests/store"
    stores.empty(postgres_database)
    found: dict[str, list[str]] = {}
    options = "-c search_path=segue"
    with psycopg.connect(postgres_database, options=options, autocommit=True) as connection:
        filling.fill(lambda sql: connection.execute(sql.encode()), sessions=20_000, messages=4)
        connection.execute("VACUUM ANALYZE")
        for sql, values in _planned(recorder):
            scans = plans.postgres_scans(connection, postgres._native(sql), values)
            found[sql] = _not_allowed(sql, scans)
    assert not any(found.values()), _report(found)
