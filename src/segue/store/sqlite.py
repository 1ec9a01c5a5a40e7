"""The store in one SQLite file, shared by the processes of one machine.

    conversations.db            the database, mode 0600, in WAL mode
    conversations.db-run/       mode 0700
        created                 exists once the database does: a lost one is not recreated silently
        turn, gate              locks: who writes next, and who writes now
        <process>.lock, .sock   one per opening: see processes.py and wake.py

First the files: check, create, make private, connect, and map errors. Then the engine. Nothing here
may open() the database file while a connection is open in this process: closing that descriptor
would drop SQLite's locks, and the next commit could become invisible to others.
"""

# pyright: reportUnknownMemberType=false
# apsw's types refer to `Buffer`, which Python has only since 3.12.

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import apsw

from segue.core.errors import StoreError, StoreUncertain
from segue.store import database, errors, processes
from segue.store.base import Clock, Row, SqlDialect, Topic, Tx
from segue.store.processes import Processes, new_process_name
from segue.store.threads import CallResult, StoreCall, Threads
from segue.store.values import micros
from segue.store.wake import Mailbox, Notifier, Notify
from segue.system import files, locks

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
    missing = database.scripts(SqlDialect.SQLITE, version)
    # A program that opens the store from now on waits for the gate, which we hold, and then finds
    # the newer schema.
    if version and missing and (older := processes.older(run)):
        raise errors.in_use(
            path, version, database.LATEST, processes.running(older), processes.way_out(older)
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
            connection.pragma("user_version", database.LATEST)
        _new_era(connection, clock.era())
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    if not version:
        # `probe` reads the file itself, so the application id must be in it, not in the WAL.
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _back_up(connection: apsw.Connection, path: Path, version: int) -> None:
    from segue.store import archives, backups  # noqa: PLC0415 - only for an upgrade

    archives.remove_leftovers(path.parent)
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
    make_error = _ERRORS.get(type(error))
    return make_error(path, str(error)) if make_error else error


def _cannot_open(error: apsw.CantOpenError, path: Path) -> StoreError:
    """Find out why the file cannot be opened, which SQLite does not report. Only the folder can be
    checked: the file must not be opened while there are connections."""
    try:
        os.close(os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as why:
        return refused(why, path)
    return errors.read_only(path, str(error))


P = ParamSpec("P")
T = TypeVar("T")

SAFE_SQLITE = (3, 51, 3)  # earlier versions can corrupt a WAL database that processes share
BATCH = 64
READERS = 2
POLL_SECONDS = 0.5

# How many stores in this process have each file open. A file that is open must not be probed.
_open_here: Counter[Path] = Counter()
_open_here_lock = threading.Lock()


class SqliteTx(Tx):
    """One transaction on one connection."""

    dialect = SqlDialect.SQLITE
    for_update = ""
    for_share = ""
    bytewise = ""

    def __init__(self, connection: apsw.Connection, clock: Clock, processes: Processes) -> None:
        super().__init__(processes.me, micros(clock.now()), clock.ticks())
        self._connection = connection
        self._processes = processes

    def rows(self, sql: str, **values: Any) -> list[Row]:
        return cast("list[Row]", self._connection.execute(sql, values).fetchall())

    def each(self, sql: str, **values: Any) -> Iterator[Row]:
        return cast("Iterator[Row]", self._connection.execute(sql, values))

    def change(self, sql: str, **values: Any) -> int:
        self._connection.execute(sql, values)
        return self._connection.changes()

    def change_many(self, sql: str, values: Iterable[dict[str, Any]]) -> None:
        self._connection.executemany(sql, values)

    def lock(self, name: str) -> None:
        """Do nothing: there is one writer at a time."""

    def dead(self, process: str) -> bool:
        return self._processes.dead(process)


class WriteGate:
    """Makes the writers take turns. SQLite's own locking lets one process starve the others."""

    def __init__(self, folder: Path) -> None:
        self._turn = files.open_file(folder / "turn")
        self._gate = files.open_file(folder / "gate")

    @contextlib.contextmanager
    def passed(self) -> Generator[None]:
        """Wait for the turn, then hold the gate."""
        # One process waits at the gate, the others wait for the turn. A process that has just
        # written must queue again, so it cannot overtake the one at the gate.
        locks.lock(self._turn)
        try:
            locks.lock(self._gate)
        finally:
            locks.unlock(self._turn)
        try:
            yield
        finally:
            locks.unlock(self._gate)

    def close(self) -> None:
        os.close(self._turn)
        os.close(self._gate)


class SqliteEngine:
    """An open SQLite store: one writer thread, a few reader threads."""

    def __init__(self, path: Path, clock: Clock, run: Path) -> None:
        self._path = path
        self._clock = clock
        self._run = run
        self._gate = WriteGate(run)
        self._processes = Processes(run, new_process_name())
        self._mailbox = Mailbox(run, self._processes.me)
        self._file: tuple[int, int] | None = None
        self._waits = True
        """Whether the writer's commits currently wait for the disk."""
        self._local = threading.local()
        self.notifier = Notifier(self._watch, self._nudge)
        self._writer = Threads(
            "segue-store-writer", count=1, batch=BATCH, run=self._write, done=self._hang_up
        )
        self._readers = Threads(
            "segue-store-reader", count=READERS, run=self._read, done=self._hang_up
        )

    @property
    def process(self) -> str:
        return self._processes.me

    async def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._readers.submit(
            StoreCall(lambda tx: work(tx, *args, **kwargs), self._busy)
        )

    async def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._writer.submit(
            StoreCall(lambda tx: work(tx, *args, **kwargs), self._busy)
        )

    async def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        call = StoreCall(lambda tx: work(tx, *args, **kwargs), self._busy, lasting=False)
        return await self._writer.submit(call)

    async def _nudge(self, topics: Iterable[str]) -> None:
        self._send(topics)

    async def close(self) -> None:
        await self.notifier.close()
        if not (await self._writer.close() and await self._readers.close()):
            return  # a thread waits for another program's lock and needs the files
        self._mailbox.close()
        self._processes.close()
        self._gate.close()
        with _open_here_lock:
            _open_here[self._path] -= 1

    # In the threads

    def _connection(self) -> apsw.Connection:
        if not hasattr(self._local, "connection"):
            try:
                self._local.connection = connect(self._path)
            except apsw.Error as error:
                raise translate(error, self._path) from error
        return self._local.connection

    def _hang_up(self) -> None:
        if hasattr(self._local, "connection"):
            self._local.connection.close()

    def _busy(self) -> StoreError:
        return errors.busy(self._path)

    def _read(self, calls: list[StoreCall]) -> list[CallResult]:
        return [self._read_one(call) for call in calls if call.begin()]

    def _read_one(self, call: StoreCall) -> CallResult:
        try:
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                result = call.work(SqliteTx(connection, self._clock, self._processes))
            finally:
                connection.execute("COMMIT")
        except (apsw.Error, OSError) as error:
            return CallResult(call, error=translate(error, self._path))
        return CallResult(call, result)

    def _write(self, calls: list[StoreCall]) -> list[CallResult]:
        nudges: set[Topic] = set()
        with self._gate.passed():
            begun = [call for call in calls if call.begin()]
            if self._file is None:
                prepare(self._path, self._run, self._clock)
                self._file = identity(self._path)
            elif self._file != identity(self._path):
                # Writes to a file that was removed or replaced would be lost.
                raise errors.missing(self._path, self._run / "created")
            outcomes = self._transact(begun, nudges)
        if nudges:
            self._send(nudges)
        return outcomes

    def _send(self, topics: Iterable[str]) -> None:
        for process in self._mailbox.nudge(topics):
            self._processes.dead(process)  # removes its files

    def _transact(self, calls: list[StoreCall], nudges: set[Topic]) -> list[CallResult]:
        """Run `calls` in one transaction, at the cost of one commit. A call that fails is rolled
        back alone."""
        connection = self._connection()
        try:
            self._wait_for_disk(connection, wait=any(call.lasting for call in calls))
            connection.execute("BEGIN IMMEDIATE")
            do = self._do if len(calls) == 1 else self._do_undoably
            outcomes = [do(call, connection, nudges) for call in calls]
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            nudges.clear()
            roll_back(connection)
            if len(calls) > 1:
                return [o for call in calls for o in self._transact([call], nudges)]
            return [CallResult(call, error=translate(error, self._path)) for call in calls]
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            nudges.clear()
            failure = self._commit_failed(connection, error)
            return [CallResult(call, error=failure) for call in calls]
        return outcomes

    def _do(self, call: StoreCall, connection: apsw.Connection, nudges: set[Topic]) -> CallResult:
        tx = SqliteTx(connection, self._clock, self._processes)
        result = call.work(tx)
        nudges |= tx.nudges
        if tx.later:
            call.then = partial(self.notifier.nudge_soon, tx.later)
        return CallResult(call, result)

    def _do_undoably(
        self, call: StoreCall, connection: apsw.Connection, nudges: set[Topic]
    ) -> CallResult:
        connection.execute("SAVEPOINT call")
        try:
            outcome = self._do(call, connection, nudges)
        except BaseException as error:
            if not connection.in_transaction:  # a full disk aborts the whole transaction
                raise
            connection.execute("ROLLBACK TO call")
            outcome = CallResult(call, error=translate(error, self._path))
        connection.execute("RELEASE call")
        return outcome

    def _commit_failed(self, connection: apsw.Connection, error: apsw.Error) -> BaseException:
        """Return the error for a failed COMMIT, after making sure that it stays undone.

        Its pages may be in the WAL and come back after a crash. The next commit overwrites them, so
        one is made at once. If that succeeds, the failed one is gone for good. If not, the outcome
        of a failed write to disk is uncertain.
        """
        roll_back(connection)
        try:
            self._wait_for_disk(connection, wait=True)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('sealed', '')")
        except apsw.Error:
            if isinstance(error, apsw.IOError):
                return StoreUncertain(path=self._path)
        return translate(error, self._path)

    def _wait_for_disk(self, connection: apsw.Connection, *, wait: bool) -> None:
        """Set whether the next commit waits for the disk. One that does also flushes all earlier
        ones."""
        if wait is not self._waits:
            connection.pragma("synchronous", "FULL" if wait else "NORMAL")
            self._waits = wait

    # Wake-ups

    async def _watch(self, notify: Notify) -> None:
        seen: dict[int, int] = {}
        async with self._mailbox.receive(notify):
            while True:
                thread, version = await self.read(_data_version)
                if seen.get(thread) != version:  # the first look always notifies: see `Notifier`
                    notify(None)
                seen[thread] = version
                await asyncio.sleep(POLL_SECONDS)


def _data_version(tx: Tx) -> tuple[int, int]:
    """The thread, and a number that changes with every commit of other connections. Each connection
    has a separate count."""
    return threading.get_ident(), tx.one("PRAGMA data_version")[0]


# Opening


async def open_sqlite(given: Path, clock: Clock) -> SqliteEngine:
    engine = await asyncio.to_thread(_find, given, clock)
    try:
        await engine.write(lambda tx: None)  # the first write creates the file and the schema
    except BaseException:
        await engine.close()
        raise
    return engine


def _find(given: Path, clock: Clock) -> SqliteEngine:
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SAFE_SQLITE:
        needed = ".".join(map(str, SAFE_SQLITE))
        raise StoreError(
            f"SQLite {apsw.sqlite_lib_version()} can damage a database that several programs share."
            f" Segue needs {needed} or newer. Reinstall Segue with its own packages."
        )
    path = Path(os.path.realpath(given))
    if not path.parent.is_dir():
        raise no_folder(path)
    run = path.with_name(path.name + "-run")
    with _open_here_lock:
        try:
            if not _open_here[path]:
                probe(path, run)
            files.make_private_folder(run, parents=False)
            engine = SqliteEngine(path, clock, run)
        except OSError as error:
            raise refused(error, path) from error
        _open_here[path] += 1
    return engine
