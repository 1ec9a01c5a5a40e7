"""Copies and replaces a store in a PostgreSQL database, each in one transaction."""

from __future__ import annotations

from pathlib import Path

import psycopg

from segue.store import backups, errors, postgres_schema, restores
from segue.store.archives import Manifest, Progress, StoreState
from segue.store.connections import LimitedConnection, connect, told
from segue.store.postgres_schema import MIGRATION_SECONDS
from segue.store.values import shown

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


def copy_store(url: str, folder: Path, progress: Progress) -> StoreState:
    """Copy the store into `folder`, as it is in one moment."""
    try:
        with connect(url) as connection, connection.transaction():
            connection.seconds = MIGRATION_SECONDS
            connection.execute(_SNAPSHOT)
            if postgres_schema.version_of(connection, url) is None:
                raise errors.nothing_to_back_up(shown(url))
            return backups.copy_postgres(connection, folder, progress)
    except psycopg.Error as error:
        raise told(error, url) from error


def replace(
    url: str,
    folder: Path,
    manifest: Manifest,
    backup: Path,
    stamp: str,
    progress: Progress,
    *,
    force: bool,
) -> str:
    """Put the store in `folder` into the database. The replaced one is kept in another schema,
    whose name is returned."""
    try:
        with connect(url) as connection, connection.transaction():
            connection.seconds = MIGRATION_SECONDS
            connection.execute(postgres_schema.ALONE)
            found = postgres_schema.settled(lambda: postgres_schema.connected(connection))
            restores.require_alone(found, url)
            kept = _set_aside(connection, url, manifest, backup, stamp, force=force)
            backups.load_postgres(connection, folder, manifest.store.schema, progress)
            return kept
    except psycopg.Error as error:
        raise told(error, url) from error


def _set_aside(
    connection: LimitedConnection,
    url: str,
    manifest: Manifest,
    backup: Path,
    stamp: str,
    *,
    force: bool,
) -> str:
    if postgres_schema.version_of(connection, url) is None:
        return ""
    if not force:
        found = backups.state_of_postgres(connection)
        restores.require_older(found, manifest, url, backup)
    kept = f"segue_before_{stamp.replace('-', '_')}"
    connection.execute(f"ALTER SCHEMA segue RENAME TO {kept}".encode())
    return f"the schema {kept} of {shown(url)}"
