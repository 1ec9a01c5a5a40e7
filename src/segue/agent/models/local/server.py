"""Finding the process that runs the embedded model, or starting it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from segue.agent.models.local import private, serve
from segue.agent.models.local.serve import Reached, Run
from segue.core.errors import LocalFailed

_LOOK = 0.05
_REACHED = msgspec.json.Decoder(Reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The one server for some weights, whichever process started it."""

    run: Run
    weights: Path
    idle: float
    """Seconds without use after which it ends."""
    patience: float = 60.0
    """Seconds that it may take to start."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[Reached]:
        """How it can be reached; it does not end of itself meanwhile. Or LocalFailed."""
        try:
            private.make_folder(self.run.folder)
        except OSError as error:
            raise self.failed(f"{error.filename} cannot be made ({error.strerror})") from error
        async with private.holding(self.run.use, shared=True) as use:
            try:
                yield await self._reach()
            finally:
                os.utime(use)

    def failed(self, reason: str) -> LocalFailed:
        return LocalFailed(reason=reason, log=self.run.log)

    async def _reach(self) -> Reached:
        try:
            async with asyncio.timeout(self.patience):
                return await self._find_or_start()
        except TimeoutError as error:
            raise self.failed(f"it took longer than {self.patience:.0f} seconds") from error

    async def _find_or_start(self) -> Reached:
        started = False
        while True:
            if private.locked(self.run.lock):
                if (reached := self._state()) is not None:
                    return reached
            elif started:
                raise self.failed(self._last_words())
            else:
                # In a thread that is not given up half-way, with the lock in its hands.
                started = await asyncio.to_thread(self._start)
            await asyncio.sleep(_LOOK)

    def _state(self) -> Reached | None:
        """What the server says of itself; None while it starts."""
        try:
            return _REACHED.decode(self.run.state.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _start(self) -> bool:
        """Start it, unless somebody else does. The lock that keeps others from it is handed on to
        the new process, so that there is no moment in which nobody holds it."""
        lock = private.open_file(self.run.lock)
        try:
            if not private.lock(lock):
                return False
            self.run.state.unlink(missing_ok=True)  # of one that was killed
            log = private.open_file(self.run.log, os.O_APPEND | os.O_TRUNC)
            try:
                self._spawn(lock, log)
            finally:
                os.close(log)
            return True
        finally:
            os.close(lock)

    def _spawn(self, lock: int, log: int) -> None:
        arguments = (str(self.run.folder), str(self.weights), str(self.idle))
        subprocess.run(
            [sys.executable, "-P", "-m", serve.__name__, *arguments],
            check=False,  # what it died of stands in the log
            cwd="/",
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,  # it outlives the terminal
        )

    def _last_words(self) -> str:
        lines = self.run.log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300].rstrip(". ") if lines else "it ended without a word"


def _environment() -> dict[str, str]:
    """It can import what we can, and knows nothing else of our environment."""
    return {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # Its threads wait for one another at every step. Left to itself, libgomp lets them spin
        # so long that on a busy machine they keep out the very thread that they wait for: less
        # than 2 tokens a second where this makes it 10.
        "GOMP_SPINCOUNT": "1000",
    }
