"""Gateways in the background, which no test leaves behind."""

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
from segue.store.gateways import Gateway
from segue.store.processes import whose
from tests import program
from tests.terminal import quiet
from tests.terminal.conftest import Person
from tests.terminal.pty import CODE

ROOT = Path(__file__).parents[2]


def serving(person: Person, adapter: str = quiet.NAME, platform: str = "telegram") -> Path:
    """Let the person's gateway serve `platform`; where it tells what it does."""
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
    """`segue` with these arguments, without a terminal."""
    return program.run(*words, environment={**CODE, **person.environment}, cwd=person.cwd)


class Piped:
    """`segue` under way, with pipes; it is killed in the end."""

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
        """The next one that it prints."""
        return await asyncio.to_thread(of.readline)

    async def ends(self) -> tuple[int, str, str]:
        """Wait for that; its exit code, and what it printed that was not read yet."""
        printed = await asyncio.gather(
            asyncio.to_thread(self.stdout.read), asyncio.to_thread(self.stderr.read)
        )
        return await asyncio.to_thread(self.process.wait, 30), *printed


def _pipe(theirs: contextlib.ExitStack) -> tuple[TextIO, int]:
    """The end that is ours, and theirs, which is closed once they have it."""
    ours, end = os.pipe()
    theirs.callback(os.close, end)
    return os.fdopen(ours, encoding="utf-8"), end


def piped(person: Person, *words: str, given: int | None = None) -> Piped:
    """The same, under way; to be used as a context. It reads from the terminal that is `given`."""
    return Piped(person, words, given)


def begin(person: Person, *words: str) -> subprocess.Popen[str]:
    """The same, but with a real start."""
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


async def alive(person: Person) -> tuple[Gateway, ...]:
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        return await store.gateways.alive()


@contextlib.asynccontextmanager
async def none_left(person: Person) -> AsyncGenerator[None]:
    """Whatever gateways there are in the end, they are ended."""
    try:
        yield
    finally:
        for gateway in await alive(person):
            _, pid = whose(gateway.process)
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
