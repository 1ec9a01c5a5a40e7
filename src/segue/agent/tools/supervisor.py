"""Runs commands, and stops everything they started, even outside their process group.

This file is a program that `shell` runs, so it imports only the standard library. It forks for
every command, which takes a fraction of the time of starting an interpreter. Each fork supervises
one command. On Linux it adopts every process that the command leaves behind (it is their
"subreaper"), however often they fork. So it can find and stop them, and knows when none are left.

    supervisor.py DESCRIPTOR

The socket DESCRIPTOR receives one byte per command, with two descriptors: a channel, and the output
of the command. The channel receives a line with the length of the request, then the request:
directory, command and environment, separated by NULs. The supervisor replies with a line: the exit
code, or `!` with an error number and the file concerned. After that, `t` sends SIGTERM to all
processes of the command, and `k` or closing the channel kills them. The channel closes when no
process is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator

_PR_SET_CHILD_SUBREAPER = 36
_POLL_MS = 50
"""Milliseconds between two attempts to kill the remaining processes."""
_MAX_POLLS = 100
"""The number of attempts. A process that is left then belongs to another account, or waits for a
broken disk."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    if os.fork():  # so that the caller need not wait for us
        os._exit(0)
    adopt = _adopting()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while received := socket.recv_fds(control, 1, 2):
        data, descriptors, _, _ = received
        if not data:
            return
        if os.fork() == 0:
            control.close()
            adopt()
            _Supervisor(socket.socket(fileno=descriptors[0]), descriptors[1]).run()
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _adopting() -> Callable[[], object]:
    """A function that makes this process adopt orphaned descendants, where that is supported."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class _Supervisor:
    """Supervises one command."""

    def __init__(self, channel: socket.socket, output: int) -> None:
        channel.set_inheritable(False)
        os.set_inheritable(output, False)
        self._channel = channel
        self._output = output
        self._shell = 0

    def run(self) -> None:
        woken = _wake_on_children()
        try:
            self._start()
        except OSError as error:
            self._tell(f"!{error.errno} {error.filename or ''}")
            return
        os.close(self._output)  # so that the output ends with its last writer
        self._supervise(woken)

    def _start(self) -> None:
        # No buffer: it would swallow the byte after the request, which stops the command.
        with self._channel.makefile("rb", buffering=0) as channel:
            length = int(channel.readline())
        request = self._channel.recv(length, socket.MSG_WAITALL)
        cwd, command, *environment = request.split(b"\0")
        os.chdir(cwd)
        nothing = os.open(os.devnull, os.O_RDONLY)
        self._shell = os.posix_spawn(
            "/bin/sh",
            [b"/bin/sh", b"-c", command],
            dict(entry.split(b"=", 1) for entry in environment),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing, 0),
                (os.POSIX_SPAWN_DUP2, self._output, 1),
                (os.POSIX_SPAWN_DUP2, self._output, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGCHLD, signal.SIGPIPE],
        )

    def _supervise(self, woken: int) -> None:
        """Return when no process is left."""
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        looks = 0
        while self._is_anything_left() and looks < _MAX_POLLS:
            ready = {descriptor for descriptor, _ in poll.poll(_POLL_MS if looks else None)}
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 1024)
            if self._channel.fileno() in ready and looks == 0:
                if self._channel.recv(1) == b"t":
                    self._signal(signal.SIGTERM)
                else:
                    poll.unregister(self._channel)
                    looks = 1
            if looks:
                self._signal(signal.SIGKILL)
                looks += 1

    def _is_anything_left(self) -> bool:
        """Reap ended processes, report the command's exit code, and return True if any are left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            if process == self._shell:
                self._tell(str(os.waitstatus_to_exitcode(status)))

    def _tell(self, line: str) -> None:
        with contextlib.suppress(ConnectionError):
            self._channel.sendall(os.fsencode(f"{line}\n"))

    def _signal(self, number: signal.Signals) -> None:
        # They may have ended, or belong to another account by now, for example through sudo.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._shell, number)
        for process in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)


def _wake_on_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _ignore)
    return woken


def _ignore(number: int, frame: object) -> None:
    """Do nothing: the wakeup descriptor is readable now."""


def _descendants(ancestor: int) -> Iterator[int]:
    """All descendants of `ancestor`, if the system lists processes."""
    children: dict[int, list[int]] = {}
    for process, parent in _parents():
        children.setdefault(parent, []).append(process)
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        yield from below


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib takes a while
    except OSError:
        return
    for name in filter(str.isdecimal, names):
        with contextlib.suppress(OSError):  # the process has ended
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
            yield int(name), int(fields[1])


if __name__ == "__main__":
    main()
