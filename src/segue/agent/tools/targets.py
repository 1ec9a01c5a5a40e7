"""Pins files by identity, so that the file that was approved is the file that is used.

A path is resolved once. After that no link is followed: a file is reached folder by folder, and
compared by device and inode before it is read. Before it is replaced or sent, it must not have
changed either: a new file may get the inode of a deleted one, but not its timestamps.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Generator
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from segue.agent.tools.base import ToolFailed
from segue.system import files

# O_PATH, where available, opens a folder without permission to list it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_VERSION = attrgetter("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")


class TargetChanged(ToolFailed):
    """A different file is in the place of the one that was approved."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not the file that it was when this was approved, so nothing was done. "
            "Look at it again, and repeat the call if it is still right."
        )


class Target(Struct, frozen=True):
    """The file that a path led to when it was resolved."""

    path: Path
    """Without links."""
    folder: os.stat_result | None
    """The innermost folder that existed, or None if it could not be reached."""
    names: tuple[str, ...]
    """The path from that folder to the file."""
    file: os.stat_result | None
    """None if it did not exist."""

    @property
    def place(self) -> str:
        """Identifies the path and its folder. Stays the same if the file is replaced."""
        return f"{self.path}\0{_identity(self.folder)}"

    @property
    def exact(self) -> str:
        """Like `place`, and also identifies the file."""
        return f"{self.place}\0{_identity(self.file)}"

    @property
    def version(self) -> str:
        """Like `place`, and also identifies the file and its content."""
        return f"{self.place}\0{_version(self.file)}"

    @contextlib.contextmanager
    def opened(self) -> Generator[int]:
        """Open the file for reading. Raise TargetChanged if it is a different file, or OSError."""
        if self.file is not None and not _is_readable(self.file):
            # Opening a device can have effects of its own.
            raise OSError(errno.EINVAL, "it is not an ordinary file")
        with self._parent() as folder:
            file = os.open(self.names[-1], _READ, dir_fd=folder)
        try:
            if _identity(os.fstat(file)) != _identity(self.file):
                raise TargetChanged(self.path)
            yield file
        finally:
            os.close(file)

    def put(self, content: bytes) -> None:
        """Write `content` as the whole file. An existing file is replaced atomically and keeps its
        mode. Its other names (hard links) and its extended attributes are lost."""
        known = self.file
        if known is not None and not stat.S_ISREG(known.st_mode):
            raise ToolFailed(f"{self.path} is not an ordinary file.")
        name = self.names[-1]
        with self._parent(make=True) as folder:
            if known is None:
                self._create(folder, content)
                return
            # A short name, because the file's own name may already have the maximum length.
            beside = f".segue-{secrets.token_hex(8)}"
            try:
                with os.fdopen(os.open(beside, _CREATE, 0o600, dir_fd=folder), "wb") as file:
                    with contextlib.suppress(PermissionError):
                        os.fchown(file.fileno(), known.st_uid, known.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
                    file.write(content)
                    files.sync(file)
                self.require_unchanged(os.stat(name, dir_fd=folder, follow_symlinks=False))
                os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=folder)
                raise

    def _create(self, folder: int, content: bytes) -> None:
        name = self.names[-1]
        try:
            created = os.open(name, _CREATE, 0o666, dir_fd=folder)
        except FileExistsError:
            raise TargetChanged(self.path) from None
        try:
            with os.fdopen(created, "wb") as file:
                file.write(content)
                files.sync(file)
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise

    @contextlib.contextmanager
    def _parent(self, *, make: bool = False) -> Generator[int]:
        """Open the folder of the file. `make` creates missing folders."""
        folder, names = _descend(self.path)
        try:
            found = (_identity(os.fstat(folder)), names)
            if found != (_identity(self.folder), self.names):
                raise TargetChanged(self.path)
            for name in names[:-1]:
                if not make:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                os.mkdir(name, dir_fd=folder)
                outer = folder
                folder = os.open(name, _FOLDER, dir_fd=folder)
                os.close(outer)
            yield folder
        finally:
            os.close(folder)

    def require_unchanged(self, found: os.stat_result) -> None:
        """Raise TargetChanged if `found` is another file, or has other content or another mode."""
        if _version(found) != _version(self.file):
            raise TargetChanged(self.path)


def aim(path: Path) -> Target:
    """Resolve `path` now. Problems are reported when the target is used."""
    real = Path(os.path.realpath(path))
    try:
        folder, names = _descend(real)
    except OSError:
        return Target(real, None, real.parts, None)
    try:
        file = None
        with contextlib.suppress(OSError):
            file = os.stat("/".join(names), dir_fd=folder, follow_symlinks=False)
        return Target(real, os.fstat(folder), names, file)
    finally:
        os.close(folder)


def _descend(path: Path) -> tuple[int, tuple[str, ...]]:
    """Open the innermost existing folder of an absolute path, and return its descriptor and the
    remaining names. Raise OSError if a folder on the way is a link."""
    names = path.parts[1:] or (".",)
    folder = os.open("/", _FOLDER)
    try:
        for depth, name in enumerate(names[:-1]):
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                return folder, names[depth:]
            outer = folder
            folder = inner
            os.close(outer)
    except BaseException:
        os.close(folder)
        raise
    return folder, names[-1:]


def _is_readable(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode)


def _identity(found: os.stat_result | None) -> tuple[int, ...] | None:
    return found and (found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode))


def _version(found: os.stat_result | None) -> tuple[int, ...] | None:
    return found and _VERSION(found)
