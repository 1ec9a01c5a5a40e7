"""Which processes on this machine have the store open, according to the kernel, not a clock.

Each opening of the store holds an flock on a lock file. The kernel frees it however the process
ends, so other processes need not wait for a lease to expire.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from segue.store import database
from segue.system import files, locks

_SUFFIX = ".lock"
_GATEWAY = re.compile(
    r"(segue|(-\w+ )*-m segue) gateway run\b"
    r"|(-\w+ )*-m segue\.cli\.(daemon|detached)\b"  # detached: one that an older version started
)
"""The beginning of a gateway's command line, as far as `command_line` returns it."""


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


class OpenProcess(Struct, frozen=True, kw_only=True):
    """A live program that has the store open."""

    where: str
    """Empty for this machine."""
    pid: int | None
    """None if it is not known."""
    since: datetime
    doing: str
    """Its command line, or what it does in other words. May be empty."""

    @property
    def is_gateway(self) -> bool:
        return _GATEWAY.match(self.doing) is not None

    def described(self) -> str:
        what = f"`{self.doing}`" if self.doing else "a Segue program"
        if self.is_gateway:
            what = "the gateway"
        where = f" on {self.where}" if self.where else ""
        pid = f"process {self.pid}, " if self.pid is not None else ""
        return f"{what}{where} ({pid}since {self.since:%Y-%m-%d %H:%M} UTC)"


def running(processes: Sequence[OpenProcess]) -> str:
    """Which programs are running, in a sentence."""
    listed = ", ".join(process.described() for process in processes)
    return f"Running: {listed}."


def way_out(processes: Sequence[OpenProcess], *, stops_gateway: bool = False) -> str:
    """How to stop them, in words that end a sentence.

    `stops_gateway`: this program can open the store, so it can stop the gateway.
    """
    if any(process.pid is None for process in processes):
        return "Close every older Segue program, also on other machines"
    here = [process for process in processes if not process.where]
    others = [str(it.pid) for it in here if not (stops_gateway and it.is_gateway)]
    ways: list[str] = []
    if len(others) < len(here):
        ways.append("Type `segue gateway stop`")
    if others:
        ways.append(f"Type `kill {' '.join(others)}`, which lets it finish what it is doing")
    if len(here) < len(processes):
        ways.append("Stop those on other machines there")
    return ". ".join(ways)


def older(folder: Path) -> list[OpenProcess]:
    """The live programs with an older schema, according to the lock files in `folder`."""
    return _open(folder, database.LATEST)


def alive(folder: Path) -> list[OpenProcess]:
    """The live programs of any version, according to the lock files in `folder`."""
    return _open(folder, sys.maxsize)


def _open(folder: Path, before: int) -> list[OpenProcess]:
    found = [_open_process(path, before) for path in sorted(folder.glob(f"*-*-*{_SUFFIX}"))]
    return [process for process in found if process is not None]


def _open_process(path: Path, before: int) -> OpenProcess | None:
    """The program with this lock file, if it lives and its schema is lower than `before`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # it has just ended, or another user wrote it: we cannot know
    try:
        if _schema(os.read(fd, 64)) >= before or locks.try_lock(fd, shared=True):
            return None
        since = datetime.fromtimestamp(os.fstat(fd).st_mtime, UTC)
    finally:
        os.close(fd)
    _, pid = whose(path.name.removesuffix(_SUFFIX))
    return OpenProcess(where="", pid=pid, since=since, doing=command_line(pid))


def _schema(content: bytes) -> int:
    """The schema of the process. The oldest programs leave their lock files empty."""
    return int(content) if content.strip().isdigit() else 0


def command_line(pid: int) -> str:
    """The command line of a process of this machine, as far as it is known."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    names = [Path(words[0]).name, *words[1:]]
    if len(names) > 1 and names[0].startswith("python"):  # the interpreter says nothing
        names = [Path(names[1]).name, *names[2:]]
    return " ".join(names).strip()


class Processes:
    """The lock files in the run folder of one store."""

    def __init__(self, folder: Path, me: str) -> None:
        self.me = me
        self._folder = folder
        self._path = folder / (me + _SUFFIX)
        self._fd = files.open_file(self._path)
        # Before the lock, so that a newer program that finds the lock also finds this.
        os.write(self._fd, f"{database.LATEST}\n".encode())
        locks.lock(self._fd)

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
            if not locks.try_lock(fd, shared=True):
                return False
            (self._folder / (process + ".sock")).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            return True
        finally:
            os.close(fd)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)
