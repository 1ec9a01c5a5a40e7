"""Locks on files, between processes.

The kernel frees a lock when the last copy of its descriptor is closed, however its holder ends, so
none is ever left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from segue.system import files

_POLL_SECONDS = 0.02


def lock(fd: int) -> None:
    """Wait for the lock on an open file, and take it."""
    fcntl.flock(fd, fcntl.LOCK_EX)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Take the lock on an open file unless that is impossible now. Return whether it is taken."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)


def is_locked(path: Path) -> bool:
    """Whether the private file is locked. It is created if needed."""
    fd = files.open_file(path)
    try:
        return not try_lock(fd)
    finally:
        os.close(fd)


@contextlib.asynccontextmanager
async def locked(
    path: Path, *, shared: bool = False, waiting: Callable[[], None] | None = None
) -> AsyncGenerator[int]:
    """Hold the lock on a private file, which is created if needed, and yield its descriptor.
    `waiting` is called repeatedly until the lock is free."""
    fd = files.open_file(path)
    try:
        while not try_lock(fd, shared=shared):
            if waiting is not None:
                waiting()
            await asyncio.sleep(_POLL_SECONDS)
        yield fd
    finally:
        os.close(fd)
