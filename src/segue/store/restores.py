"""Puts the store of a backup in place of another one, in one step, and keeps the other.

A killed program leaves the old store or the new one, and both are whole.
"""

# pyright: reportUnknownMemberType=false
# apsw's types refer to `Buffer`, which Python has only since 3.12.

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import apsw

from segue.core.errors import UserError
from segue.store import archives, backups, errors, parse, processes, shown, sqlite
from segue.store.archives import CopyMeter, Manifest, MeteredFile, Progress, StoreState
from segue.store.processes import OpenProcess
from segue.store.sqlite import WriteGate
from segue.system import files as system_files

if TYPE_CHECKING:
    from segue.store.connections import LimitedConnection

_DAMAGED = (apsw.CorruptError, apsw.NotADBError)
_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


def copy_store(url: str, folder: Path, progress: Progress) -> StoreState:
    """Copy the store into `folder`, while programs use it. Raise UserError if there is none."""
    scheme, name = parse(url)
    if scheme != "sqlite":
        return _copy_postgres(url, folder, progress)
    path = Path(os.path.realpath(name))
    if not path.exists():
        raise errors.nothing_to_back_up(shown(url))
    archives.remove_leftovers(path.parent)
    try:
        connection = sqlite.connect(path)
        try:
            return backups.copy_sqlite(connection, folder, progress)
        finally:
            connection.close()
    except apsw.FullError as error:
        raise errors.backup_unwritable(folder, "No space left on device") from error
    except apsw.Error as error:
        raise sqlite.translate(error, path) from error


def _copy_postgres(url: str, folder: Path, progress: Progress) -> StoreState:
    """Copy the store into `folder`, as it is in one moment."""
    import psycopg  # noqa: PLC0415 - only what is used

    from segue.store import connections, postgres_schema  # noqa: PLC0415

    try:
        with connections.connect(url) as connection, connection.transaction():
            connection.seconds = postgres_schema.MIGRATION_SECONDS
            connection.execute(_SNAPSHOT)
            if postgres_schema.version_of(connection, url) is None:
                raise errors.nothing_to_back_up(shown(url))
            return backups.copy_postgres(connection, folder, progress)
    except psycopg.Error as error:
        raise connections.translate(error, url) from error


def check(url: str, folder: Path, manifest: Manifest, backup: Path) -> None:
    """Raise UserError if the store of the backup, in `folder`, cannot be put at `url`."""
    scheme, name = parse(url)
    wanted = "sqlite" if scheme == "sqlite" else "postgres"
    if manifest.store.engine != wanted:
        found = _NAMES.get(manifest.store.engine, manifest.store.engine)
        raise UserError(
            f"The backup {backup} holds a store on {found}, but {shown(url)} is one on"
            f" {_NAMES[wanted]}. Nothing was changed. Set SEGUE_STORE to a store on {found}."
        )
    if wanted == "postgres":
        return
    parent = Path(os.path.realpath(name)).parent
    if not parent.is_dir():
        raise errors.folder_missing(parent)
    copied = apsw.Connection(os.fspath(folder / backups.DATABASE))
    try:
        (fault,) = cast("tuple[str]", copied.execute("PRAGMA quick_check(1)").fetchall()[0])
        is_ours = copied.pragma("application_id") == sqlite.APPLICATION_ID
    except _DAMAGED as error:
        raise errors.backup_damaged(backup, str(error)) from error
    finally:
        copied.close()
    if not is_ours or fault != "ok":
        raise errors.backup_damaged(backup, "its store is no whole database of Segue")


def require_older(found: StoreState | None, manifest: Manifest, url: str, backup: Path) -> None:
    """Raise UserError if the store at `url` was used after the one in the backup."""
    if found is not None and _has_more(found, manifest.store):
        here = _when(found.newest)
        there = _when(manifest.store.newest)
        times = "" if here == there else f" It was last used at {here}, the backup's at {there}."
        raise UserError(
            f"The store {shown(url)} is newer than the backup: it has changes that the backup does"
            f" not have.{times} Nothing was changed. Type `segue restore --force {backup}` to"
            " replace it: it is kept beside the new one."
        )


def _has_more(found: StoreState, saved: StoreState) -> bool:
    """Return whether anything was made or changed in the store that the saved one does not have."""
    if found.newest > saved.newest:
        return True
    here = found.contents
    there = saved.contents
    if here is None or there is None or found.schema != saved.schema:
        return False  # no more is known
    if here.digest == there.digest:
        return False
    if found.newest == saved.newest:
        return True  # such as a new title, which has no time
    # It may be an earlier state of the saved store. If as much was ever made in both, but less is
    # there, it was deleted after the backup.
    is_earlier = here.made < there.made or (here.made == there.made and here.things == there.things)
    return not is_earlier or here.things > there.things or here.messages > there.messages


