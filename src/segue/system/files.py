"""Private files and folders: what Segue keeps may hold conversations or keys, so only its user can
access it, from the moment it exists and whatever the umask is.

A file is replaced in one step. A reader sees the old content or all of the new one, and so does the
next start after a power cut.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO


def make_folder(folder: Path) -> None:
    """Create a private folder, with its parents. One that exists is left as it is."""
    if not folder.is_dir():
        make_private_folder(folder)


def make_private_folder(folder: Path, *, parents: bool = True) -> None:
    """Create a private folder, with its parents if asked. One that exists becomes private."""
    folder.mkdir(0o700, parents=parents, exist_ok=True)
    if folder.stat().st_mode & 0o777 != 0o700:  # changed by hand, or made under an odd umask
        folder.chmod(0o700)


def open_file(path: Path, flags: int = 0) -> int:
    """Open a private file for reading and writing, and create it if needed. Symbolic links are not
    followed. `flags` are more of those of `os.open`."""
    return opener(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | flags)


def opener(path: str | Path, flags: int) -> int:
    """Open a private file. For the parameter of `open` that has this name."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return fd


@contextlib.contextmanager
def new_file(path: Path) -> Generator[IO[bytes]]:
    """Create a private file, or raise FileExistsError. It is removed again on error."""
    fd = opener(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace the content of `path`, which need not exist."""
    with replacement(path, durable=durable) as file:
        file.write(content)


@contextlib.contextmanager
def replacement(path: Path, *, durable: bool = True) -> Generator[IO[bytes]]:
    """Yield a private file that replaces `path` when it is complete. Symbolic links are followed
    and kept. Unless it is `durable`, it may be empty after a power cut."""
    path = Path(os.path.realpath(path))
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)
            yield file
            if durable:
                sync(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync(file: IO[bytes]) -> None:
    """Wait until what was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in the folder are on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
