"""Files and folders that are being made: each under a unique name, and locked as long as its maker
lives.

The kernel frees the lock however the maker ends. What has a free lock was left behind, and the next
maker in the same folder removes it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO

from segue.store import errors
from segue.system import files, locks

_FOLDER = ".parts"
_FILE = ".segue-part"
_LOCK = "lock"


class StagingFolder:
    """A private folder in `place` for the parts of a backup; `parts` is empty at first."""

    def __init__(self, place: Path, purpose: str) -> None:
        remove_leftovers(place)
        try:
            self._make(place, purpose)
        except OSError as error:
            raise errors.backup_unwritable(place, error.strerror or error) from error

    def _make(self, place: Path, purpose: str) -> None:
        while True:
            self._folder = Path(tempfile.mkdtemp(prefix=f".{purpose}-", suffix=_FOLDER, dir=place))
            fd = _locked(self._folder / _LOCK)
            if fd is not None:
                break
        self._fd = fd
        self.parts = self._folder / "parts"
        self.parts.mkdir(0o700)

    def remove(self) -> None:
        """Remove the folder. What cannot be removed now is a leftover."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._fd)


@contextlib.contextmanager
def part_of(path: Path) -> Generator[tuple[Path, IO[bytes]]]:
    """Open a new private file beside `path` for writing. Yield its name too. The caller gives it
    the name `path`; otherwise it is removed."""
    remove_leftovers(path.parent)
    while True:
        part = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}{_FILE}")
        fd = _locked(part)
        if fd is not None:
            break
    with os.fdopen(fd, "wb") as file:
        try:
            yield part, file
        finally:
            part.unlink(missing_ok=True)


def remove_leftovers(place: Path) -> None:
    """Remove what programs that were killed left in the folder."""
    for folder in place.glob(f".*-*{_FOLDER}"):
        _remove_leftover(folder, folder / _LOCK)
    for file in place.glob(f".*{_FILE}"):
        _remove_leftover(file, file)


def _remove_leftover(path: Path, lock: Path) -> None:
    with contextlib.suppress(OSError):  # its maker lives, or it is another user's
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            return
        fd = files.open_file(lock)
        try:
            if not locks.try_lock(fd) or not _is_named(fd, lock):
                return
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        finally:
            os.close(fd)


def _locked(path: Path) -> int | None:
    """Make and lock a file. Return None if another process took it for a leftover."""
    try:
        fd = files.open_file(path)
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):  # a file system without locks: no leftover is found on it
        locks.lock(fd)
    if _is_named(fd, path):
        return fd
    os.close(fd)
    return None


def _is_named(fd: int, path: Path) -> bool:
    """Return whether the open file still has this name."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)
