"""The lock that shows that one opening of a PostgreSQL store is alive.

Each opening holds an advisory lock on a dedicated connection, which also listens for wake-ups. The
server frees the lock as soon as the process ends, however it ends, so other processes need not wait
for a lease to expire. A process that is frozen or cut off keeps its lock: only its missed
heartbeats reveal it.

The connection can also break while the process lives: the server restarts, or the network fails.
The process then writes nothing until it holds the lock again. A restart cuts off all processes at
once, so for GRACE_SECONDS after a process was cut off it declares no other process dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from segue.core.errors import StoreError
from segue.store.connections import LimitedAsyncConnection
from segue.store.wake import Notify
from segue.system.backoff import Backoff

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
