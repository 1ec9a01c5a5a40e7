"""Runs commands, and ends all that they started, also what left its process group.

This file is a program, which `launcher` runs, so it imports nothing but the standard library. It
forks for every command, which takes a fraction of the time that a new interpreter would. The fork
supervises one command: on Linux it adopts every process that the command leaves behind (it is their
"subreaper"), however often they fork, so it can find and end them, and knows when none is left.

    supervisor.py DESCRIPTOR

Over the socket DESCRIPTOR comes one byte for each command, with two descriptors: a channel, and
where the command writes to. Over the channel come a line with the length of the request, and the
request: directory, command and environment, with NULs between them. Back goes a line: the exit
code, or `!` with the number of an error and the file it is about. `t` asks all of the command to
end; `k`, or the end of the channel, kills it. The channel ends when nothing is left.
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
_LOOK = 50
"""Milliseconds between two attempts to kill what is left."""
_MOST_LOOKS = 100
"""After so many it is left alone: it belongs to another account, or waits for a broken disk."""


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
    """What makes this process adopt the orphans below it, where the system has that."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class _Supervisor:
    """Looks after one command."""

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
        os.close(self._output)  # it ends with those that write to it
        self._supervise(woken)

    def _start(self) -> None:
        with self._channel.makefile("rb") as request:
            cwd, command, *environment = request.read(int(request.readline())).split(b"\0")
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
        """Return when nothing is left."""
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        looks = 0
        while self._is_anything_left() and looks < _MOST_LOOKS:
            ready = {descriptor for descriptor, _ in poll.poll(_LOOK if looks else None)}
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
        """Take notice of what has ended."""
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
        # They may have ended, or belong to another account by now, by sudo for example.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._shell, number)
        for process in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)


def _wake_on_children() -> int:
    """A descriptor that can be read after a child has ended."""
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _ignore)
    return woken


def _ignore(number: int, frame: object) -> None:
    """The descriptor can be read; that is enough."""


def _descendants(ancestor: int) -> Iterator[int]:
    """All below `ancestor`, where the system shows them."""
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
        with contextlib.suppress(OSError):  # it is gone
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
            yield int(name), int(fields[1])


if __name__ == "__main__":
    main()
