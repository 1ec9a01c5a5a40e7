"""Running a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from segue.agent.tools import git
from segue.agent.tools.base import (
    OUTPUT_LIMIT,
    Plan,
    Risk,
    Tool,
    ToolFailed,
    Work,
    Workplace,
    shorten,
    visible,
)

T = TypeVar("T")

LONGEST = 600
MOST_PRINTED = 16 * 1024 * 1024
"""A command that prints more bytes than this is stopped."""
_KEPT = 2 * OUTPUT_LIMIT
"""How many bytes of its beginning are kept, and as many of its end."""
_GRACE = 2.0
"""Seconds between asking a command to end and ending it."""
_LINGER = 1.0
"""Seconds for what a command left in the background to come to its end."""


class ShellArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[
        str, msgspec.Meta(description="The command, as typed in a shell.", min_length=1)
    ]
    seconds: Annotated[
        int, msgspec.Meta(ge=1, le=LONGEST, description="How long it may take at the most.")
    ] = 60


def shell(environment: dict[str, str]) -> Tool[ShellArguments]:
    """The tool that runs commands with `environment`, which must hold no secret of ours."""

    def plan(arguments: ShellArguments, place: Workplace) -> Plan:
        async def guarded() -> Work | None:
            if not git.is_git(plain_words(arguments.command)):
                return lambda: _run(arguments, place, environment)
            quiet = git.environment(environment)
            harmless = await git.is_harmless(place.cwd, quiet)
            return (lambda: _run(arguments, place, quiet)) if harmless else None

        return Plan(
            what=visible(f"run in {place.cwd}:\n{arguments.command}"),
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
        plan=plan,
    )


async def _run(arguments: ShellArguments, place: Workplace, environment: dict[str, str]) -> str:
    printed = _Printed()
    async with _pipe() as (reader, end):
        process = await _start(arguments.command, place.cwd, environment, end)
        reading = asyncio.create_task(_collect(reader, printed))
        ended, left = "", False
        try:
            async with asyncio.timeout(arguments.seconds):
                await _over(process, reading, printed)
            left = not reading.done()
        except TimeoutError:
            ended = f"[stopped: it took longer than {arguments.seconds} seconds]"
        finally:
            try:
                await _stop(process)
                # All that wrote to the pipe has ended, so that it has an end, unless something
                # slipped out of the group.
                await asyncio.wait({reading}, timeout=_LINGER)
            finally:
                reading.cancel()
    if not ended:
        ended = printed.flood() or _exit(process.returncode, left=left)
    return "\n".join(filter(None, (printed.text(), ended))) or "[no output]"


async def _start(
    command: str, cwd: Path, environment: dict[str, str], output: int
) -> asyncio.subprocess.Process:
    """A shell that runs `command` and writes to `output`, which is closed on our side."""
    starting = asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,  # a group of its own, so that all it started can be stopped
    )
    try:
        # Interrupted, asyncio would end the shell, and leave what it may have started by then.
        process, interrupted = await _whole(starting)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise ToolFailed(f"The command could not be started: {error.strerror}{where}") from error
    except ValueError as error:
        raise ToolFailed(f"The command could not be started: {error}") from error
    finally:
        os.close(output)
    if interrupted:
        await _stop(process)
        raise asyncio.CancelledError
    return process


@contextlib.asynccontextmanager
async def _pipe() -> AsyncGenerator[tuple[asyncio.StreamReader, int]]:
    """What is written to the file number can be read. Whoever gets the number closes it.

    A pipe of our own, since asyncio lets nobody wait for a process whose pipe is still held open
    by something that it started.
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
    process: asyncio.subprocess.Process, reading: asyncio.Task[None], printed: _Printed
) -> None:
    """Wait until the command has ended, or has printed too much."""
    waiting = asyncio.create_task(process.wait())
    try:
        await asyncio.wait({waiting, reading}, return_when=asyncio.FIRST_COMPLETED)
        if not printed.flood():
            await waiting
            await asyncio.wait({reading}, timeout=_LINGER)
    finally:
        waiting.cancel()


async def _collect(reader: asyncio.StreamReader, printed: _Printed) -> None:
    while not printed.flood() and (chunk := await reader.read(65536)):
        printed.add(chunk)


class _Printed:
    """The beginning and the end of what a command printed."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        room = _KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[:-_KEPT]

    def flood(self) -> str:
        if self._size <= MOST_PRINTED:
            return ""
        return f"[stopped: it printed more than {MOST_PRINTED:,} bytes]"

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
    if code and code > 0:
        notes.append(f"[exit code {code}]")
    elif code:
        notes.append(f"[ended by signal {-code}: {signal.strsignal(-code)}]")
    if left:
        notes.append("[what it left in the background was stopped]")
    return "\n".join(notes)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the command and everything that it started and left in its group."""
    try:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
    finally:  # at once, when somebody is in a hurry and interrupts this as well
        _signal(process.pid, signal.SIGKILL)
        await _reap(process)


async def _reap(process: asyncio.subprocess.Process) -> None:
    """See it end. It has been killed, so that this is soon, unless a broken disk holds it."""
    waiting = asyncio.create_task(process.wait())
    _, interrupted = await _whole(asyncio.wait({waiting}, timeout=_GRACE))
    waiting.cancel()
    if interrupted:
        raise asyncio.CancelledError


async def _whole(work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """What `work` gives, and whether somebody tried to interrupt it. Only for what is short."""
    task = asyncio.create_task(work)
    interrupted = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            interrupted = True
    return task.result(), interrupted


def _signal(group: int, number: signal.Signals) -> None:
    # There may be nothing left in it, or only what belongs to somebody else, by sudo for example.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def plain_words(command: str) -> list[str]:
    """The words of a command that is nothing but words; none for one that the shell would make
    more of, such as `git status; rm -r .`, or that a person could not see whole."""
    if not command.isprintable() or any(c in command for c in ";&|<>`$(){}*?[]~!#\\"):
        return []
    try:
        return shlex.split(command)
    except ValueError:  # a quotation without end
        return []
