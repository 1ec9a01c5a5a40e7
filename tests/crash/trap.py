"""Hang a process at one exact point, just before or after a transaction, so that it can be killed.

The process checks a folder before and after every write to the store. While a matching trap is set
there, the writing task hangs and the rest of the process continues, until the test kills the
process or removes the trap. A gateway loads this module through its settings, which name
`tests.crash.trap:make` as the adapter. The rest of it is the real program.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from types import CoroutineType
from typing import Any, TypeAlias

import msgspec

from segue.platforms.base import Adapter
from segue.platforms.spec import PlatformSettings
from segue.store import Store
from segue.store.base import Engine
from segue.store.postgres import PostgresEngine
from segue.store.sqlite import SqliteEngine

ADAPTER = "tests.crash.trap:make"
LOOK = 0.004

Write: TypeAlias = "Callable[..., CoroutineType[Any, Any, Any]]"


class Trap(msgspec.Struct, frozen=True):
    """Where to hang."""

    work: str = ""
    """The write to hang at, by its module, or the package of a module called queries, such as
    `handoffs.complete`. Empty for any."""
    after: bool = False
    """Hang after the write, not before."""
    about: tuple[str, ...] = ()
    """Strings that must all appear in the arguments or the result."""
    nth: int = 1
    """Hang at the nth match."""
    id: int = 0
    """Distinguishes traps that are otherwise equal."""

    def catches(self, work: str, told: str) -> bool:
        return self.work in ("", work) and all(word in told for word in self.about)


class Traps:
    """The folder through which the test and the process communicate."""

    def __init__(self, folder: Path) -> None:
        self._armed = folder / "armed"
        self._sprung = folder / "sprung"
        self._adapter = folder / "adapter"
        folder.mkdir(exist_ok=True)

    @property
    def adapter(self) -> str:
        """The adapter of the platform that the gateway serves."""
        return self._adapter.read_text()

    @adapter.setter
    def adapter(self, name: str) -> None:
        self._adapter.write_text(name)

    def lay(self, trap: Trap) -> None:
        self._sprung.unlink(missing_ok=True)
        beside = self._armed.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(trap))
        beside.rename(self._armed)

    def take_away(self, trap: Trap) -> None:
        """Remove the trap, unless another one was set in the meantime."""
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
    """Return the platform's adapter, and install traps in this process."""
    install(Path.home())
    return resolve_name(Traps(Path.home() / "traps").adapter)(settings)


def install(folder: Path) -> None:
    """Make every store of this process, open or not, check `folder` for traps."""
    ground = Ground(Traps(folder / "traps"))
    SqliteEngine.write = ground.trapped(SqliteEngine.write)
    SqliteEngine.mark = ground.trapped(SqliteEngine.mark)
    PostgresEngine.write = ground.trapped(PostgresEngine.write)  # its `mark` calls this too
    for store in (it for it in gc.get_objects() if issubclass(type(it), Store)):
        store.write = store._engine.write  # until now those of before
        store.mark = store._engine.mark


class Ground:
    """Checks for traps in a process."""

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
            *_, package, module = work.__module__.split(".")
            name = f"{package if module == 'queries' else module}.{work.__name__}"
            await self._look(name, after=False, told=(args, more))
            result = await write(engine, work, *args, **more)
            await self._look(name, after=True, told=(args, more, result))
            return result

        return trapped
