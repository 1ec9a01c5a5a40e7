"""Connections to PostgreSQL, its errors as the user sees them, and the lifeline of each process.

A network that stalls breaks no connection: both sides wait for each other. Only time reveals it, so
a connection is closed when the server does not answer in time.

Each opening of the store has a lifeline: an advisory lock on a dedicated connection, which also
listens for wake-ups. The server frees the lock as soon as the process ends, however it ends, so
other processes need not wait for a lease to expire. A process that is frozen or cut off keeps its
lock: only its missed heartbeats reveal it.

That connection can also break while the process lives: the server restarts, or the network fails.
The process then writes nothing until it holds the lock again. A restart cuts off all processes at
once, so for GRACE_SECONDS after a process was cut off it declares no other process dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import psycopg
from psycopg import errors as refusals
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, TransactionStatus

from segue.core.errors import StoreError
from segue.store import database, errors
from segue.store.values import shown
from segue.store.wake import Notify
from segue.system.backoff import Backoff

ANSWER_SECONDS = 20.0
"""Seconds that the server gets for one statement. It waits for a lock for half of them."""
_INTERVAL = 0.1
"""Seconds between two looks whether the file descriptor is still open."""

T = TypeVar("T")


class LimitedConnection(psycopg.Connection[Any]):
    seconds: float | None = None
    """The limit for one statement. None for ANSWER_SECONDS."""

    def wait(self, gen: PQGen[T], interval: float = _INTERVAL, timeout: float | None = None) -> T:
        limit = _limit(timeout, self.seconds)
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError as error:
            raise _closed(self, error, limit) from error


class LimitedAsyncConnection(psycopg.AsyncConnection[Any]):
    seconds: float | None = None
    """The limit for one statement. None for ANSWER_SECONDS."""

    async def wait(
        self, gen: PQGen[T], interval: float = _INTERVAL, timeout: float | None = None
    ) -> T:
        limit = _limit(timeout, self.seconds)
        try:
            return await super().wait(gen, interval, limit)
        except psycopg.OperationalError as error:
            raise _closed(self, error, limit) from error


def _limit(asked: float | None, own: float | None) -> float:
    if asked is not None:
        return asked
    return ANSWER_SECONDS if own is None else own


def _closed(
    connection: LimitedConnection | LimitedAsyncConnection,
    error: psycopg.OperationalError,
    limit: float,
) -> psycopg.OperationalError:
    """The error to raise. If a statement is still running, its answer must not be taken for that of
    the next one, so the connection is closed."""
    if connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
        return error
    connection.pgconn.finish()
    return psycopg.OperationalError(f"no answer within {limit:g} seconds")


# Connecting


OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 10,
    "options": "-c search_path=segue -c lock_timeout=10s"
    " -c idle_in_transaction_session_timeout=60s -c client_min_messages=warning",
}


def connect(url: str, process: str = "") -> LimitedConnection:
    with connecting(url):
        return LimitedConnection.connect(url, application_name=application_name(process), **OPTIONS)


def application_name(process: str) -> str:
    """What the server shows for a connection. Newer programs read it: see `_older`."""
    return f"segue {database.LATEST} {process}".rstrip()


@contextlib.contextmanager
def connecting(url: str) -> Generator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        if _NO_CONNECT in str(error):
            raise forbidden(error, url) from error
        raise errors.unreachable(shown(url), reason_of(error)) from error
    except psycopg.ProgrammingError as error:  # an unknown option in the URL
        raise errors.bad_url(shown(url)) from error


# Errors, as the user sees them


_ERRORS: dict[type[Exception], Callable[[str, str], StoreError]] = {
    refusals.DiskFull: errors.full,
    refusals.DataCorrupted: errors.corrupt,
    refusals.IndexCorrupted: errors.corrupt,
    refusals.LockNotAvailable: errors.busy,
    refusals.DeadlockDetected: errors.busy,
    psycopg.OperationalError: errors.failed,  # any other: most of the above are kinds of it
    psycopg.InterfaceError: errors.failed,
    psycopg.InternalError: errors.failed,
}


def reason_of(error: Exception) -> str:
    return " ".join(str(error).split())


def translate(error: Exception, url: str) -> Exception:
    """Map a database error to a StoreError. Return any other error unchanged."""
    if isinstance(error, refusals.InsufficientPrivilege):
        return forbidden(error, url)
    if isinstance(error, refusals.ReadOnlySqlTransaction):
        return _read_only(error, url)
    for kind, make_error in _ERRORS.items():
        if isinstance(error, kind):
            return make_error(shown(url), reason_of(error))
    return error


_NO_CONNECT = "permission denied for database"


def forbidden(error: Exception, url: str, owner: str = "") -> StoreError:
    """The error for a missing right, with the command that grants it. `owner` owns the tables."""
    role, database = _names(url)
    reason = reason_of(error)
    if isinstance(error, psycopg.OperationalError):  # at the connection
        grant = f'GRANT CONNECT ON DATABASE "{database}" TO "{role}"'
    elif "for database" in reason:
        grant = f'GRANT CREATE ON DATABASE "{database}" TO "{role}"'
    elif owner:  # only the owner can migrate the tables
        grant = f'GRANT "{owner}" TO "{role}"'
    else:
        grant = (
            f'GRANT USAGE ON SCHEMA segue TO "{role}"; '
            f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA segue TO "{role}"'
        )
    command = f"psql -d {database} -c '{grant}'"
    return StoreError(
        f"The role {role} lacks a right on the database {shown(url)}: {reason}. Let an"
        f" administrator, or the owner of the database, type `{command}`.",
        reason=reason,
    )


def _read_only(error: Exception, url: str) -> StoreError:
    _, database = _names(url)
    alter = f'ALTER DATABASE "{database}" SET default_transaction_read_only = off'
    command = f"psql -d {database} -c '{alter}'"
    reason = reason_of(error)
    return StoreError(
        f"The database {shown(url)} cannot be written: {reason}. If it is a standby server, set"
        f" SEGUE_STORE to the primary one. If not, let an administrator type `{command}`.",
        reason=reason,
    )


def _names(url: str) -> tuple[str, str]:
    """The role and the database that a URL leads to."""
    defaults = {option.keyword: option.val for option in Conninfo.get_defaults()}
    given = conninfo_to_dict(url)
    role = str(given.get("user") or (defaults.get(b"user") or b"").decode())
    return role, str(given.get("dbname") or role)


CHANNEL = "segue"
GRACE_SECONDS = 3.0
"""Seconds that other processes get to come back after all were cut off."""
WAIT_SECONDS = 1.0
"""Seconds that a write waits for the lock to be held again."""
POLL_SECONDS = 5.0
"""Seconds between polls when no notification arrives."""
PING_SECONDS = 5.0
"""Seconds that the server gets to answer on this connection."""
PAUSE = 0.05
MAX_PAUSE = 0.4

logger = logging.getLogger(__name__)

LOCK = "hashtextextended('process ' || %(process)s, 0)"
MY_BACKEND = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
END_BACKEND = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
)


class Lifeline:
    """Holds the lock of `process` from `open` to `close`, and passes on each notification."""

    def __init__(
        self, process: str, connect: Callable[[], Awaitable[LimitedAsyncConnection]]
    ) -> None:
        self._process = process
        self._connect = connect
        self._held = threading.Event()
        self._trusted = 0.0
        """From this time on, a free lock means that its process is dead."""
        self._backend: tuple[Any, ...] | None = None
        self.reason = ""
        """Why the lock was lost, or could not be acquired again."""
        self.keeping: asyncio.Task[None] | None = None

    @property
    def was_cut_off(self) -> bool:
        """Whether this process recently lost the server, as others may have."""
        return not self._held.is_set() or time.monotonic() < self._trusted

    def wait(self) -> bool:
        """Block the thread for up to WAIT_SECONDS. Return False if the lock is still not held."""
        return self._held.wait(WAIT_SECONDS)

    async def open(self, notify: Notify) -> None:
        connection = await self._take()
        self._held.set()
        self.keeping = asyncio.create_task(self._keep(connection, notify))

    async def close(self) -> None:
        if self.keeping is not None:
            self.keeping.cancel()
            await asyncio.wait({self.keeping})

    async def _keep(self, connection: LimitedAsyncConnection, notify: Notify) -> None:
        while True:
            try:
                await self._listen(connection, notify)
            finally:
                await connection.close()
            connection = await self._take_again()
            self._trusted = time.monotonic() + GRACE_SECONDS
            self._held.set()

    async def _listen(self, connection: LimitedAsyncConnection, notify: Notify) -> None:
        """Forward notifications until the connection breaks."""
        connection.seconds = PING_SECONDS
        try:
            while True:
                notify(None)  # for notifications that were lost or sent while disconnected
                async for notice in connection.notifies(timeout=POLL_SECONDS):
                    notify({notice.payload})
                await connection.execute("SELECT 1")  # a network that stalls looks like silence
        except asyncio.CancelledError:  # so that the lock is free when `close` returns
            with contextlib.suppress(psycopg.Error):
                await connection.execute("SELECT pg_advisory_unlock_all()")
            raise
        except Exception as error:  # noqa: BLE001 - without its lock, the process cannot write
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        self._held.clear()
        if not isinstance(error, psycopg.Error | StoreError):
            logger.error("database connection failed", exc_info=error)
        reason = isinstance(error, StoreError) and error.fields.get("reason")
        self.reason = " ".join(str(reason or error).split())

    async def _take_again(self) -> LimitedAsyncConnection:
        backoff = Backoff(least=PAUSE, most=MAX_PAUSE)
        while True:
            try:
                return await self._take()
            except Exception as error:  # noqa: BLE001 - it must go on trying
                self._broke(error)
            await asyncio.sleep(backoff.next())

    async def _take(self) -> LimitedAsyncConnection:
        """Return a connection that listens and holds the lock."""
        connection = await self._connect()
        try:
            if self._backend is not None:  # the server may not have noticed the break
                await connection.execute(END_BACKEND, self._backend)
            await connection.execute(f"LISTEN {CHANNEL}".encode())
            lock = f"SELECT pg_advisory_lock({LOCK})"
            await connection.execute(lock.encode(), {"process": self._process})
            self._backend = await (await connection.execute(MY_BACKEND)).fetchone()
        except BaseException:
            await connection.close()
            raise
        return connection
