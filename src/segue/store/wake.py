"""Wake-ups: listeners run the moment there is something to do.

A committed change sends a nudge: on SQLite a datagram to each listening process on the machine, on
PostgreSQL a NOTIFY. A nudge can get lost, so each engine also polls now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from segue.core.errors import StoreClosed, StoreError

SOON_SECONDS = 0.05
_PATH_LIMIT = 100  # bytes; the kernel's limit is 104 to 108


class Waiter:
    """One listener's wake-ups. Several that arrive while it is busy count as one."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._error: BaseException | None = None

    def wake(self, error: BaseException | None = None) -> None:
        """Signal that there may be a change, or that watching stopped because of `error`."""
        self._error = error or self._error
        self._woken.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Return True once there may be a change, or False after `seconds` without one. Raise the
        error that stopped the watching: a broken database must not look like an idle one."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        if self._error is not None:
            raise self._error
        self._woken.clear()
        return True


Notify = Callable[[Iterable[str] | None], None]
"""Called with the topics that changed, or None for all of them."""

Watch = Callable[[Notify], Coroutine[Any, Any, None]]
"""Watches a database and notifies, until it is cancelled."""

Nudge = Callable[[Iterable[str]], Coroutine[Any, Any, None]]
"""Sends a nudge to all processes."""


class Notifier:
    """All listeners of one open store, and the task that watches the database for them."""

    def __init__(self, watch: Watch, nudge: Nudge) -> None:
        self._watch = watch
        self._nudge = nudge
        self._later: set[str] = set()
        self._sending: asyncio.Task[None] | None = None
        self._waiters: dict[Waiter, frozenset[str]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._shut = False

    @contextlib.asynccontextmanager
    async def listen(self, *topics: str) -> AsyncGenerator[Waiter]:
        """Yield a Waiter that wakes for every change to `topics` from now on."""
        if self._shut:
            raise StoreClosed
        waiter = Waiter()
        self._waiters[waiter] = frozenset(topics)
        try:
            if self._watching is None:
                self._ready.clear()
                self._watching = asyncio.create_task(self._watch(self.notify))
                self._watching.add_done_callback(self._stopped)
            await self._ready.wait()
            yield waiter
        finally:
            del self._waiters[waiter]
            if not self._waiters:
                await self._rest()

    def notify(self, topics: Iterable[str] | None = None) -> None:
        """Wake the listeners of `topics`, or all of them. The first call also signals that watching
        has started."""
        self._ready.set()
        changed = None if topics is None else frozenset(topics)
        for waiter, wanted in self._waiters.items():
            if changed is None or changed & wanted:
                waiter.wake()

    def nudge_soon(self, topics: Iterable[str]) -> None:
        """Send a nudge after a short time, together with all others of that time."""
        self._later.update(topics)
        if self._sending is None and not self._shut:
            self._sending = asyncio.create_task(self._send_later())

    async def _send_later(self) -> None:
        try:
            await asyncio.sleep(SOON_SECONDS)
        finally:
            topics = self._later
            self._later = set[str]()
            self._sending = None
            with contextlib.suppress(StoreError, StoreClosed):  # a nudge can get lost
                await self._nudge(topics)

    def _stopped(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (error := watching.exception()):
            self._watching = None  # the next `listen` tries again
            self._ready.set()
            for waiter in self._waiters:
                waiter.wake(error)

    async def close(self) -> None:
        """Stop watching. Listeners that wait get StoreClosed."""
        self._shut = True
        if (sending := self._sending) is not None:
            sending.cancel()  # it sends what it has
            await asyncio.wait([sending])
        for waiter in self._waiters:
            waiter.wake(StoreClosed())
        await self._rest()

    async def _rest(self) -> None:
        watching = self._watching
        self._watching = None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])


class Mailbox:
    """A datagram socket in the run folder, through which the processes of a machine nudge each
    other."""

    SUFFIX = ".sock"

    def __init__(self, folder: Path, process: str) -> None:
        self._folder = folder
        self._name = process + self.SUFFIX
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)

    def close(self) -> None:
        self._sender.close()
        os.close(self._folder_fd)

    def _path(self, name: str) -> str | None:
        path = os.fspath(self._folder / name)
        if len(os.fsencode(path)) <= _PATH_LIMIT:
            return path
        if sys.platform == "linux":  # a shorter path to the same folder
            return f"/proc/self/fd/{self._folder_fd}/{name}"
        return None  # the engine polls instead, a little slower

    def nudge(self, topics: Iterable[str]) -> list[str]:
        """Send `topics` to every listening process. Return the names of those that are gone."""
        gone: list[str] = []
        payload = ",".join(topics).encode()
        for name in self._listeners():
            if (path := self._path(name)) is None:
                continue
            try:
                self._sender.sendto(payload, path)
            except (ConnectionRefusedError, FileNotFoundError):
                gone.append(name.removesuffix(self.SUFFIX))
            except OSError:
                # The change is committed all the same. A full mailbox means that its process
                # already has wake-ups to handle; a process that cannot be reached polls.
                continue
        return gone

    def _listeners(self) -> list[str]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - on the path of every nudge
        except OSError:
            return []
        return [name for name in names if name.endswith(self.SUFFIX)]

    @contextlib.asynccontextmanager
    async def receive(self, notify: Callable[[Iterable[str] | None], None]) -> AsyncGenerator[None]:
        """Call `notify` with the topics of each nudge while this context is open."""
        path = self._path(self._name)
        if path is None:
            yield
            return
        loop = asyncio.get_running_loop()
        inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            inbox.setblocking(False)
            inbox.bind(path)
            os.chmod(path, 0o600)  # noqa: PTH101 - so that our own processes reach it
            loop.add_reader(inbox, _drain, inbox, notify)
            try:
                yield
            finally:
                loop.remove_reader(inbox)
                os.unlink(path)  # noqa: PTH108 - too quick to need a thread
        finally:
            inbox.close()


def _drain(inbox: socket.socket, notify: Notify) -> None:
    topics: set[str] = set()
    while True:
        try:
            topics.update(inbox.recv(1024).decode("ascii", "replace").split(","))
        except BlockingIOError:
            break
    notify(topics)
