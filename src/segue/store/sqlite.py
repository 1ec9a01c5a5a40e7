"""The store in one SQLite file, shared by the processes of one machine.

    conversations.db            the database, mode 0600, in WAL mode
    conversations.db-run/       mode 0700
        created                 there once the database was: it is never made anew in silence
        turn, gate              who writes next, and who writes now
        <process>.lock, .sock   one per opening: see processes.py and wake.py

Nothing here may open() the database file itself while a connection is open: closing that
descriptor would drop SQLite's locks, and the next commit could become invisible to others.
"""

# pyright: reportUnknownMemberType=false
# apsw's types name a buffer that Python has had only since 3.12.

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import apsw

from segue.core.errors import (
    SegueError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFolderMissing,
    StoreForeign,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreTooOld,
    StoreUncertain,
)
from segue.core.lease import Ticks
from segue.store import schema
from segue.store.base import Dialect, Row, Topic, Tx
from segue.store.clock import Clock
from segue.store.jobs import Job, Outcome, Threads
from segue.store.processes import Processes, new_process_name, open_private
from segue.store.values import micros
from segue.store.wake import Bell, Mailbox, Ring

P = ParamSpec("P")
T = TypeVar("T")

APPLICATION_ID = 0x53656775  # "Segu"
SAFE_SQLITE = (3, 51, 3)  # earlier ones can corrupt a WAL database that processes share
BATCH = 64
READERS = 2
LOOK_SECONDS = 0.25
HEADER = 100

# How many stores of this process have a file open; while there are any, it must not be probed.
_open_here: Counter[Path] = Counter()
_open_here_lock = threading.Lock()


class SqliteTx:
    """One transaction on one connection."""

    dialect = Dialect.SQLITE
    for_update = ""

    def __init__(self, connection: apsw.Connection, clock: Clock, processes: Processes) -> None:
        self._connection = connection
        self._processes = processes
        self.process = processes.me
        self.now: int = micros(clock.now())
        self.ticks: Ticks = clock.ticks()
        self.nudges: set[Topic] = set()

    def rows(self, sql: str, **values: Any) -> list[Row]:
        return cast("list[Row]", self._connection.execute(sql, values).fetchall())

    def row(self, sql: str, **values: Any) -> Row | None:
        # All of them are fetched, so that an UPDATE … RETURNING has run to its end.
        rows = self.rows(sql, **values)
        return rows[0] if rows else None

    def one(self, sql: str, **values: Any) -> Row:
        return self.rows(sql, **values)[0]

    def change(self, sql: str, **values: Any) -> int:
        self._connection.execute(sql, values)
        return self._connection.changes()

    def change_many(self, sql: str, values: Iterable[dict[str, Any]]) -> None:
        self._connection.executemany(sql, values)

    def lock(self, name: str) -> None:
        """Nothing to do: there is one writer at a time."""

    def dead(self, process: str) -> bool:
        return self._processes.dead(process)

    def nudge(self, topic: Topic) -> None:
        self.nudges.add(topic)


class Gate:
    """Whose turn it is to write. SQLite's own waiting lets one process starve the others."""

    def __init__(self, folder: Path) -> None:
        self._turn = open_private(folder / "turn")
        self._gate = open_private(folder / "gate")

    @contextlib.contextmanager
    def passed(self) -> Generator[None]:
        """Wait for the turn, then hold the gate."""
        # One process waits at the gate, the others behind it; whoever just wrote must queue
        # again, so it cannot slip in before the one that has waited longest at the gate.
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._turn)
        os.close(self._gate)


