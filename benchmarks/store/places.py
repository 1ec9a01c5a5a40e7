"""The databases to measure on, each in a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from segue.testing import postgres


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A kind of database."""

    name: str
    empty: Callable[[], AbstractContextManager[str]]
    """The URL of one in which nothing is yet, for as long as the `with` lasts."""
    many_quickly: int = 100_000
    """How many sessions, chats or messages of it a quick run can make."""

    def many(self, *, quick: bool) -> int:
        """How many sessions, chats or messages it takes to see whether something grows."""
        return self.many_quickly if quick else 100_000


@contextlib.contextmanager
def all_of_them() -> Generator[tuple[Place, ...]]:
    with postgres.running(durable=True) as server:
        yield (
            Place(name="sqlite", empty=_sqlite),
            Place(name="postgres", empty=server.database, many_quickly=20_000),
        )


@contextlib.contextmanager
def _sqlite() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        yield f"sqlite://{Path(folder).resolve() / 'segue.db'}"
