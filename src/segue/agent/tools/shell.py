"""The tool that runs shell commands: each under a supervisor, which can stop everything that the
command starts. See `supervisor`.

A repository can configure programs for git to run. A user who allows `git status` does not mean to
allow that. Everything that environment variables can turn off is turned off. If a repository has
any setting that is not known to be harmless, or has submodules, which have their own settings, the
user is asked.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from segue.agent.tools import supervisor
from segue.agent.tools.base import (
    OUTPUT_LIMIT,
    Proposal,
    Tool,
    ToolFailed,
    ToolInterrupted,
    Work,
    Workplace,
    shorten,
)
from segue.agent.tools.isolation import run
from segue.approvals import rules
from segue.approvals.rules import Risk
from segue.core.approval import Description, plain_words
from segue.core.text import visible, visible_name


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


T = TypeVar("T")

MAX_SECONDS = 600
MAX_PRINTED = 16 * 1024 * 1024
"""A command that prints more bytes than this is stopped."""
_KEPT = 2 * OUTPUT_LIMIT
"""The number of bytes to keep from the start of the output, and from its end."""
_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_LINGER = 1.0
"""Seconds to wait for processes that the command left in the background."""


class ShellArguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The command, as typed in a shell.", min_length=1)]
    seconds: Annotated[
        int, Meta(ge=1, le=MAX_SECONDS, description="How long it may take at the most.")
    ] = 60


class CommandOutput(Struct, frozen=True, kw_only=True):
    """What a command printed, and how it ended."""

    text: str
    """What it printed, shortened."""
    digest: str
    """Identifies all that it printed."""
    note: str
    """How it ended, in brackets. Empty if there is nothing to say about that."""
    is_ok: bool
    """Whether it ended by itself, with exit code 0."""


def shell(environment: dict[str, str]) -> Tool[ShellArguments]:
    """The tool that runs commands with `environment`, which must not contain our secrets."""

    def propose(arguments: ShellArguments, place: Workplace) -> Proposal:
        async def guarded() -> Work | None:
            if not rules.is_git(plain_words(arguments.command)):
                return lambda: _run(arguments, place, environment)
            quiet = git_environment(environment)
            harmless = await is_harmless_repository(place.cwd, quiet)
            return (lambda: _run(arguments, place, quiet)) if harmless else None

        return Proposal(
            what=Description(f"run in {visible_name(place.cwd)}:", visible(arguments.command)),
            work=lambda: _run(arguments, place, environment),
            guarded=guarded,
        )

    return Tool(
        name="shell",
        description=(
            "Run a command in a shell, in the working directory, and see its output. "
            "It gets no input, and what it leaves in the background is stopped when it ends."
        ),
        risk=Risk.RUN,
        arguments=ShellArguments,
        propose=propose,
    )


async def _run(arguments: ShellArguments, place: Workplace, environment: dict[str, str]) -> str:
    done = await execute(arguments.command, place.cwd, environment, arguments.seconds)
    return "\n".join(filter(None, (done.text, done.note))) or "[no output]"


async def execute(
    command_line: str, cwd: Path, environment: dict[str, str], seconds: int
) -> CommandOutput:
    """Run a command for up to so many seconds. Raise ToolFailed if it cannot be started, and
    ToolInterrupted if this task is cancelled."""
    printed = _Printed()
    async with _pipe() as (reader, output):
        command = await _start(command_line, cwd, environment, output)
        reading = asyncio.create_task(_collect(reader, printed))
        exiting = asyncio.create_task(command.exit_code())
        ended = ""
        left = False
        interrupted = False
        try:
            async with _limit(seconds):
                await _over(exiting, reading, printed)
            left = not reading.done()
        except TimeoutError:
            ended = f"[stopped: it took longer than {seconds} seconds]"
        except asyncio.CancelledError:
            interrupted = True
        finally:
            try:
                await _stop(command)
                # Every process that wrote to the pipe has ended, so the pipe is closed, unless a
                # process now belongs to another account.
                await asyncio.wait({reading}, timeout=_LINGER)
            finally:
                reading.cancel()
                exiting.cancel()
    if interrupted:
        raise ToolInterrupted(printed.text())
    is_ok = False
    if not (ended := ended or printed.flood()):
        code = await _code(exiting)
        ended = _exit(code, left=left)
        is_ok = code == 0
    return CommandOutput(text=printed.text(), digest=printed.digest(), note=ended, is_ok=is_ok)


def _limit(seconds: int) -> asyncio.Timeout:
    return asyncio.timeout(seconds)


async def _start(
    command: str, cwd: Path, environment: dict[str, str], output: int
) -> RunningCommand:
    """Start `command`, which writes to `output`. Closes our copy of `output`."""
    if "\0" in command:
        os.close(output)
        raise ToolFailed("The command could not be started: it has a NUL in it")
    try:
        # If interrupted half-way, the command might run with nothing waiting for it.
        started, interrupted = await _whole(launch(command, cwd, environment, output))
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolFailed(f"The command could not be started: {error}") from error
    finally:
        os.close(output)
    if interrupted:
        await _stop(started)
        raise asyncio.CancelledError
    return started


@contextlib.asynccontextmanager
async def _pipe() -> AsyncGenerator[tuple[asyncio.StreamReader, int]]:
    """Yield the reader of a new pipe and the descriptor to write to, which the caller must close.

    We create the pipe, because asyncio cannot wait for a process as long as one of its children
    holds the pipe open.
    """
    ours, theirs = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0)
    )
    try:
        yield reader, theirs
    finally:
        transport.close()


async def _over(
    exiting: asyncio.Task[int | None], reading: asyncio.Task[None], printed: _Printed
) -> None:
    """Wait until the command has ended or has printed too much."""
    await asyncio.wait({exiting, reading}, return_when=asyncio.FIRST_COMPLETED)
    if not printed.flood():
        await asyncio.wait({exiting})
        await asyncio.wait({reading}, timeout=_LINGER)


async def _code(exiting: asyncio.Task[int | None]) -> int | None:
    try:
        return await exiting
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise ToolFailed(f"The command could not be started: {error.strerror}{where}") from error


async def _collect(reader: asyncio.StreamReader, printed: _Printed) -> None:
    while not printed.flood() and (chunk := await reader.read(65536)):
        printed.add(chunk)


class _Printed:
    """The start and end of a command's output."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._hash = hashlib.sha256()

    def add(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._size += len(chunk)
        room = _KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[:-_KEPT]

    def flood(self) -> str:
        if self._size <= MAX_PRINTED:
            return ""
        return f"[stopped: it printed more than {MAX_PRINTED:,} bytes]"

    def digest(self) -> str:
        return self._hash.hexdigest()

    def text(self) -> str:
        lost = self._size - len(self._head) - len(self._tail)
        if not lost:
            return shorten((self._head + self._tail).decode("utf-8", "replace").rstrip())
        half = OUTPUT_LIMIT // 2
        head = self._head.decode("utf-8", "replace")[:half]
        tail = self._tail.decode("utf-8", "replace").rstrip()[-half:]
        return f"{head}\n[… it printed {self._size:,} bytes; the middle is left out …]\n{tail}"


def _exit(code: int | None, *, left: bool) -> str:
    notes: list[str] = []
    if code is None:
        notes.append("[ended in a way that is not known]")
    elif code > 0:
        notes.append(f"[exit code {code}]")
    elif code:
        notes.append(f"[ended by signal {-code}: {signal.strsignal(-code)}]")
    if left:
        notes.append("[what it left in the background was stopped]")
    return "\n".join(notes)


async def _stop(command: RunningCommand) -> None:
    """Stop the command and everything that it started."""
    try:
        command.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await command.wait()
    finally:  # immediately, if this wait is interrupted as well
        command.kill()
        try:
            await _see_end(command)
        finally:
            command.close()


async def _see_end(command: RunningCommand) -> None:
    """Wait for a killed command to end. That is quick, unless a broken disk blocks a process."""
    waiting = asyncio.create_task(command.wait())
    _, interrupted = await _whole(asyncio.wait({waiting}, timeout=_GRACE))
    waiting.cancel()
    if interrupted:
        raise asyncio.CancelledError


async def _whole(work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """Run `work`, which must be short, to the end even if cancelled. Return its result, and True if
    it was cancelled meanwhile."""
    task = asyncio.create_task(work)
    interrupted = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            interrupted = True
    return task.result(), interrupted


# git on the allow-list


GIT_TIMEOUT = 5.0
"""The maximum time for git to list its settings."""

_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "diff.ignoreSubmodules": "all",
    "submodule.recurse": "false",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
    "safe.bareRepository": "explicit",
}
_GIT_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}

