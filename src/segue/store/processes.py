"""Which processes of this machine have the store open, told by the kernel rather than a clock.

Each opening of the store holds an flock on a file of its own. The kernel frees it however the
process ends, so the next one need not wait for a lease to run out.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from pathlib import Path

_SUFFIX = ".lock"


def new_process_name() -> str:
    """A name that no other opening of the store has had, and that tells a person which it is."""
    return f"{machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def machine() -> str:
    """This machine, as the names of its processes tell it."""
    return "".join(c for c in socket.gethostname() if c.isalnum() or c in "-.")[:24]


def whose(process: str) -> tuple[str, int]:
    """The machine and the process id that a name tells."""
    machine, pid, _ = process.rsplit("-", 2)
    return machine, int(pid)


def open_private(path: Path) -> int:
    """A descriptor of a file that nobody else may read, from its first moment."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.fchmod(fd, 0o600)  # even under an odd umask
    return fd


class Processes:
    """The lock files of one store's run folder."""

    def __init__(self, folder: Path, me: str) -> None:
        self.me = me
        self._folder = folder
        self._path = folder / (me + _SUFFIX)
        self._fd = open_private(self._path)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def dead(self, process: str) -> bool:
        """Whether `process` has ended. What it left behind is removed."""
        if process == self.me:
            return False
        path = self._folder / (process + _SUFFIX)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except PermissionError:
            return False  # another account's, which is more than can be known from here
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
