"""The schema of a PostgreSQL store: created, migrated, and not migrated under an older program."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg
from psycopg import errors as refusals

from segue.core.errors import StoreError
from segue.store import database, errors, processes
from segue.store.base import SqlDialect
from segue.store.connections import (
    LOCK,
    LimitedConnection,
    connect,
    forbidden,
    reason_of,
    translate,
)
from segue.store.processes import OpenProcess
from segue.store.values import shown

MIGRATION_SECONDS = 3600.0
"""Seconds that the server gets for one statement of a migration, which may rewrite large tables."""
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_CLOSING_SECONDS = 1.0
"""How long the server may list a connection that a program has closed."""
ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('segue schema', 0))"
"""Keeps other programs from opening the store until the transaction ends."""
_DAY = 24 * 60 * 60 * 1_000_000


def prepare(url: str) -> None:
    """Create or migrate the schema, one process at a time."""
    try:
        with connect(url) as connection, connection.transaction():
            connection.seconds = MIGRATION_SECONDS
            if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
                raise StoreError(
                    f"The database {shown(url)} has the encoding {encoding}, which cannot store"
                    " every character. Type `createdb --encoding=UTF8 --template=template0 segue`,"
                    " and set SEGUE_STORE to that database."
                )
            connection.execute(ALONE)
            version = version_of(connection, url)
            if version is None:
                connection.execute("CREATE SCHEMA segue")
                connection.execute("CREATE TABLE segue.schema_version (version BIGINT NOT NULL)")
                connection.execute("INSERT INTO segue.schema_version VALUES (0)")
            _migrate(connection, url, version or 0)
            # Left behind by processes that were killed.
            connection.execute(f"DELETE FROM commits WHERE at < {NOW} - {_DAY}".encode())
    except psycopg.Error as error:
        raise translate(error, url) from error


def _migrate(connection: LimitedConnection, url: str, version: int) -> None:
    missing = database.scripts(SqlDialect.POSTGRES, version)
    if not missing:
        return
    if version:
        _require_alone(connection, url, version)
        _back_up(connection, url, version)
    ((owner,),) = connection.execute(_OWNER).fetchall()
    for script in missing:
        try:
            connection.execute(script.encode())
        except refusals.InsufficientPrivilege as error:
            raise forbidden(error, url, owner) from error
        except psycopg.ProgrammingError as error:  # such as a table that exists already
            raise errors.schema_wrong(shown(url), version, reason_of(error)) from error
    if version:
        # Again: an older program has no connection for a moment while it opens the store.
        _require_alone(connection, url, version)
    connection.execute("UPDATE segue.schema_version SET version = %s", (database.LATEST,))


def _back_up(connection: LimitedConnection, url: str, version: int) -> None:
    from segue.config import machine  # noqa: PLC0415 - only for an upgrade
    from segue.store import archives, backups  # noqa: PLC0415

    # Each database has a folder, because two may be upgraded at once.
    name = hashlib.sha256(url.encode()).hexdigest()[:12]
    folder = machine.data() / "backups" / f"postgres-{name}"
    try:
        backups.back_up_before_upgrade(
            folder, version, lambda parts: backups.copy_postgres(connection, parts)
        )
    except OSError as error:
        raise archives.unwritable(error, folder) from error
    except psycopg.ProgrammingError as error:  # such as a table that is missing
        raise errors.schema_wrong(shown(url), version, reason_of(error)) from error


def _require_alone(connection: LimitedConnection, url: str, version: int) -> None:
    """Raise StoreError if a program with an older schema has the store open."""
    older = still_open(lambda: _older(connection))
    if older:
        raise errors.in_use(
            shown(url), version, database.LATEST, processes.running(older), processes.way_out(older)
        )


def still_open(list_programs: Callable[[], list[OpenProcess]]) -> list[OpenProcess]:
    """The programs that are listed, without those that are just closing: the server ends a
    connection a moment after its program has closed it."""
    deadline = time.monotonic() + _CLOSING_SECONDS
    while (found := list_programs()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def connected(connection: LimitedConnection) -> list[OpenProcess]:
    """The live programs of any version, by their connections."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    found: dict[str, OpenProcess] = {}
    for application, began in connection.execute(_CONNECTED).fetchall():
        words = application.split(" ")
        name = words[2] if len(words) > 2 else ""
        if name:
            found[name] = _open_process(name, began, "")
        else:
            found[name] = OpenProcess(where="", pid=None, since=began, doing="")
    return list(found.values())


def _older(connection: LimitedConnection) -> list[OpenProcess]:
    """The live programs with an older schema, by their connections. Those of the oldest do not name
    their process, so only gateways and programs that hold a session are known."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    connected = connection.execute(_CONNECTED).fetchall()
    found: dict[str, OpenProcess] = {}
    unnamed: list[datetime] = []
    for application, began in connected:
        words = application.split(" ")
        known = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if known >= database.LATEST:
            continue
        if len(words) > 2:
            name = words[2]
            since = min(began, found[name].since) if name in found else began
            found[name] = _open_process(name, since, "")
        else:
            unnamed.append(began)
    if unnamed:
        for process, doing in connection.execute(_HOLDERS):
            if not _is_free(connection, process):
                found[process] = _open_process(process, min(unnamed), doing)
    if unnamed and not found:
        found[""] = OpenProcess(where="", pid=None, since=min(unnamed), doing="")
    return list(found.values())


_OWNER = "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'segue'"
_CONNECTED = """
SELECT application_name, coalesce(backend_start, clock_timestamp()) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (application_name = 'segue' OR application_name LIKE 'segue %')
"""
_HOLDERS = """
SELECT process, min(holder) FROM segue.sessions WHERE process IS NOT NULL GROUP BY process
UNION SELECT process, name FROM segue.gateways
"""


def _is_free(connection: LimitedConnection, process: str) -> bool:
    sql = f"SELECT pg_try_advisory_xact_lock_shared({LOCK})"
    return connection.execute(sql.encode(), {"process": process}).fetchall() == [(True,)]


def _open_process(process: str, since: datetime, doing: str) -> OpenProcess:
    machine, pid = processes.whose(process)
    is_here = machine == processes.machine()
    return OpenProcess(
        where="" if is_here else machine,
        pid=pid,
        since=since,
        doing=(processes.command_line(pid) if is_here else "") or doing,
    )


def version_of(connection: psycopg.Connection[Any], url: str) -> int | None:
    """The version of the schema, or None if there is no schema yet."""
    row = connection.execute(
        "SELECT to_regnamespace('segue') IS NOT NULL, to_regclass('segue.schema_version')::text"
    ).fetchone()
    there, table = row or (False, None)
    if not there:
        return None
    if table is None:
        raise errors.foreign(shown(url))
    try:
        found = connection.execute("SELECT version FROM segue.schema_version").fetchall()
    except refusals.UndefinedColumn:
        raise errors.foreign(shown(url)) from None
    known = ", ".join(repr(version) for (version,) in found) or "missing"
    if len(found) != 1:
        reason = f"the table segue.schema_version has {len(found)} rows, not one"
        raise errors.schema_wrong(shown(url), known, reason)
    ((version,),) = found
    if not isinstance(version, int) or version < 0:
        reason = "it is not a natural number"
        raise errors.schema_wrong(shown(url), known, reason)
    return version
