"""Consistent copies of a store, taken while programs use it, and the one before each upgrade.

store.db                  of an SQLite store
tables.json, tables/NAME  of a PostgreSQL store: its columns and sequences, and its rows as
                          COPY writes them, which every version of the server reads
"""

# pyright: reportUnknownMemberType=false
# apsw's types refer to `Buffer`, which Python has only since 3.12.

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw
import msgspec
from msgspec import Struct

from segue.store import archives, database
from segue.store.archives import (
    CopyMeter,
    MeteredFile,
    Progress,
    StagingFolder,
    StoreContents,
    StoreState,
    ignore_progress,
)
from segue.system import files

if TYPE_CHECKING:
    import psycopg

KEPT = 2
"""How many of the backups that were made before upgrades are kept."""
DATABASE = "store.db"
TABLES = "tables.json"
_PAGES = 1000
"""Pages that are copied between two reports of progress."""

logger = logging.getLogger(__name__)


class TableCopies(Struct, frozen=True, kw_only=True):
    """What `tables.json` holds."""

    columns: dict[str, list[str]]
    """Of each table. A table comes after those that it refers to."""
    sequences: dict[str, int]
    """The last value of each."""


# SQLite


def copy_database(source: apsw.Connection, target: Path, progress: Progress) -> None:
    """Copy a database that other processes may be writing to. The copy is one file, without a
    log."""
    os.close(files.open_file(target))
    copy = apsw.Connection(os.fspath(target))
    try:
        # The copy is that of this moment. Without a transaction, each write by another process
        # would start it over.
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            with copy.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(_PAGES)
                    progress(backup.page_count - backup.remaining, backup.page_count)
        finally:
            source.execute("COMMIT")
        copy.pragma("journal_mode", "delete")
    finally:
        copy.close()


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, even if it is a database that another process is writing to."""
    with source.open("rb") as file:
        is_database = file.read(16) == b"SQLite format 3\0"
    if not is_database:
        os.close(files.open_file(target))
        shutil.copyfile(source, target)
        return
    connection = apsw.Connection(os.fspath(source), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        copy_database(connection, target, ignore_progress)
    finally:
        connection.close()


_TIMES = (
    ("sessions", "active"),
    ("inbox", "received"),
    ("outbox", "queued"),
    ("notes", "written"),
    ("jobs", "created"),
    ("homes", "chosen"),
    ("browsers", "made"),
)
"""Columns with the time of what users do. Not every version has all of them."""


def _newest(known: Iterable[tuple[str, str]], prefix: str = "") -> str:
    """A query for the newest time and the number of sessions."""
    there = set(known)
    times = [f"SELECT max({c}) AS at FROM {prefix}{t}" for t, c in _TIMES if (t, c) in there]
    newest = " UNION ALL ".join(times)
    sessions = f"(SELECT count(*) FROM {prefix}sessions)"
    return f"SELECT coalesce(max(at), 0), {sessions} FROM ({newest}) AS times"


_COMPARED = {
    "sessions": "no id owner title cwd model ended last_seq summary_seq edits pause",
    "notes": "owner number text written",
    "jobs": (
        "id owner name prompt kind at period expression zone verbatim deliver origin cwd model"
        " until runs only_if watched allows may_change_jobs fallback daily_tokens state"
    ),
    "bindings": "address session_no",
    "homes": "owner platform address name audience",
    "identities": "platform user_id owner name",
    "browsers": "id secret",
    "grants": "session_no fingerprint",
}
"""Columns with what users make and do, which no program changes by itself. Not every version has
all of them. The first ones order the rows."""


def _compared(known: Iterable[tuple[str, str]], prefix: str = "") -> dict[str, str]:
    """For each table, a query for what is compared."""
    there = set(known)
    queries: dict[str, str] = {}
    for table, listed in _COMPARED.items():
        names = [name for name in listed.split() if (table, name) in there]
        if names:
            columns = ", ".join(names)
            order = ", ".join(names[:2])
            queries[table] = f"SELECT {columns} FROM {prefix}{table} ORDER BY {order}"
    return queries


def _figures(known: Iterable[tuple[str, str]], made: list[str], prefix: str = "") -> str:
    """A query for the numbers in `StoreContents`. `made` has the counters of sessions and jobs."""
    there = set(known)
    keys = (("sessions", "id"), ("notes", "number"), ("jobs", "id"))
    things = [f"(SELECT count(*) FROM {prefix}{key[0]})" for key in keys if key in there]
    counters = list(made)
    if ("owners", "last_note") in there:
        counters.append(f"(SELECT coalesce(sum(last_note), 0) FROM {prefix}owners)")
    messages = f"(SELECT coalesce(sum(last_seq), 0) FROM {prefix}sessions)"
    return f"SELECT {messages}, {' + '.join(things)}, {' + '.join(counters)}"


def state_of(connection: apsw.Connection) -> StoreState:
    columns = cast("list[tuple[str, str]]", connection.execute(_COLUMNS).fetchall())
    query = _newest(columns)
    ((newest, sessions),) = cast("list[tuple[int, int]]", connection.execute(query).fetchall())
    return StoreState(
        engine="sqlite",
        schema=connection.pragma("user_version"),
        newest=newest,
        sessions=sessions,
        contents=_contents(connection, columns),
    )


def _contents(connection: apsw.Connection, columns: list[tuple[str, str]]) -> StoreContents:
    digest = hashlib.sha256()
    for table, query in _compared(columns).items():
        digest.update(table.encode())
        for row in connection.execute(query):
            digest.update(msgspec.msgpack.encode(row))
    made = [
        f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0)"
        for table in ("sessions", "jobs")
    ]
    query = _figures(columns, made)
    ((messages, things, count),) = cast(
        "list[tuple[int, int, int]]", connection.execute(query).fetchall()
    )
    return StoreContents(digest=digest.hexdigest(), messages=messages, things=things, made=count)


_COLUMNS = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c"


def copy_sqlite(
    source: apsw.Connection, folder: Path, progress: Progress = ignore_progress
) -> StoreState:
    """Copy an SQLite store into `folder`."""
    copy_database(source, folder / DATABASE, progress)
    copied = apsw.Connection(os.fspath(folder / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return state_of(copied)
    finally:
        copied.close()


# PostgreSQL

_LISTED = """
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = 'segue'::regnamespace AND c.relkind = 'r'
  AND c.relname NOT IN ('schema_version', 'commits') AND a.attgenerated = ''
