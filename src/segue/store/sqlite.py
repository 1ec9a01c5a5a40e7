"""The store in one SQLite file, shared by the processes of one machine.

    conversations.db            the database, mode 0600, in WAL mode
    conversations.db-run/       mode 0700
        created                 there once the database was: it is never made anew in silence
        turn, gate              who writes next, and who writes now
        <process>.lock, .sock   one per opening: see processes.py and wake.py

Nothing here may open() the database file itself while a connection is open: closing that
descriptor would drop SQLite's locks, and the next commit could become invisible to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

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
from segue.store.processes import Processes, new_process_name
from segue.store.values import micros
from segue.store.wake import Bell, Mailbox, repeat

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
        return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, **values: Any) -> Row | None:
        # All of them, so that an UPDATE … RETURNING is finished and its locks are free.
        rows = self._connection.execute(sql, values).fetchall()
        return rows[0] if rows else None

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
        self._turn = _open_private(folder / "turn")
        self._gate = _open_private(folder / "gate")

    @contextlib.contextmanager
    def passed(self) -> Iterator[None]:
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

    def __init__(self, path: Path, clock: Clock, run: Path, gate: Gate) -> None:
        self._path = path
        self._clock = clock
        self._gate = gate
        self._processes = Processes(run, new_process_name())
        self._mailbox = Mailbox(run, self._processes.me)
        self._local = threading.local()
        self.bell = Bell(self._source)
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
        await self._writer.close()
        await self._readers.close()
        self._mailbox.close()
        self._processes.close()
        self._gate.close()
        with _open_here_lock:
            _open_here[self._path] -= 1

    # In the threads

    def _connection(self) -> apsw.Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = _connect(self._path)
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
        with self._gate.passed():
            begun = [job for job in jobs if job.begin()]
            outcomes, nudges = self._transact(begun) if begun else ([], set())
        if nudges:
            for process in self._mailbox.nudge(nudges):
                self._processes.dead(process)  # clears away what it left behind
        return outcomes

    def _transact(self, jobs: list[Job]) -> tuple[list[Outcome], set[Topic]]:
        """Do `jobs` in one transaction; a job that fails is undone by itself."""
        try:
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            told = _told(error, self._path)
            return [Outcome(job, error=told) for job in jobs], set()
        outcomes: list[Outcome] = []
        nudges: set[Topic] = set()
        for job in jobs:
            tx = SqliteTx(connection, self._clock, self._processes)
            connection.execute("SAVEPOINT job")
            try:
                outcomes.append(Outcome(job, job.work(tx)))
                nudges |= tx.nudges
            except Exception as error:  # noqa: BLE001 - passed on to the caller
                outcomes.append(Outcome(job, error=_told(error, self._path)))
                if not connection.in_transaction:  # a full disk ends the whole transaction
                    return self._one_by_one(jobs, outcomes)
                connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            told = self._commit_failed(connection, error)
            return [Outcome(job, error=told) for job in jobs], set()
        return outcomes, nudges

    def _one_by_one(
        self, jobs: list[Job], outcomes: list[Outcome]
    ) -> tuple[list[Outcome], set[Topic]]:
        if len(jobs) == 1:
            return outcomes, set()
        alone = [self._transact([job]) for job in jobs]
        return [o for done, _ in alone for o in done], {n for _, nudges in alone for n in nudges}

    def _commit_failed(self, connection: apsw.Connection, error: apsw.Error) -> Exception:
        """What a failed COMMIT means. Its pages may be in the log, to come back after a crash.

        The next commit is written over them. So one is made at once, and when that succeeds, the
        failed one is gone for good.
        """
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        try:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('sealed', '')")
        except apsw.Error:
            if isinstance(error, apsw.IOError):
                return StoreUncertain(path=self._path)
        return _told(error, self._path)

    # Waking up

    @contextlib.asynccontextmanager
    async def _source(self, ring: Callable[[Iterable[str] | None], None]) -> AsyncIterator[None]:
        witness: list[apsw.Connection] = []
        seen: list[int] = []

        def version(_: Tx) -> int:
            if not witness:
                witness.append(_connect(self._path))
            return witness[0].data_version()

        async def look() -> None:
            now = await self.read(version)
            if seen and now != seen[0]:
                ring(None)
            seen[:] = [now]

        async with self._mailbox.receive(ring):
            await look()
            looking = asyncio.create_task(repeat(LOOK_SECONDS, look))
            try:
                yield
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                for connection in witness:
                    connection.close()


# Opening


async def open_sqlite(path: Path, clock: Clock) -> SqliteEngine:
    return await asyncio.to_thread(_open, path, clock)


def _open(given: Path, clock: Clock) -> SqliteEngine:
    if apsw.SQLITE_VERSION_NUMBER < _number(SAFE_SQLITE):
        needed = ".".join(map(str, SAFE_SQLITE))
        raise StoreTooOld(found=apsw.sqlite_lib_version(), needed=needed)
    path = Path(os.path.realpath(given))
    if not path.parent.is_dir():
        raise StoreFolderMissing(folder=path.parent)
    run = path.with_name(path.name + "-run")
    with _open_here_lock:
        if not _open_here[path]:
            _probe(path, run / "created")
        gate = _prepare(path, run, clock)
        _open_here[path] += 1
    return SqliteEngine(path, clock, run, gate)


def _number(version: tuple[int, int, int]) -> int:
    major, minor, patch = version
    return major * 1_000_000 + minor * 1_000 + patch


def _probe(path: Path, created: Path) -> None:
    """Refuse what is not ours, before anything is changed."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER)
    except FileNotFoundError:
        if created.exists():
            raise StoreMissing(path=path, marker=created) from None
        return
    except IsADirectoryError:
        raise StoreForeign(path=path) from None
    except OSError as error:
        raise _refused(error, path) from error
    if not header:
        if created.exists():
            raise StoreCorrupt(path=path, reason="the file is empty")
        return  # the process that was creating it was stopped
    if len(header) < HEADER or not header.startswith(b"SQLite format 3\0"):
        raise StoreCorrupt(path=path, reason="its beginning is overwritten") if created.exists() \
            else StoreForeign(path=path)
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StoreForeign(path=path)