class SqliteEngine:
    """An open SQLite store: one thread writes, a few read."""

    def __init__(self, path: Path, clock: Clock, run: Path) -> None:
        self._path = path
        self._clock = clock
        self._run = run
        self._gate = Gate(run)
        self._processes = Processes(run, new_process_name())
        self._mailbox = Mailbox(run, self._processes.me)
        self._file: tuple[int, int] | None = None
        self._local = threading.local()
        self.bell = Bell(self._watch)
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
        return await self._readers.submit(Job(lambda tx: work(tx, *args, **kwargs), self._busy))

    async def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._writer.submit(Job(lambda tx: work(tx, *args, **kwargs), self._busy))

    async def close(self) -> None:
        await self.bell.close()
        if not (await self._writer.close() and await self._readers.close()):
            return  # a thread waits for another program's lock: it still needs the files
        self._mailbox.close()
        self._processes.close()
        self._gate.close()
        with _open_here_lock:
            _open_here[self._path] -= 1

    # In the threads

    def _connection(self) -> apsw.Connection:
        if not hasattr(self._local, "connection"):
            try:
                self._local.connection = _connect(self._path)
            except apsw.Error as error:
                raise _told(error, self._path) from error
        return self._local.connection

    def _hang_up(self) -> None:
        if hasattr(self._local, "connection"):
            self._local.connection.close()

    def _busy(self) -> StoreError:
        return StoreBusy(path=self._path)

    def _read(self, jobs: list[Job]) -> list[Outcome]:
        return [self._read_one(job) for job in jobs if job.begin()]

    def _read_one(self, job: Job) -> Outcome:
        try:
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                result = job.work(SqliteTx(connection, self._clock, self._processes))
            finally:
                connection.execute("COMMIT")
        except apsw.Error as error:
            return Outcome(job, error=_told(error, self._path))
        return Outcome(job, result)

    def _write(self, jobs: list[Job]) -> list[Outcome]:
        nudges: set[Topic] = set()
        with self._gate.passed():
            begun = [job for job in jobs if job.begin()]
            if self._file is None:
                _prepare(self._path, self._run, self._clock)
                self._file = _identity(self._path)
            elif self._file != _identity(self._path):
                # What is written to a file that was removed or replaced is lost.
                raise StoreMissing(path=self._path, marker=self._run / "created")
            outcomes = self._transact(begun, nudges)
        if nudges:
            for process in self._mailbox.nudge(nudges):
                self._processes.dead(process)  # clears away what it left behind
        return outcomes

    def _transact(self, jobs: list[Job], nudges: set[Topic]) -> list[Outcome]:
        """Do `jobs` in one transaction, for the price of one; what fails is undone by itself."""
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            do = self._do if len(jobs) == 1 else self._do_undoably
            outcomes = [do(job, connection, nudges) for job in jobs]
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            nudges.clear()
            _roll_back(connection)
            if len(jobs) > 1:
                return [o for job in jobs for o in self._transact([job], nudges)]
            return [Outcome(job, error=_told(error, self._path)) for job in jobs]
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            nudges.clear()
            told = self._commit_failed(connection, error)
            return [Outcome(job, error=told) for job in jobs]
        return outcomes

    def _do(self, job: Job, connection: apsw.Connection, nudges: set[Topic]) -> Outcome:
        tx = SqliteTx(connection, self._clock, self._processes)
        result = job.work(tx)
        nudges |= tx.nudges
        return Outcome(job, result)

    def _do_undoably(self, job: Job, connection: apsw.Connection, nudges: set[Topic]) -> Outcome:
        connection.execute("SAVEPOINT job")
        try:
            outcome = self._do(job, connection, nudges)
        except Exception as error:
            if not connection.in_transaction:  # a full disk ends the whole transaction
                raise
            connection.execute("ROLLBACK TO job")
            outcome = Outcome(job, error=_told(error, self._path))
        connection.execute("RELEASE job")
        return outcome

    def _commit_failed(self, connection: apsw.Connection, error: apsw.Error) -> Exception:
        """What a failed COMMIT means. Its pages may be in the log, to come back after a crash.

        The next commit is written over them. So one is made at once, and when that succeeds, the
        failed one is gone for good.
        """
        _roll_back(connection)
        try:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('sealed', '')")
        except apsw.Error:
            if isinstance(error, apsw.IOError):
                return StoreUncertain(path=self._path)
        return _told(error, self._path)

    # Waking up

    async def _watch(self, ring: Ring) -> None:
        seen: dict[int, int] = {}
        async with self._mailbox.receive(ring):
            ring(None)
            while True:
                thread, version = await self.read(_data_version)
                if seen.get(thread, version) != version:
                    ring(None)
                seen[thread] = version
                await asyncio.sleep(LOOK_SECONDS)


def _data_version(tx: Tx) -> tuple[int, int]:
    """A number that changes with every commit of others. Each connection counts for itself."""
    return threading.get_ident(), tx.one("PRAGMA data_version")[0]


# Opening


async def open_sqlite(given: Path, clock: Clock) -> SqliteEngine:
    engine = await asyncio.to_thread(_find, given, clock)
    try:
        await engine.write(lambda tx: None)  # the first write brings file and schema into being
    except BaseException:
        await engine.close()
        raise
    return engine


def _find(given: Path, clock: Clock) -> SqliteEngine:
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SAFE_SQLITE:
        needed = ".".join(map(str, SAFE_SQLITE))
        raise StoreTooOld(found=apsw.sqlite_lib_version(), needed=needed)
    path = Path(os.path.realpath(given))
    if not path.parent.is_dir():
        raise StoreFolderMissing(folder=path.parent)
    run = path.with_name(path.name + "-run")
    with _open_here_lock:
        try:
            if not _open_here[path]:
                _probe(path, run)
            _make_private_folder(run)
            engine = SqliteEngine(path, clock, run)
        except OSError as error:
            raise _refused(error, path) from error
        _open_here[path] += 1
    return engine


