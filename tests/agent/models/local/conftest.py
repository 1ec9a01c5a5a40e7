"""Fixtures for the tests of the embedded model."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import venv
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from segue.agent.models.local.model import LocalServer
from segue.agent.models.local.runtime import Weights, mark
from segue.agent.models.local.serve import RunFolder
from segue.system import files, locks
from tests.agent.models.local.index import weights

CONTENT = b"fake weights"
STAND_IN = Path(__file__).with_name("stand_in")
"""The folder with a fake pip."""


RUNTIME = Path(__file__).with_name("runtime")


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A folder with weights and a running server, for all tests that do not stop it.

    The program that started the server had a secret in its environment.
    """

    async def start(folder: Path) -> None:
        async with server(folder).serving():
            pass

    folder = tmp_path_factory.mktemp("running") / "models"
    put(folder, CONTENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(RUNTIME)
        patch.setenv("ACME_API_KEY", "secret")
        with asyncio.Runner() as runner:
            runner.run(start(folder))
    yield folder
    end(folder)


@pytest.fixture
def shared(running: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the running server, with the fake runtime on the import path."""
    monkeypatch.syspath_prepend(RUNTIME)
    return running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder with weights, and a fake runtime that ignores them.

    Its server is killed at the end.
    """
    monkeypatch.syspath_prepend(RUNTIME)
    folder = tmp_path / "models"
    put(folder, CONTENT)
    yield folder
    end(folder)


def put(folder: Path, content: bytes) -> Weights:
    """Put weights into `folder` as if they had been downloaded."""
    files.make_private_folder(folder)
    tiny = weights(content=content)
    (folder / tiny.file).write_bytes(content)
    mark(folder, tiny)
    return tiny


def server(folder: Path, *, idle: float = 600.0, patience: float = 30.0) -> LocalServer:
    run = RunFolder(folder / "run")
    return LocalServer(run=run, weights=folder / "tiny.gguf", idle=idle, patience=patience)


def end(folder: Path) -> None:
    """Kill the server of `folder`, if there is one."""
    (folder / "go on").touch()  # for a server that is slow to start
    ours = server(folder)
    deadline = time.monotonic() + 20
    while ours.run.folder.is_dir() and locks.is_locked(ours.run.lock):
        if (found := ours._state()) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for an event in another process."""
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


@pytest.fixture
def no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python without pip, used in place of ours."""
    python = bare_python(tmp_path / "bare")
    monkeypatch.setattr(sys, "executable", python)
    return python


def bare_python(folder: Path) -> str:
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")