def _prepare(path: Path, run: Path, clock: Clock) -> Gate:
    """Bring file and schema into being, one process at a time."""
    try:
        _make_private_folder(run)
        gate = Gate(run)
    except OSError as error:
        raise _refused(error, path) from error
    try:
        with gate.passed():
            created = run / "created"
            if not created.exists() and not path.exists():
                os.close(_open_private(path))
            connection = _connect(path)
            try:
                _migrate(connection, path, clock)
            finally:
                connection.close()
            os.close(_open_private(created))
    except apsw.Error as error:
        gate.close()
        raise _told(error, path) from error
    except OSError as error:
        gate.close()
        raise _refused(error, path) from error
    except StoreError:
        gate.close()
        raise
    return gate


def _migrate(connection: apsw.Connection, path: Path, clock: Clock) -> None:
    version: int = connection.pragma("user_version")
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if tables and connection.pragma("application_id") != APPLICATION_ID:
        raise StoreForeign(path=path)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if schema.migrate(Dialect.SQLITE, version, lambda script: _run(connection, script)):
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", schema.LATEST)
        _new_era(connection, clock.era())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
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
    connection = apsw.Connection(
        os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    )
    connection.set_busy_timeout(5000)
    _keep_log(connection)
    if connection.pragma("journal_mode", "wal") != "wal":
        connection.close()
        raise StoreFailed(path=path, reason="its folder does not allow write-ahead logging")
    connection.pragma("synchronous", "FULL")
    connection.pragma("foreign_keys", True)
    connection.pragma("trusted_schema", False)
    connection.pragma("journal_size_limit", 64 * 1024 * 1024)
    return connection


def _keep_log(connection: apsw.Connection) -> None:
    # A log that is never deleted cannot be deleted under another process's feet.
    on = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(on))


def _make_private_folder(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)


def _open_private(path: Path) -> int:
    """A descriptor of a file that nobody else may read, from its first moment."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.fchmod(fd, 0o600)
    return fd


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
