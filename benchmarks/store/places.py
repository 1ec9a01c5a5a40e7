"""The databases to measure, each in a temporary folder."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes import postgres


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A kind of database."""

    name: str
    empty: Callable[[], AbstractContextManager[str]]
    """Creates an empty database and yields its URL. The database exists as long as the `with`."""

    def many(self, *, quick: bool) -> int:
        """How many sessions, chats or messages it takes to see whether a cost grows with them."""
        return 10_000 if quick else 100_000


@contextlib.contextmanager
def all_of_them() -> Generator[tuple[Place, ...]]:
    with postgres.running(durable=True) as server:
        yield (
            Place(name="sqlite", empty=_sqlite),
            Place(name="postgres", empty=server.database),
        )


@contextlib.contextmanager
def _sqlite() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        yield f"sqlite://{Path(folder).resolve() / 'segue.db'}"
