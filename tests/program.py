"""The program in a separate process, forked from one that has already imported all of it.

Starting Python for each process would take most of the tests' time. Tests of behaviour that depends
on how Python starts (its options, the encoding of its streams) need a real start.

Tests need not wait for time to pass: the environment can name a `SharedClock`, and new values for
constants; see `constants`.

A gateway that the program starts in the background is forked from the same process, unless its
environment has `REAL_START`.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from multiprocessing import forkserver, popen_forkserver, reduction
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, NamedTuple, TextIO, cast

import segue
import segue.store
from segue.cli.main import main
from segue.core.session import SECOND, Ticks
from segue.gateway import background
from segue.store.base import SystemClock

REAL_START = {"TESTS_REAL_START": "1"}
"""An environment in which background gateways start as they do for users."""
PATH = f"{Path(sys.prefix) / 'bin'}:/usr/bin:/bin"
"""The PATH of a user who has installed the program."""
_CLOCK = "TESTS_CLOCK"
_CONSTANTS = "TESTS_CONSTANTS"
PROCESSES = multiprocessing.get_context("forkserver")
"""The only fork server of the tests, because it can preload only one list of modules."""
PROCESSES.set_forkserver_preload(["tests.harness.preload", __name__])


class SharedClock(SystemClock):
    """A clock for the stores of several processes, which a test advances in all of them at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.environment = {_CLOCK: str(path)}

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._ahead())

    def ticks(self) -> Ticks:
        return Ticks(super().ticks() + int(self._ahead() * SECOND))

    def advance(self, seconds: float) -> None:
        """Advance the stores' clock."""
        beside = self._path.with_suffix(".new")
        beside.write_text(str(self._ahead() + seconds))
        beside.rename(self._path)

    def _ahead(self) -> float:
        try:
            return float(self._path.read_text())
        except FileNotFoundError:
            return 0.0


def constants(values: Mapping[str, float | str]) -> dict[str, str]:
    """Return an environment that overrides constants of modules and classes, such as
    `segue.gateway.janitor.POLL_SECONDS`.

    A string value names an object to import, as `module:function`.
    """
    return {_CONSTANTS: json.dumps(values)}


class Program:
    """A running process, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("segue", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def stop(self) -> None:
        """Send SIGSTOP and wait until all threads are stopped: one may be about to take a lock."""
        self.send_signal(signal.SIGSTOP)
        while {_state(thread) for thread in Path(f"/proc/{self.pid}/task").iterdir()} != {"T"}:
            time.sleep(0.001)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _state(thread: Path) -> str:
    """The kernel's state letter of a thread: T if it is stopped.

    A thread that is gone counts as T.
    """
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"


def start(
    *arguments: str,
    environment: Mapping[str, str],
    cwd: Path | str,
    output: int,
    errors: int,
    given: int | None = None,
    terminal: bool = False,
) -> Program:
    """Start `segue` with these arguments. Its standard input is `given`, or empty.

    With `terminal`, `given` becomes its controlling terminal.
    """
    files = _Files([output, errors] if given is None else [output, errors, given])
    forkserver.ensure_running()
    started = _Start(arguments, dict(environment), str(cwd), files, terminal, _server_address())
    process = PROCESSES.Process(target=_main, args=(started,), daemon=True)
    process.start()
    return Program(process)


def run(
    *arguments: str,
    environment: Mapping[str, str],
    cwd: Path | str,
    given: bytes = b"",
    timeout: float = 55,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, without a terminal."""
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryFile() as written,
    ):
        written.write(given)
        written.seek(0)
        program = start(
            *arguments,
            environment=environment,
            cwd=cwd,
            output=output.fileno(),
            errors=errors.fileno(),
            given=written.fileno(),
        )
        try:
            code = program.wait(timeout)
        finally:
            program.kill()
        told = [_whole(file) for file in (output, errors)]
    return subprocess.CompletedProcess(["segue", *arguments], code, *told)


def _whole(file: Any) -> str:
    file.seek(0)
    return file.read().decode()


class _Files:
    """File descriptors to pass to the new process."""

    def __init__(self, files: Sequence[int]) -> None:
        self._files = files

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return list, ([reduction.DupFd(fd) for fd in self._files],)


class _Start(NamedTuple):
    """The parameters of a new process."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    cwd: str
    files: Any
    terminal: bool
    server: str
    """The address of the fork server."""


def _server_address() -> str:
    return cast("Any", forkserver)._forkserver._forkserver_address


def _main(started: _Start) -> None:
    arguments, environment, cwd, files, terminal, server = started
    output, errors, *given = (file.detach() for file in files)
    os.setsid()
    for fd, number in ((output, 1), (errors, 2), (given[0] if given else _nothing(), 0)):
        os.dup2(fd, number)
        os.close(fd)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()  # noqa: TID251 - it is that of the new process
    os.environ.update(environment)  # noqa: TID251
    time.tzset()
    os.chdir(cwd)
    if _CLOCK in environment:
        segue.store.SystemClock = partial(SharedClock, Path(environment[_CLOCK]))
    for name, value in json.loads(environment.get(_CONSTANTS, "{}")).items():
        owner, _, constant = name.rpartition(".")
        found = resolve_name(value) if isinstance(value, str) else value
        assert hasattr(resolve_name(owner), constant), name
        setattr(resolve_name(owner), constant, found)
    if not REAL_START.items() <= environment.items():
        background._spawn = partial(_spawn, server)
    sys.argv = [str(Path(segue.__file__).parent / "__main__.py"), *arguments]
    sys.stdin = _open(0, "r")
    sys.stdout = _open(1, "w")
    sys.stderr = _open(2, "w", errors="backslashreplace", buffering=1)
    try:
        main()
    finally:
        atexit._run_exitfuncs()


def _spawn(server: str, pipe: int, words: IO[bytes], log: Path, options: Sequence[str]) -> None:
    """Replaces `background._spawn`: does the work of `segue.cli.daemon`, but forks."""
    environment = dict(os.environ)  # noqa: TID251 - it is that of this process
    arguments = ("gateway", "run", "--log", str(log), *options)
    known = cast("Any", forkserver)._forkserver
    known._forkserver_address = server
    known.ensure_running = lambda: None  # it is not a child of this process
    with Path(os.devnull).open("wb") as nothing:
        files = _Files([nothing.fileno(), words.fileno(), pipe])
        started = _Start(arguments, environment, str(Path.home()), files, False, server)
        # `start` would end it together with this process.
        popen_forkserver.Popen(PROCESSES.Process(target=_detached, args=(started,), daemon=True))
    os.close(pipe)


def _detached(started: _Start) -> None:
    *files, pipe = started.files
    held = pipe.detach()
    os.write(held, f"{os.getpid()}\n".encode())
    os.set_inheritable(held, False)
    _main(started._replace(files=files))


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _open(fd: int, mode: str, errors: str = "surrogateescape", buffering: int = -1) -> TextIO:
    """Open a stream as Python does in the locale C.UTF-8."""
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")  # noqa: TID251
    stream = open(fd, mode, buffering, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
    return cast("TextIO", stream)
