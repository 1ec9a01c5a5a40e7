"""Starts commands under a supervisor, which can stop everything they start. See `supervisor`."""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from segue.agent.tools import supervisor


class RunningCommand:
    """A running command."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._code: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._following = asyncio.create_task(self._follow(reader))

    async def exit_code(self) -> int | None:
        """Wait for the command to end, and return its exit code, or None if its supervisor was
        killed. Raise OSError if the command could not be started."""
        return await asyncio.shield(self._code)

    async def wait(self) -> None:
        """Wait until all its processes have ended."""
        await asyncio.shield(self._following)

    def terminate(self) -> None:
        """Send SIGTERM to all its processes."""
        self._writer.write(b"t")

    def kill(self) -> None:
        """Kill all its processes."""
        self._writer.write(b"k")

    def close(self) -> None:
        """Release the command. Processes that are still running are killed."""
        self._following.cancel()
        self._writer.close()

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        try:
            line = os.fsdecode(await reader.readline()).rstrip("\n")
            if line.startswith("!"):
                number, _, name = line[1:].partition(" ")
                error = OSError(int(number), os.strerror(int(number)), name or None)
                self._code.set_exception(error)
            else:
                self._code.set_result(int(line) if line else None)
            await reader.read()
        except ConnectionError:
            pass
        finally:
            if not self._code.done():
                self._code.set_result(None)


async def launch(
    command: str, cwd: Path, environment: Mapping[str, str], output: int
) -> RunningCommand:
    """Start `command`, which writes to `output`. Raise OSError if there is no supervisor."""
    entries = (f"{name}={value}" for name, value in environment.items())
    request = b"\0".join(map(os.fsencode, (cwd, command, *entries)))
    ours, theirs = socket.socketpair()
    with theirs:
        _hand_over(theirs.fileno(), output)
    ours.setblocking(False)
    try:
        whole = b"%d\n%b" % (len(request), request)
        await asyncio.get_running_loop().sock_sendall(ours, whole)
        return RunningCommand(*await asyncio.open_connection(sock=ours))
    except BaseException:
        ours.close()
        raise


_control: socket.socket | None = None
"""The connection to the supervisors of this process. They exit when it is closed."""


def _hand_over(*descriptors: int) -> None:
    """Send the descriptors to a new supervisor. The process that forks supervisors is started if
    needed, and replaced if it is gone."""
    global _control  # noqa: PLW0603 - a process needs one
    if _control is not None:
        try:
            socket.send_fds(_control, [b"c"], descriptors)
        except ConnectionError:
            _control.close()
        else:
            return
    _control = _started()
    socket.send_fds(_control, [b"c"], descriptors)


def _started() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.run(
            # -I and -S: no imports from the working directory, the environment or packages.
            [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # keys such as Ctrl-C in our terminal do not reach it
            check=True,
        )
    atexit.register(ours.close)
    return ours
