"""Which processes on this machine have the store open, according to the kernel, not a clock.

Each opening of the store holds an flock on a lock file. The kernel frees it however the process
ends, so other processes need not wait for a lease to expire.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from pathlib import Path

_SUFFIX = ".lock"


def new_process_name() -> str:
    """A unique name for an opening of the store, readable in logs: machine, process id, random
    part."""
    return f"{machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def machine() -> str:
    """This machine's name, as used in process names."""
    return "".join(c for c in socket.gethostname() if c.isalnum() or c in "-.")[:24]


def whose(process: str) -> tuple[str, int]:
    """The machine and the process id in a process name."""
    machine, pid, _ = process.rsplit("-", 2)
    return machine, int(pid)


def open_private(path: Path) -> int:
    """Open a file that only this user can access, from the moment it is created."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.fchmod(fd, 0o600)  # regardless of the umask
    return fd


class Processes:
    """The lock files in the run folder of one store."""

    def __init__(self, folder: Path, me: str) -> None:
        self.me = me
        self._folder = folder
        self._path = folder / (me + _SUFFIX)
        self._fd = open_private(self._path)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def dead(self, process: str) -> bool:
        """Whether `process` has ended. If it has, remove its files."""
        if process == self.me:
            return False
        path = self._folder / (process + _SUFFIX)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except PermissionError:
            return False  # another user's process: we cannot know
        try:
            # Shared, so that two processes that ask at the same time do not see each other's lock.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            (self._folder / (process + ".sock")).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            return True
        finally:
            os.close(fd)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)
