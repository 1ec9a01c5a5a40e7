"""Waking a waiter the moment there is something to do.

A committed change nudges: on SQLite one datagram to each listening process of the machine, on
PostgreSQL a NOTIFY. A nudge can get lost, so each engine also looks by itself now and then.
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

from segue.core.errors import StoreClosed

_PATH_LIMIT = 100  # bytes; the kernel's is 104 to 108


class Waiter:
    """One listener's wake-ups. Those that come while it is busy are remembered as one."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._error: BaseException | None = None

    def wake(self, error: BaseException | None = None) -> None:
        """There may be something new, or nothing will be heard any more because of `error`."""
        self._error = error or self._error
        self._woken.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """True once there may be something new; False after `seconds` without. Raises what
        keeps the store from being watched: a broken database must not look like an idle one."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        if self._error is not None:
            raise self._error
        self._woken.clear()
        return True


Ring = Callable[[Iterable[str] | None], None]
"""Called with the topics that changed, or None for any of them."""

Watch = Callable[[Ring], Coroutine[Any, Any, None]]
"""Watches a database and rings, until it is cancelled."""


class Bell:
    """All the listeners of one open store, and the source that rings for them."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._waiters: dict[Waiter, frozenset[str]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._shut = False

    @contextlib.asynccontextmanager
    async def listen(self, *topics: str) -> AsyncGenerator[Waiter]:
        """Hear of every change to `topics` from now on."""
        if self._shut:
            raise StoreClosed
        waiter = Waiter()
        self._waiters[waiter] = frozenset(topics)
        try:
            if self._watching is None:
                self._ready.clear()
                self._watching = asyncio.create_task(self._watch(self.ring))
                self._watching.add_done_callback(self._stopped)
            await self._ready.wait()
            yield waiter
        finally:
            del self._waiters[waiter]
            if not self._waiters:
                await self._rest()

    def ring(self, topics: Iterable[str] | None = None) -> None:
        """Wake the listeners of `topics`, or all of them. The first ring says: I am watching."""
        self._ready.set()
        changed = None if topics is None else frozenset(topics)
        for waiter, wanted in self._waiters.items():
            if changed is None or changed & wanted:
                waiter.wake()

    def _stopped(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (error := watching.exception()):
            self._watching = None  # the next to listen tries again
            self._ready.set()
            for waiter in self._waiters:
                waiter.wake(error)

    async def close(self) -> None:
        """Nothing will be heard any more; whoever waits is told."""
        self._shut = True
        for waiter in self._waiters:
            waiter.wake(StoreClosed())
        await self._rest()

    async def _rest(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])


class Mailbox:
    """A datagram socket in the run folder: how the processes of one machine nudge each other."""

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
        if sys.platform == "linux":  # a short name for the same folder
            return f"/proc/self/fd/{self._folder_fd}/{name}"
        return None  # the engine's own looking does it, a little slower

    def nudge(self, topics: Iterable[str]) -> list[str]:
        """Send `topics` to every listening process; return the names of those that are gone."""
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
                # What was committed stays so. A full mailbox belongs to somebody who has
                # wake-ups waiting already; whoever cannot be reached looks by themselves.
                continue
        return gone

    def _listeners(self) -> list[str]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - on the path of every nudge
        except OSError:
            return []
        return [name for name in names if name.endswith(self.SUFFIX)]

    @contextlib.asynccontextmanager
    async def receive(self, ring: Callable[[Iterable[str] | None], None]) -> AsyncGenerator[None]:
        """Call `ring` with the topics of each nudge while this is open."""
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
            loop.add_reader(inbox, _drain, inbox, ring)
            try:
                yield
            finally:
                loop.remove_reader(inbox)
                os.unlink(path)  # noqa: PTH108 - too quick to need a thread
        finally:
            inbox.close()


def _drain(inbox: socket.socket, ring: Ring) -> None:
    topics: set[str] = set()
    while True:
        try:
            topics.update(inbox.recv(1024).decode("ascii", "replace").split(","))
        except BlockingIOError:
            break
    ring(topics)
