"""Prebuilt stores, because creating one takes longer than most tests that use it."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from segue.store import postgres_schema, sqlite
from segue.store.base import SystemClock

# SQLite


def create(path: Path) -> str:
    """Put an empty SQLite store at `path` and return its URL."""
    run = _run(path)
    run.mkdir(0o700)
    path.touch(0o600)
    path.write_bytes(_prebuilt())
    (run / "created").touch(0o600)
    return f"sqlite://{path}"


@functools.cache
def _prebuilt() -> bytes:
    """The file of an empty store as the program creates it."""
    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        path = Path(folder) / "segue.db"
        _run(path).mkdir(0o700)
        sqlite.prepare(path, _run(path), SystemClock())
        return path.read_bytes()


def _run(path: Path) -> Path:
    return path.with_name(f"{path.name}-run")


# PostgreSQL

_SCHEMA = """
SELECT (SELECT version FROM segue.schema_version), count(*), max(changed) FROM (
    SELECT xmin::text::bigint AS changed FROM pg_class
        WHERE relnamespace = 'segue'::regnamespace
    UNION ALL SELECT a.xmin::text::bigint FROM pg_attribute a
        JOIN pg_class c ON c.oid = attrelid WHERE c.relnamespace = 'segue'::regnamespace
    UNION ALL SELECT xmin::text::bigint FROM pg_constraint
        WHERE connamespace = 'segue'::regnamespace
    UNION ALL SELECT xmin::text::bigint FROM pg_proc WHERE pronamespace = 'segue'::regnamespace
) AS every
"""
_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'segue'::regnamespace AND relkind = 'r' AND relname <> 'schema_version'
"""
_FROM_ONE = """
SELECT setval(oid::regclass, 1, false) FROM pg_class
WHERE relnamespace = 'segue'::regnamespace AND relkind = 'S'
"""
_schemas: dict[str, tuple[Any, ...] | None] = {}
"""The schema of each database when it was created: version, size and last change."""


def empty(database: str) -> str:
    """Create a store there, or empty the existing one, and return its URL.

    If a test changed its tables, they are dropped and created again.
    """
    with psycopg.connect(database, autocommit=True) as admin:
        if database in _schemas and _schema(admin) == _schemas[database]:
            with admin.transaction():
                admin.execute("SET LOCAL session_replication_role = replica")  # in any order
                tables = [name for (name,) in admin.execute(_TABLES)]
                admin.execute(";".join(f"DELETE FROM segue.{name}" for name in tables).encode())
                admin.execute(_FROM_ONE)
            return database
    postgres_schema.prepare(drop(database))
    with psycopg.connect(database, autocommit=True) as admin:
        _schemas[database] = _schema(admin)
    return database


def drop(database: str) -> str:
    """Drop the store from the database."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("DROP SCHEMA IF EXISTS segue CASCADE")
    return database


def _schema(admin: psycopg.Connection[Any]) -> tuple[Any, ...] | None:
    try:
        return admin.execute(_SCHEMA).fetchone()
    except psycopg.Error:
        return None  # there is no schema, or it is no longer ours
