"""The store in a PostgreSQL database, in the schema `segue`, shared by several machines."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from segue.core.errors import StoreError, StoreUncertain
from segue.core.session import Ticks
from segue.store import errors
from segue.store.base import Clock, Row, SqlDialect, Topic, Tx
from segue.store.processes import new_process_name
from segue.store.threads import CallResult, StoreCall, Threads
from segue.store.values import micros, shown
from segue.store.wake import Notifier, Notify

try:
    import psycopg
    from psycopg import errors as refusals
    from psycopg.pq import TransactionStatus

    from segue.store.connections import (
        CHANNEL,
        END_BACKEND,
        LOCK,
        MY_BACKEND,
        OPTIONS,
        Lifeline,
        LimitedAsyncConnection,
        application_name,
        connect,
        connecting,
        reason_of,
        translate,
    )
    from segue.store.postgres_schema import NOW, prepare
except ImportError as missing:
    raise StoreError(
        "Stores on PostgreSQL need a package that is not installed. Type `make extra NAME=postgres`"
        " in the project folder."
    ) from missing

P = ParamSpec("P")
T = TypeVar("T")

CONNECTIONS = 4
MAX_ATTEMPTS = 5

_BEGIN = f"BEGIN; SELECT {NOW}"
_ROLLBACK = "ROLLBACK"
_BEGIN_READING = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT {NOW}"
_BREAKS = (psycopg.OperationalError, psycopg.InterfaceError)
_RETRY = (refusals.SerializationFailure, refusals.DeadlockDetected)


@cache
def _native(sql: str) -> bytes:
    """Translate parameters to the driver's syntax: `:name` becomes `%(name)s`."""
    return re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", sql.replace("%", "%%")).encode()


class PostgresTx(Tx):
    """One transaction on one connection."""

    dialect = SqlDialect.POSTGRES
    for_update = "FOR UPDATE"
    for_share = "FOR KEY SHARE"
    bytewise = ' COLLATE "C"'

    def __init__(
        self,
        connection: psycopg.Connection[Row],
        process: str,
        clock: Clock | None,
        begin: str,
        *,
        was_cut_off: bool,
    ) -> None:
        cursor = connection.execute(begin.encode())
        cursor.nextset()
        ((server,),) = cursor.fetchall()
        # The server's clock is the one that all machines share.
        now, ticks = (micros(clock.now()), clock.ticks()) if clock else (server, Ticks(server))
        super().__init__(process, now, ticks, was_cut_off=was_cut_off)
        self._connection = connection

    def rows(self, sql: str, **values: Any) -> list[Row]:
        return self._connection.execute(_native(sql), values).fetchall()

    def each(self, sql: str, **values: Any) -> Iterator[Row]:
        return iter(self._connection.execute(_native(sql), values))

    def change(self, sql: str, **values: Any) -> int:
        return self._connection.execute(_native(sql), values).rowcount

    def change_many(self, sql: str, values: Iterable[dict[str, Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_native(sql), values)

    def lock(self, name: str) -> None:
        self._connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))", {"name": name}
        )

    def dead(self, process: str) -> bool:
        if self.was_cut_off or process == self.process:
            return False
        # A shared lock, so that several processes can check at once. It lasts until this
        # transaction ends, so a process that was only cut off cannot come back in the middle of it.
        sql = f"SELECT pg_try_advisory_xact_lock_shared({LOCK})"
        return self._connection.execute(sql.encode(), {"process": process}).fetchall() == [(True,)]

    def commit(self, slot: str, number: int) -> None:
        """Commit, and record `number` in `slot` as proof that the commit took effect."""
        # One round trip. Listeners are notified only if the commit succeeds.
        sign = (
            f"INSERT INTO commits (slot, last, at) VALUES ('{slot}', {number}, {NOW})"
            " ON CONFLICT (slot) DO UPDATE SET last = excluded.last, at = excluded.at; "
        )
        notices = "".join(f"NOTIFY {CHANNEL}, '{topic}'; " for topic in sorted(self.nudges))
        self._connection.execute(f"{sign}{notices}COMMIT".encode())


class ThreadConnection:
    """One thread's connection, and the slot in which it records its commits."""

    def __init__(self, url: str, process: str) -> None:
        self.connection = connect(url, process)
        self.slot = f"{process}-{secrets.token_hex(4)}"
        self.number = 0
        try:
            self.backend = self.connection.execute(MY_BACKEND).fetchall()[0]
        except BaseException:
            self.connection.close()
            raise

    def clear(self) -> None:
        """Undo the transaction in progress. If that fails, close the connection: the next
        transaction would become part of this one."""
        if self.connection.closed:
            return
        with contextlib.suppress(psycopg.Error):
            self.connection.execute(_ROLLBACK.encode())
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            self.connection.close()