GROUP BY c.relname ORDER BY c.relname
"""
_SIZES = """
SELECT relname, pg_table_size(oid) FROM pg_class
WHERE relnamespace = 'segue'::regnamespace AND relkind = 'r'
"""
_REFERENCES = """
SELECT a.relname, b.relname FROM pg_constraint f
JOIN pg_class a ON a.oid = f.conrelid JOIN pg_class b ON b.oid = f.confrelid
WHERE f.contype = 'f' AND f.connamespace = 'segue'::regnamespace AND a.oid <> b.oid
"""
_SEQUENCES = """
SELECT sequencename, last_value FROM pg_sequences
WHERE schemaname = 'segue' AND last_value IS NOT NULL
"""
_COUNTERS = ("sessions_no_seq", "jobs_id_seq")


def copy_postgres(
    connection: psycopg.Connection[Any], folder: Path, progress: Progress = ignore_progress
) -> StoreState:
    """Copy a PostgreSQL store into `folder`. The connection is in a transaction, whose snapshot is
    copied."""
    columns = _in_order(
        dict(connection.execute(_LISTED).fetchall()), connection.execute(_REFERENCES).fetchall()
    )
    sizes: dict[str, int] = dict(connection.execute(_SIZES).fetchall())
    meter = CopyMeter(sum(sizes[table] for table in columns), progress)
    (folder / "tables").mkdir(0o700)
    for table, names in columns.items():
        left = sizes[table]  # only about as much as is copied
        command = f"COPY segue.{table} ({_quoted(names)}) TO STDOUT"
        with (
            (folder / "tables" / table).open("wb") as file,
            connection.cursor() as cursor,
            cursor.copy(command.encode()) as rows,
        ):
            for chunk in rows:
                file.write(chunk)
                counted = min(len(chunk), left)
                left -= counted
                meter.add(counted)
        meter.add(left)
    copies = TableCopies(columns=columns, sequences=dict(connection.execute(_SEQUENCES).fetchall()))
    (folder / TABLES).write_bytes(msgspec.json.encode(copies))
    return state_of_postgres(connection)


def state_of_postgres(connection: psycopg.Connection[Any]) -> StoreState:
    ((version,),) = connection.execute("SELECT version FROM segue.schema_version").fetchall()
    tables: dict[str, list[str]] = dict(connection.execute(_LISTED).fetchall())
    columns = [(table, column) for table, names in tables.items() for column in names]
    query = _newest(columns, "segue.")
    ((newest, sessions),) = connection.execute(query.encode()).fetchall()
    return StoreState(
        engine="postgres",
        schema=version,
        newest=newest,
        sessions=sessions,
        contents=_contents_of_postgres(connection, columns),
    )


def _contents_of_postgres(
    connection: psycopg.Connection[Any], columns: list[tuple[str, str]]
) -> StoreContents:
    digest = hashlib.sha256()
    for table, query in _compared(columns, "segue.").items():
        digest.update(table.encode())
        command = f"COPY ({query}) TO STDOUT"
        with connection.cursor() as cursor, cursor.copy(command.encode()) as rows:
            for chunk in rows:
                digest.update(chunk)
    counters: dict[str, int] = dict(connection.execute(_SEQUENCES).fetchall())
    made = [str(counters.get(name, 0)) for name in _COUNTERS]
    query = _figures(columns, made, "segue.")
    ((messages, things, count),) = connection.execute(query.encode()).fetchall()
    return StoreContents(
        digest=digest.hexdigest(), messages=int(messages), things=int(things), made=int(count)
    )


def _in_order(
    columns: dict[str, list[str]], references: list[tuple[str, str]]
) -> dict[str, list[str]]:
    """The tables, each after those that it refers to."""
    before = {table: {b for a, b in references if a == table} for table in columns}
    return {table: columns[table] for table in TopologicalSorter(before).static_order()}


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def load_postgres(
    connection: psycopg.Connection[Any], folder: Path, version: int, progress: Progress
) -> None:
    """Create the schema `segue` of that version and fill it from `folder`, in the transaction of
    the connection."""
    connection.execute("CREATE SCHEMA segue")
    connection.execute("CREATE TABLE segue.schema_version (version BIGINT NOT NULL)")
    connection.execute("INSERT INTO segue.schema_version VALUES (%s)", (version,))
    for script in database.scripts_to(version):
        connection.execute(script.encode())
    copies = msgspec.json.decode((folder / TABLES).read_bytes(), type=TableCopies)
    sizes = [(folder / "tables" / table).stat().st_size for table in copies.columns]
    meter = CopyMeter(sum(sizes), progress)
    for table in reversed(copies.columns):  # what the scripts put in
        connection.execute(f'DELETE FROM segue."{table}"'.encode())
    for table, names in copies.columns.items():
        command = f'COPY segue."{table}" ({_quoted(names)}) FROM STDIN'
        with (
            (folder / "tables" / table).open("rb") as file,
            connection.cursor() as cursor,
            cursor.copy(command.encode()) as rows,
        ):
            for chunk in MeteredFile(file, meter).chunks():
                rows.write(chunk)
    for sequence, value in copies.sequences.items():
        connection.execute("SELECT setval(%s::regclass, %s)", (f'segue."{sequence}"', value))


# Before an upgrade


def back_up_before_upgrade(backups: Path, version: int, copy: Callable[[Path], StoreState]) -> None:
    """Make a backup of the store alone in the folder `backups`, log where it is, and keep the
    newest ones."""
    files.make_folder(backups)
    now = datetime.now(UTC)
    path = backups / f"{now:%Y%m%d-%H%M%S-%f}-schema-{version}.segue"
    logger.warning("The store needs an upgrade. Making a backup of it first: %s", path)
    staged = StagingFolder(backups, "upgrade")
    try:
        archives.write(staged.parts, path, copy(staged.parts), now, passphrase="")
    finally:
        staged.remove()
    logger.warning("The backup is complete. Upgrading the store from schema %s.", version)
    for old in sorted(backups.glob("*.segue"))[:-KEPT]:
        old.unlink()
