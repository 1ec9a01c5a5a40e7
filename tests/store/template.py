"""A new store for a test, copied: to run all scripts of the schema takes longer than most tests.

What is about the making of a store makes one.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import segue.store
from segue.testing.clock import FakeClock


def new_store(path: Path) -> str:
    """Put a store with nothing in it at `path`; its address."""
    run = path.with_name(f"{path.name}-run")
    run.mkdir(0o700)
    for file, content in ((path, _made()), (run / "created", b"")):
        file.touch(0o600)
        file.write_bytes(content)
    return f"sqlite://{path}"


@functools.cache
def _made() -> bytes:
    """The database of a store that was opened once and closed."""

    async def make(path: Path) -> None:
        await (await segue.store.open(f"sqlite://{path}", clock=FakeClock())).close()

    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        path = Path(folder) / "segue.db"
        with ThreadPoolExecutor(1) as elsewhere:  # an event loop may run here
            elsewhere.submit(lambda: asyncio.run(make(path))).result()
        assert not path.with_name("segue.db-wal").stat().st_size, "all of it is in one file"
        return path.read_bytes()