class PostgresEngine:
    """An open PostgreSQL store: a few threads with one connection each."""

    def __init__(self, url: str, clock: Clock | None) -> None:
        self._url = url
        self._clock = clock
        self._local = threading.local()
        self.process = new_process_name()
        self.notifier = Notifier(self._watch, self._nudge)
        self._lifeline = Lifeline(self.process, self._connect)
        self._threads = Threads("segue-store", count=CONNECTIONS, run=self._run, done=self._hang_up)

    async def open(self) -> None:
        try:
            await self._lifeline.open(self.notifier.notify)
        except psycopg.Error as error:
            raise translate(error, self._url) from error

    async def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        call = StoreCall(lambda _: self._reading(lambda tx: work(tx, *args, **kwargs)), self._busy)
        return await self._threads.submit(call)

    async def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def run(_: object) -> T:
            result, later = self._writing(lambda tx: (work(tx, *args, **kwargs), tx.later))
            if later:
                call.then = partial(self.notifier.nudge_soon, later)
            return result

        call = StoreCall(run, self._busy)
        return await self._threads.submit(call)

    async def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        # Marks must be durable: the server can lose power while its clients keep running.
        return await self.write(work, *args, **kwargs)

    async def _nudge(self, topics: Iterable[str]) -> None:
        await self.write(_nudge_all, topics)

    async def close(self) -> None:
        await self.notifier.close()
        await self._threads.close()
        await self._lifeline.close()

    # In the threads

    def _busy(self) -> StoreError:
        return errors.busy(shown(self._url))

    def _run(self, calls: list[StoreCall]) -> list[CallResult]:
        return [self._one(call) for call in calls if call.begin()]

    def _one(self, call: StoreCall) -> CallResult:
        try:
            return CallResult(call, call.work(None))
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            return CallResult(call, error=translate(error, self._url))

    def _reading(self, work: Callable[[Tx], T]) -> T:
        def attempt() -> T:
            line = self._line()
            try:
                return work(self._begin(line, _BEGIN_READING))
            finally:
                line.clear()

        return self._again_if_cut_off(attempt)

    def _writing(self, work: Callable[[Tx], T]) -> T:
        for left in reversed(range(MAX_ATTEMPTS)):
            try:
                return self._again_if_cut_off(lambda: self._transact(work))
            except _RETRY:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def _again_if_cut_off(self, attempt: Callable[[], T]) -> T:
        """Retry once on a new connection if the old one broke since its last use: nothing was
        done."""
        try:
            return attempt()
        except _BREAKS:
            line: ThreadConnection | None = getattr(self._local, "line", None)
            if line is not None and not line.connection.closed:
                raise
            return attempt()

    def _begin(self, line: ThreadConnection, begin: str) -> PostgresTx:
        return PostgresTx(
            line.connection,
            self.process,
            self._clock,
            begin,
            was_cut_off=self._lifeline.was_cut_off,
        )

    def _transact(self, work: Callable[[Tx], T]) -> T:
        if not self._lifeline.wait():
            raise errors.unreachable(shown(self._url), self._lifeline.reason)
        line = self._line()
        try:
            tx = self._begin(line, _BEGIN)
            result = work(tx)
        except BaseException:
            line.clear()
            raise
        line.number += 1
        try:
            tx.commit(line.slot, line.number)
        except _BREAKS as error:
            if not line.connection.closed:
                line.clear()
                raise
            if self._committed(line, error):
                return result
            raise errors.failed(shown(self._url), reason_of(error)) from error
        except BaseException:
            line.clear()
            raise
        return result

    def _committed(self, line: ThreadConnection, error: psycopg.Error) -> bool:
        """Whether a COMMIT took effect although its response was lost."""
        for pause in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
            time.sleep(pause)
            try:
                with connect(self._url, self.process) as asking:
                    if _is_over(asking, line.backend):
                        sql = "SELECT last FROM commits WHERE slot = %s"
                        row = asking.execute(sql, (line.slot,)).fetchone()
                        return row is not None and row[0] == line.number
            except (psycopg.Error, StoreError):
                continue
        raise StoreUncertain(path=shown(self._url)) from error

    def _line(self) -> ThreadConnection:
        known: ThreadConnection | None = getattr(self._local, "line", None)
        if known is None or known.connection.closed:
            self._local.line = known = ThreadConnection(self._url, self.process)
        return known

    def _hang_up(self) -> None:
        line: ThreadConnection | None = getattr(self._local, "line", None)
        if line is not None:
            with contextlib.suppress(psycopg.Error):  # deleted later, by `prepare`
                line.connection.execute("DELETE FROM commits WHERE slot = %s", (line.slot,))
            line.connection.close()

    # Wake-ups

    async def _watch(self, notify: Notify) -> None:
        notify(None)
        if self._lifeline.keeping is not None:
            await asyncio.shield(self._lifeline.keeping)

    async def _connect(self) -> LimitedAsyncConnection:
        with connecting(self._url):
            name = application_name(self.process)
            return await LimitedAsyncConnection.connect(self._url, application_name=name, **OPTIONS)


def _nudge_all(tx: Tx, topics: Iterable[str]) -> None:
    for topic in topics:
        tx.nudge(Topic(topic))


def _is_over(asking: psycopg.Connection[Row], backend: Row) -> bool:
    """Terminate the server side of a broken connection. Return True once it is gone."""
    asking.execute(END_BACKEND, backend)
    sql = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
    return asking.execute(sql, backend).fetchone() is None


# Opening


async def open_postgres(url: str, clock: Clock | None) -> PostgresEngine:
    engine = PostgresEngine(url, clock)
    # First the lifeline, then the schema: a newer program that migrates the schema meanwhile sees
    # that this one is there.
    await engine.open()
    try:
        await asyncio.to_thread(prepare, url)
    except BaseException:
        await engine.close()
        raise
    return engine