def _probe(path: Path, run: Path) -> None:
    """Refuse what is not ours, before anything is changed."""
    created = (run / "created").exists()
    try:
        with path.open("rb") as file:
            header = file.read(HEADER)
    except FileNotFoundError:
        if created:
            raise StoreMissing(path=path, marker=run / "created") from None
        return
    except IsADirectoryError:
        raise StoreForeign(path=path) from None
    if not created and run.is_dir() and (not header or _application(header) == 0):
        return  # somebody is creating it, or was stopped while doing so; SQLite knows more
    if created and _application(header) is None:
        raise StoreCorrupt(path=path, reason="the file is cut off or overwritten")
    if _application(header) != APPLICATION_ID:
        raise StoreForeign(path=path)


def _application(header: bytes) -> int | None:
    """Whose SQLite database it is; None when it is not one."""
    if len(header) < HEADER or not header.startswith(b"SQLite format 3\0"):
        return None
    return int.from_bytes(header[68:72], "big")


def _prepare(path: Path, run: Path, clock: Clock) -> None:
    """Bring file and schema up to date. Only one process at a time is here."""
    created = run / "created"
    try:
        if not path.exists():
            if created.exists():
                raise StoreMissing(path=path, marker=created)
            os.close(open_private(path))
        _make_private(path)
        connection = _connect(path)
        try:
            _migrate(connection, clock)
        finally:
            connection.close()
        os.close(open_private(created))
    except apsw.Error as error:
        raise _told(error, path) from error
    except OSError as error:
        raise _refused(error, path) from error


def _migrate(connection: apsw.Connection, clock: Clock) -> None:
    version: int = connection.pragma("user_version")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if schema.migrate(Dialect.SQLITE, version, lambda script: _run(connection, script)):
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", schema.LATEST)
        _new_era(connection, clock.era())
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    if not version:
        # The probe reads the file itself, so the application id has to be in it.
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _run(connection: apsw.Connection, script: str) -> None:
    connection.execute(script)


def _new_era(connection: apsw.Connection, era: str) -> None:
    """After a restart of the machine, ticks count anew and nobody from before is alive."""
    known = connection.execute("SELECT value FROM meta WHERE name = 'era'").get
    if known == era:
        return
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('era', ?)", (era,))
    connection.execute("UPDATE sessions SET lease_until = 0 WHERE lease_until IS NOT NULL")
    connection.execute("UPDATE handoffs SET claim_by = 0 WHERE state IN ('pending', 'running')")
    connection.execute("UPDATE handoffs SET lease_until = 0 WHERE state = 'running'")
    connection.execute("UPDATE outbox SET not_before = 0 WHERE state = 'queued'")
    connection.execute("UPDATE outbox SET until = 0 WHERE state = 'sending'")
    connection.execute("DELETE FROM gateways")


def _connect(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(os.fspath(path), flags=flags)
    try:
        connection.set_busy_timeout(5000)
        _refuse_foreign(connection, path)
        _keep_log(connection)
        if connection.pragma("journal_mode", "wal") != "wal":
            raise StoreFailed(path=path, reason="its folder does not allow write-ahead logging")
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
        raise StoreForeign(path=path)


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _keep_log(connection: apsw.Connection) -> None:
    # A log that is never deleted cannot be deleted under another process's feet.
    on = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(on))


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever it is called."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _make_private_folder(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    if folder.stat().st_mode & 0o777 != 0o700:  # left so by somebody, or made under an odd umask
        folder.chmod(0o700)


def _make_private(path: Path) -> None:
    """Shut out others from what is there and ours, without opening it."""
    for name in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with contextlib.suppress(FileNotFoundError):
            found = name.stat()
            if found.st_mode & 0o077 and found.st_uid == os.geteuid():
                name.chmod(0o600)


# What went wrong, for people


def _refused(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(path=path)
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreReadOnly(path=path, reason=reason)
    return StoreFailed(path=path, reason=reason)


def _told(error: Exception, path: Path) -> Exception:
    """The error as a person can use it; what is not the database's stays as it is."""
    match error:
        case SegueError():
            return error
        case apsw.FullError():
            return StoreFull(path=path)
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(path=path, reason=str(error))
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return StoreReadOnly(path=path, reason=str(error))
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(path=path)
        case apsw.IOError():
            return StoreFailed(path=path, reason=str(error))
        case _:
            return error