def require_alone(found: list[OpenProcess], url: str) -> None:
    """Raise UserError if programs have the store open."""
    if found:
        running = processes.running(found)
        way_out = processes.way_out(found, stops_gateway=True)
        raise UserError(
            f"The store {shown(url)} is in use. Nothing was changed. Stop every Segue program, then"
            f" try again. {running} {way_out}."
        )


def _when(micros: int) -> str:
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


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
    """Put the store in `folder` at `url`. Return where the replaced one is; empty if there was
    none. Raise UserError, and change nothing, if it is in use or newer than the backup."""
    scheme, name = parse(url)
    if scheme != "sqlite":
        return _replace_postgres(url, folder, manifest, backup, stamp, progress, force=force)
    path = Path(os.path.realpath(name))
    run = path.with_name(f"{path.name}-run")
    try:
        system_files.make_private_folder(run, parents=False)
        gate = WriteGate(run)
        try:
            # A program that opens the store from now on waits, and then finds the new one.
            with gate.passed():
                require_alone(processes.alive(run), url)
                found = _checkpointed(path)
                if not force:
                    require_older(found, manifest, url, backup)
                return _replace(path, folder / backups.DATABASE, run, stamp, progress)
        finally:
            gate.close()
    except apsw.Error as error:
        raise sqlite.translate(error, path) from error
    except OSError as error:
        raise sqlite.refused(error, path) from error


def _checkpointed(path: Path) -> StoreState | None:
    """Move everything from the log into the database, which is one file afterwards. Return what it
    holds; None if there is none, or if it is damaged."""
    if not path.exists():
        return None
    connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(round(sqlite.LOCK_TIMEOUT * 1000))
        connection.pragma("journal_mode", "delete")
        return backups.state_of(connection)
    except (*_DAMAGED, apsw.SQLError):
        return None
    finally:
        connection.close()


def _replace(path: Path, new: Path, run: Path, stamp: str, progress: Progress) -> str:
    meter = CopyMeter(new.stat().st_size, progress)
    kept = path.with_name(f"{path.name}.before-{stamp}")
    with archives.part_of(path) as (part, file):
        with new.open("rb") as opened:
            for chunk in MeteredFile(opened, meter).chunks():
                file.write(chunk)
        system_files.sync(file)
        if path.exists():
            link_or_copy(path, kept)
            for end in ("-wal", "-shm"):  # of a damaged store, whose log could not be moved into it
                log = path.with_name(path.name + end)
                if log.exists():
                    log.rename(kept.with_name(kept.name + end))
        part.replace(path)
    os.close(system_files.open_file(run / "created"))
    system_files.sync_folder(path.parent)
    return str(kept) if kept.exists() else ""


def link_or_copy(path: Path, kept: Path) -> None:
    """Give a file a second name, or copy it where files cannot have two."""
    try:
        os.link(path, kept)
    except FileExistsError:
        raise
    except OSError:
        try:
            shutil.copy2(path, kept)
        except OSError:
            kept.unlink(missing_ok=True)
            raise


# A store on PostgreSQL


def _replace_postgres(
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
    import psycopg  # noqa: PLC0415 - only what is used

    from segue.store import connections, postgres_schema  # noqa: PLC0415

    try:
        with connections.connect(url) as connection, connection.transaction():
            connection.seconds = postgres_schema.MIGRATION_SECONDS
            connection.execute(postgres_schema.ALONE)
            found = postgres_schema.still_open(lambda: postgres_schema.connected(connection))
            require_alone(found, url)
            kept = _set_aside_schema(connection, url, manifest, backup, stamp, force=force)
            backups.load_postgres(connection, folder, manifest.store.schema, progress)
            return kept
    except psycopg.Error as error:
        raise connections.translate(error, url) from error


def _set_aside_schema(
    connection: LimitedConnection,
    url: str,
    manifest: Manifest,
    backup: Path,
    stamp: str,
    *,
    force: bool,
) -> str:
    from segue.store import postgres_schema  # noqa: PLC0415 - only what is used

    if postgres_schema.version_of(connection, url) is None:
        return ""
    if not force:
        found = backups.state_of_postgres(connection)
        require_older(found, manifest, url, backup)
    kept = f"segue_before_{stamp.replace('-', '_')}"
    connection.execute(f"ALTER SCHEMA segue RENAME TO {kept}".encode())
    return f"the schema {kept} of {shown(url)}"
