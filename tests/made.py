"""Stores that are made already: to make one takes longer than most tests of what is in it."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from segue.store import files
from segue.store.clock import SystemClock


def store(path: Path) -> str:
    """Put an empty SQLite store at `path`; its URL."""
    run = _run(path)
    run.mkdir(0o700)
    path.touch(0o600)
    path.write_bytes(_empty())
    (run / "created").touch(0o600)
    return f"sqlite://{path}"


@functools.cache
def _empty() -> bytes:
    """The file of a store as the program makes it."""
    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        path = Path(folder) / "segue.db"
        _run(path).mkdir(0o700)
        files.prepare(path, _run(path), SystemClock())
        return path.read_bytes()


def _run(path: Path) -> Path:
    return path.with_name(f"{path.name}-run")
