"""The files of an SQLite store: check, create, make private, connect, and map errors.

Nothing here may open() the database file while a connection is open in this process: closing that
descriptor would drop SQLite's locks, and the next commit could become invisible to others.
"""

# pyright: reportUnknownMemberType=false
# apsw's types refer to `Buffer`, which Python has only since 3.12.

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import apsw

from segue.core.errors import StoreError
from segue.store import errors, processes, schema
from segue.store.base import SqlDialect
from segue.store.clock import Clock
from segue.system import files

APPLICATION_ID = 0x53656775  # "Segu"
HEADER = 100
LOCK_TIMEOUT = 5.0
"""Seconds to wait for a lock that a program outside our gate holds on the database."""


def probe(path: Path, run: Path) -> None:
    """Raise a StoreError if the file is not ours, before anything is changed."""
    created = (run / "created").exists()
    try:
        with path.open("rb") as file:
            header = file.read(HEADER)
    except FileNotFoundError:
        if created:
            raise errors.missing(path, run / "created") from None
        return
    except IsADirectoryError:
        raise errors.foreign(path) from None
    if not created and run.is_dir() and (not header or _application(header) == 0):
        return  # it is being created, or that was interrupted; SQLite knows more
    if created and _application(header) is None:
        raise errors.corrupt(path, "the file is cut off or overwritten")
    if _application(header) != APPLICATION_ID:
        raise errors.foreign(path)


def _application(header: bytes) -> int | None:
    """The application id of an SQLite file, or None if it is not one."""
    if len(header) < HEADER or not header.startswith(b"SQLite format 3\0"):
        return None
    return int.from_bytes(header[68:72], "big")


def prepare(path: Path, run: Path, clock: Clock) -> None:
    """Create the file if needed and migrate its schema. Only one process runs this at a time."""
    created = run / "created"
    try:
        if not path.exists():
            if created.exists():
                raise errors.missing(path, created)
            os.close(files.open_file(path))
        _make_private(path)
        connection = connect(path)
        try:
            _migrate(connection, clock, path, run)
        finally:
            connection.close()
        os.close(files.open_file(created))
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise refused(error, path) from error


def _migrate(connection: apsw.Connection, clock: Clock, path: Path, run: Path) -> None:
    version: int = connection.pragma("user_version")
    if version < 0:
        raise errors.schema_wrong(path, version, "it is negative")
    missing = schema.scripts(SqlDialect.SQLITE, version)
    # A program that opens the store from now on waits for the gate, which we hold, and then finds
    # the newer schema.
    if version and missing and (older := processes.older(run)):
        raise errors.in_use(
            path, version, schema.LATEST, processes.running(older), processes.way_out(older)
        )
    if version and missing:
        _back_up(connection, path, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in missing:
            try:
                connection.execute(script)
            except apsw.SQLError as error:  # such as a table that exists already
                raise errors.schema_wrong(path, version, str(error)) from error
        if missing:
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", schema.LATEST)
        _new_era(connection, clock.era())
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    if not version:
        # `probe` reads the file itself, so the application id must be in it, not in the WAL.
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _back_up(connection: apsw.Connection, path: Path, version: int) -> None:
    from segue.store import backups, staging  # noqa: PLC0415 - only for an upgrade

    staging.remove_leftovers(path.parent)
    try:
        backups.back_up_before_upgrade(
            path.with_name(f"{path.name}-backups"),
            version,
            lambda folder: backups.copy_sqlite(connection, folder),
        )
    except apsw.SQLError as error:  # such as a table that is missing
        raise errors.schema_wrong(path, version, str(error)) from error


def _new_era(connection: apsw.Connection, era: str) -> None:
    """After a reboot, reset every deadline: ticks start again, and no earlier process is alive."""
    known = connection.execute("SELECT value FROM meta WHERE name = 'era'").get
    if known == era:
        return
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('era', ?)", (era,))
    connection.execute("UPDATE sessions SET lease_until = 0 WHERE process IS NOT NULL")
    connection.execute("UPDATE handoffs SET claim_by = 0 WHERE state IN ('pending', 'running')")
    connection.execute("UPDATE handoffs SET lease_until = 0 WHERE state = 'running'")
    connection.execute("UPDATE outbox SET not_before = 0 WHERE state = 'queued'")
    connection.execute("UPDATE outbox SET until = 0 WHERE state = 'sending'")
    connection.execute("UPDATE approvals SET until = 0 WHERE state = 'waiting'")
    connection.execute("DELETE FROM pairings")
    connection.execute("DELETE FROM gateways")


def connect(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(os.fspath(path), flags=flags)
    try:
        connection.set_busy_timeout(round(LOCK_TIMEOUT * 1000))
        _refuse_foreign(connection, path)
        _keep_log(connection)
        if connection.pragma("journal_mode", "wal") != "wal":
            raise errors.failed(path, "its folder does not allow write-ahead logging")
        connection.pragma("synchronous", "FULL")
        connection.pragma("foreign_keys", True)
        connection.pragma("trusted_schema", False)
        connection.pragma("journal_size_limit", 64 * 1024 * 1024)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") == APPLICATION_ID:
        return
    if connection.execute("SELECT count(*) FROM sqlite_schema").get:
        raise errors.foreign(path)


def roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _keep_log(connection: apsw.Connection) -> None:
    # A WAL file that is never deleted cannot be deleted while another process uses it.
    on = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(on))


def identity(path: Path) -> tuple[int, int] | None:
    """The file's device and inode, which stay the same when it is renamed. None if it is
    missing."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _make_private(path: Path) -> None:
    """Take away other users' access to the files that exist and are ours, without opening them."""
    for name in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with contextlib.suppress(FileNotFoundError):
            found = name.stat()
            if found.st_mode & 0o077 and found.st_uid == os.geteuid():
                name.chmod(0o600)


# Errors, as the user sees them


_ERRORS: dict[type[BaseException], Callable[[Path, str], StoreError]] = {
    apsw.FullError: errors.full,
    apsw.CorruptError: errors.corrupt,
    apsw.NotADBError: errors.corrupt,
    apsw.ReadOnlyError: errors.read_only,
    apsw.PermissionsError: errors.read_only,
    apsw.BusyError: errors.busy,
    apsw.LockedError: errors.busy,
    apsw.IOError: errors.failed,
}


def no_folder(path: Path) -> StoreError:
    """The error for a `path` whose folder does not exist."""
    folder = path.parent
    there = next(parent for parent in folder.parents if parent.exists())
    if os.access(there, os.W_OK):
        return errors.folder_missing(folder)
    return errors.read_only(path, f"{folder} is not there, and {there} is read-only")


def refused(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return errors.full(path)
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        reason += " (type `ulimit -n 4096` to allow more)"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return errors.read_only(path, reason)
    return errors.failed(path, reason)


def translate(error: BaseException, path: Path) -> BaseException:
    """Map a database or OS error to a StoreError. Return any other error unchanged."""
    if isinstance(error, apsw.CantOpenError):
        return _cannot_open(error, path)
    if isinstance(error, OSError):  # such as a lock file that cannot be opened
        return refused(error, path)
    told = _ERRORS.get(type(error))
    return told(path, str(error)) if told else error


def _cannot_open(error: apsw.CantOpenError, path: Path) -> StoreError:
    """Find out why the file cannot be opened, which SQLite does not report. Only the folder can be
    checked: the file must not be opened while there are connections."""
    try:
        os.close(os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as why:
        return refused(why, path)
    return errors.read_only(path, str(error))
