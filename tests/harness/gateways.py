"""Background gateways, which are stopped at the end of each test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Self, TextIO

import segue.store
from segue.store import gateways
from segue.store.gateways import GatewayRecord
from segue.store.processes import whose
from tests import program
from tests.harness import quiet_adapter
from tests.harness.pty import CODE
from tests.harness.terminal import Person

ROOT = Path(__file__).parents[2]


def serving(person: Person, adapter: str = quiet_adapter.NAME, platform: str = "telegram") -> Path:
    """Make the user's gateway serve `platform`, and return its log file."""
    settings = Path(person.environment["HOME"]) / "config.toml"
    settings.write_text(f'[platforms.{platform}]\nadapter = "{adapter}"\n')
    settings.chmod(0o600)
    log = Path(person.environment["HOME"]) / "logs" / "gateway.log"
    person.environment.update(
        SEGUE_CONFIG=str(settings),
        SEGUE_GATEWAY_LOG=str(log),
        PYTHONPATH=f"{CODE['PYTHONPATH']}{os.pathsep}{ROOT}",
    )
    return log


def segue_says(person: Person, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `segue` with these arguments, without a terminal."""
    return program.run(*words, environment={**CODE, **person.environment}, cwd=person.cwd)


class Piped:
    """A running `segue` with pipes. It is killed at the end."""

    def __init__(self, person: Person, words: Sequence[str], given: int | None) -> None:
        with contextlib.ExitStack() as theirs:
            self.stdout, output = _pipe(theirs)
            self.stderr, errors = _pipe(theirs)
            self.process = program.start(
                *words,
                environment={**CODE, **person.environment},
                cwd=person.cwd,
                output=output,
                errors=errors,
                given=given,
                terminal=given is not None,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.stdout.close()
        self.stderr.close()

    async def line(self, of: TextIO) -> str:
        """The next line that it prints."""
        return await asyncio.to_thread(of.readline)

    async def ends(self) -> tuple[int, str, str]:
        """Wait for the exit. Return the exit code and the unread output."""
        printed = await asyncio.gather(
            asyncio.to_thread(self.stdout.read), asyncio.to_thread(self.stderr.read)
        )
        return await asyncio.to_thread(self.process.wait, 30), *printed


def _pipe(theirs: contextlib.ExitStack) -> tuple[TextIO, int]:
    """Our end of the pipe, and the process's end, which is closed once the process has it."""
    ours, end = os.pipe()
    theirs.callback(os.close, end)
    return os.fdopen(ours, encoding="utf-8"), end


def piped(person: Person, *words: str, given: int | None = None) -> Piped:
    """The same as a running process; use it as a context manager.

    It reads from `given`, a terminal.
    """
    return Piped(person, words, given)


def begin(person: Person, *words: str) -> subprocess.Popen[str]:
    """The same, with a real start of Python."""
    return begin_python(person, "-m", "segue", *words)


def begin_python(person: Person, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        env={**CODE, **person.environment},
        cwd=person.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def alive(person: Person) -> tuple[GatewayRecord, ...]:
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        return await gateways.alive(store)


@contextlib.asynccontextmanager
async def none_left(person: Person) -> AsyncGenerator[None]:
    """Stop all gateways that are left at the end."""
    try:
        yield
    finally:
        for gateway in await alive(person):
            _, pid = whose(gateway.process)
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
