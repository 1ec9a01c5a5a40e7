"""Gateways in the background, which no test leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

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


def begin(person: Person, *words: str) -> subprocess.Popen[str]:
    """The same, under way; to be used as a context."""
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
