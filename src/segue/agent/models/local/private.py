"""Files for one person alone, and locks on them, which the kernel frees however a process ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

_LOOK = 0.05
"""Seconds between two looks at a lock that somebody else holds."""


def make_folder(folder: Path) -> None:
    """A folder that nobody else may look into, even under an odd umask."""
    if not folder.is_dir():
        folder.mkdir(0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def open_file(path: Path, flags: int = 0) -> int:
    """A descriptor of a file that nobody else may read, from its first moment."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def write(path: Path, text: str) -> None:
    """Make `path` hold `text`: whoever reads it sees all of it, or what was there before."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(open_file(new, os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def lock(fd: int, *, shared: bool = False) -> bool:
    """Whether the lock is ours now. It lasts until the last copy of `fd` is closed."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def locked(path: Path) -> bool:
    """Whether somebody holds the lock on `path`."""
    fd = open_file(path)
    try:
        return not lock(fd)
    finally:
        os.close(fd)


@contextlib.asynccontextmanager
async def holding(
    path: Path, *, shared: bool = False, waiting: Callable[[], None] | None = None
) -> AsyncGenerator[int]:
    """Hold the lock on `path`, as soon as it can be had; `waiting` is called until then."""
    fd = open_file(path)
    try:
        while not lock(fd, shared=shared):
            if waiting is not None:
                waiting()
            await asyncio.sleep(_LOOK)
        yield fd
    finally:
        os.close(fd)
