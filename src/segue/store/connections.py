"""Connections to PostgreSQL, and its errors as the user sees them.

A network that stalls breaks no connection: both sides wait for each other. Only time reveals it, so
a connection is closed when the server does not answer in time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg
from psycopg import errors as refusals
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, TransactionStatus

from segue.core.errors import StoreError
from segue.store import errors, schema
from segue.store.values import shown

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
    return f"segue {schema.LATEST} {process}".rstrip()


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


def told(error: Exception, url: str) -> Exception:
    """Map a database error to a StoreError. Return any other error unchanged."""
    if isinstance(error, refusals.InsufficientPrivilege):
        return forbidden(error, url)
    if isinstance(error, refusals.ReadOnlySqlTransaction):
        return _read_only(error, url)
    for kind, told in _ERRORS.items():
        if isinstance(error, kind):
            return told(shown(url), reason_of(error))
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
