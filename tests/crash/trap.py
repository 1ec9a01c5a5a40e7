"""A trap for a process that is to be killed at one exact place: between two transactions.

The process looks into a folder before and after everything that it writes to the store. While a
trap for that is laid there, the task that writes hangs, and the rest of the process lives on, until
somebody kills it or takes the trap away. A gateway gets it by its settings, which name
`tests.crash.trap:make` as the adapter; everything else of it is the real program.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from types import CoroutineType
from typing import Any, TypeAlias

import msgspec

from segue.config import PlatformSettings
from segue.platforms.base import Adapter
from segue.store.base import Engine
from segue.store.postgres import PostgresEngine
from segue.store.sqlite import SqliteEngine
from segue.testing.platform import adapter

LOOK = 0.004

Write: TypeAlias = "Callable[..., CoroutineType[Any, Any, Any]]"


class Trap(msgspec.Struct, frozen=True):
    """Where to hang."""

    work: str = ""
    """What is written, such as `handoffs.complete`; empty for anything."""
    after: bool = False
    """Once it is written, rather than just before."""
    about: tuple[str, ...] = ()
    """What has to be in it, or in what came of it."""
    nth: int = 1
    """The first time, the second, …"""
    id: int = 0
    """Tells two of the same kind apart."""

    def catches(self, work: str, told: str) -> bool:
        return self.work in ("", work) and all(word in told for word in self.about)


class Traps:
    """The folder, as both sides know it."""

    def __init__(self, folder: Path) -> None:
        self._armed = folder / "armed"
        self._sprung = folder / "sprung"
        folder.mkdir(exist_ok=True)

    def lay(self, trap: Trap) -> None:
        self._sprung.unlink(missing_ok=True)
        beside = self._armed.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(trap))
        beside.rename(self._armed)

    def take_away(self, trap: Trap) -> None:
        """Unless another one was laid meanwhile."""
        if self.armed() == trap:
            self._armed.unlink()

    def armed(self) -> Trap | None:
        with contextlib.suppress(FileNotFoundError):
            return msgspec.json.decode(self._armed.read_bytes(), type=Trap)
        return None

    def spring(self) -> None:
        self._sprung.touch()

    @property
    def sprung(self) -> bool:
        return self._sprung.exists()


def make(settings: PlatformSettings) -> Adapter:
    """The adapter of the test platform, in a process whose store has traps."""
    install(Path.home())
    return adapter.make(settings)


def install(folder: Path) -> None:
    """From now on, every store of this process looks for traps in `folder`, open or not."""
    ground = Ground(Traps(folder / "traps"))
    SqliteEngine.write = ground.trapped(SqliteEngine.write)
    SqliteEngine.mark = ground.trapped(SqliteEngine.mark)
    PostgresEngine.write = ground.trapped(PostgresEngine.write)  # which marks, too


class Ground:
    """Where a process goes, and may be caught."""

    def __init__(self, traps: Traps) -> None:
        self._traps = traps
        self._caught: dict[Trap, int] = {}

    async def _look(self, work: str, *, after: bool, told: object) -> None:
        trap = self._traps.armed()
        if trap is None or trap.after is not after or not trap.catches(work, repr(told)):
            return
        self._caught[trap] = self._caught.get(trap, 0) + 1
        if self._caught[trap] != trap.nth:
            return
        self._traps.spring()
        while self._traps.armed() == trap:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(LOOK)
        self._caught.clear()

    def trapped(self, write: Write) -> Write:
        async def trapped(engine: Engine, work: Callable[..., Any], *args: Any, **more: Any) -> Any:
            name = f"{work.__module__.rpartition('.')[2]}.{work.__name__}"
            await self._look(name, after=False, told=(args, more))
            result = await write(engine, work, *args, **more)
            await self._look(name, after=True, told=(args, more, result))
            return result

        return trapped