_HARMLESS_GIT = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|autocrlf|eol|safecrlf|quotepath|abbrev|sparsecheckout|sparsecheckoutcone|longpaths"
    r"|untrackedcache|commitgraph|checkstat|trustctime|preloadindex|protecthfs|protectntfs)"
    r"|remote\.(.*\.)?(url|pushurl|fetch|push|tagopt|prune|pushdefault)"
    r"|branch\.(.*\.)?(remote|pushremote|merge|rebase|description|autosetupmerge|autosetuprebase"
    r"|vscode-merge-base|github-pr-owner-number)"
    r"|user\.(name|email|signingkey)|init\.defaultbranch|(pull|push|fetch|color|advice|gui)\..*"
    r"|extensions\.(worktreeconfig|objectformat|refstorage)|lfs\.repositoryformatversion",
    re.DOTALL,
)


def git_environment(usual: Mapping[str, str]) -> dict[str, str]:
    """Add settings to `usual` that keep git from running a repository's own programs: hooks,
    monitors, pagers and editors."""
    given = usual.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    count = first + len(_GIT_SETTINGS)
    numbered = enumerate(_GIT_SETTINGS.items(), first)
    return {
        **usual,
        **_GIT_VARIABLES,
        "GIT_CONFIG_COUNT": str(count),
        **{
            f"GIT_CONFIG_{part}_{number}": text
            for number, (name, value) in numbered
            for part, text in (("KEY", name), ("VALUE", value))
        },
    }


async def is_harmless_repository(cwd: Path, guarded: Mapping[str, str]) -> bool:
    """True if the repository at `cwd` has only settings that are known to run nothing."""
    settings, top = await asyncio.gather(
        _git_output(cwd, guarded, "config", "--list", "--show-scope", "--name-only", "-z"),
        _git_output(cwd, guarded, "rev-parse", "--show-toplevel"),
    )
    if settings is None or (top and _has_submodules(Path(top.rstrip("\n")))):
        return False
    fields = settings.split("\0")
    ours = zip(fields[::2], fields[1::2], strict=False)
    local = [name for scope, name in ours if scope in ("local", "worktree")]
    return all(_HARMLESS_GIT.fullmatch(name) for name in local)


def _has_submodules(top: Path) -> bool:
    return (top / ".gitmodules").exists()


async def _git_output(cwd: Path, guarded: Mapping[str, str], *arguments: str) -> str | None:
    """The output of a git command, or None if it fails."""
    try:
        result = await run("git", *arguments, cwd=cwd, env=guarded, seconds=GIT_TIMEOUT)
    except OSError:
        return None
    return result.output if result.code == 0 else None
