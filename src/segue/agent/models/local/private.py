"""Files that only this user can access, and locks on them.

The kernel releases a lock no matter how its process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

_POLL_SECONDS = 0.05
"""Seconds between two attempts to take a lock."""


def make_folder(folder: Path) -> None:
    """Create a folder that only this user can access, even with an unusual umask."""
    if not folder.is_dir():
        folder.mkdir(0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def open_file(path: Path, flags: int = 0) -> int:
    """Open or create a file that only this user can access, from the moment it exists."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def write(path: Path, text: str) -> None:
    """Replace the content of `path` atomically. Readers see the old content or all of `text`."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(open_file(new, os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def lock(fd: int, *, shared: bool = False) -> bool:
    """Try to take the lock until the last copy of `fd` is closed. Return True on success."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def locked(path: Path) -> bool:
    """True if another process holds the lock on `path`."""
    fd = open_file(path)
    try:
        return not lock(fd)
    finally:
        os.close(fd)


@contextlib.asynccontextmanager
async def holding(
    path: Path, *, shared: bool = False, waiting: Callable[[], None] | None = None
) -> AsyncGenerator[int]:
    """Wait for the lock on `path` and hold it. `waiting` is called repeatedly while it waits."""
    fd = open_file(path)
    try:
        while not lock(fd, shared=shared):
            if waiting is not None:
                waiting()
            await asyncio.sleep(_POLL_SECONDS)
        yield fd
    finally:
        os.close(fd)
