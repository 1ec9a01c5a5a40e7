"""The agent's interface to the embedded model. It finds the process that runs it, or starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.catalog import LOCAL
from segue.agent.models.hosted import Timeouts
from segue.agent.models.local import runtime, serve
from segue.agent.models.local.runtime import QWEN, Weights
from segue.agent.models.local.serve import CONTEXT, RunFolder, ServerAddress
from segue.agent.models.openai import OpenAIModel
from segue.core.errors import LocalMissing, ModelError, ModelOffline
from segue.system import files, locks

_POLL_SECONDS = 0.05
_REACHED = msgspec.json.Decoder(ServerAddress)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """The only server for some weights, no matter which process started it."""

    run: RunFolder
    weights: Path
    idle: float
    """Seconds without use after which it stops."""
    patience: float = 60.0
    """Seconds that it may take to start."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[ServerAddress]:
        """Yield how to reach the server, starting it if needed. Raise ModelError if that fails.
        The server does not stop for being idle while the context is open."""
        try:
            files.make_private_folder(self.run.folder)
        except OSError as error:
            raise self.failed(f"{error.filename} cannot be made ({error.strerror})") from error
        async with locks.locked(self.run.use, shared=True) as use:
            try:
                yield await self._reach()
            finally:
                os.utime(use)

    def failed(self, reason: str) -> ModelError:
        return ModelError(
            f"The embedded model did not start: {reason}. See {self.run.log}, or type /model to"
            " choose another model."
        )

    async def _reach(self) -> ServerAddress:
        try:
            async with asyncio.timeout(self.patience):
                return await self._find_or_start()
        except TimeoutError as error:
            raise self.failed(f"it took longer than {self.patience:.0f} seconds") from error

    async def _find_or_start(self) -> ServerAddress:
        started = False
        while True:
            if locks.is_locked(self.run.lock):
                if (reached := self._state()) is not None:
                    return reached
            elif started:
                raise self.failed(self._last_words())
            else:
                # In a thread, which runs to its end even if this task is cancelled, because it
                # holds the lock.
                started = await asyncio.to_thread(self._start)
            await asyncio.sleep(_POLL_SECONDS)

    def _state(self) -> ServerAddress | None:
        """The state that the server published, or None while it starts."""
        try:
            return _REACHED.decode(self.run.state.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _start(self) -> bool:
        """Start the server. Return False if another process is starting it. The new process
        inherits the lock, so that the lock is held without a gap."""
        lock = files.open_file(self.run.lock)
        try:
            if not locks.try_lock(lock):
                return False
            self.run.state.unlink(missing_ok=True)  # left over from a killed server
            log = files.open_file(self.run.log, os.O_APPEND | os.O_TRUNC)
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
            check=False,  # the log shows why it failed
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
    """The environment of the server: our import path, and nothing else of ours."""
    return {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # The threads wait for each other at every step. By default libgomp lets them spin so long
        # that on a busy machine they block the very thread they wait for: less than 2 tokens per
        # second, compared with 10 with this setting.
        "GOMP_SPINCOUNT": "1000",
    }


_MAX_ANSWER = 1024
"""In tokens. In a longer answer a small model repeats itself, and it keeps other requests waiting.
"""
# Other requests may come first, and a long prompt takes a minute, so silence is normal. A retry
# does not bring back a server that is gone; it has to be started.
_PATIENCE = Timeouts(connect=5.0, silence=600.0, tries=1)


class LocalModel:
    """A small model on this machine. Its server is started on first use."""

    name = LOCAL
    context = CONTEXT
    small = True
    images = False

    def __init__(self, *, folder: Path, idle: float = 600.0, weights: Weights = QWEN) -> None:
        self._folder = folder
        self._weights = weights
        run = RunFolder(folder / "run")
        self._server = LocalServer(run=run, weights=folder / weights.file, idle=idle)
        self._reached: ServerAddress | None = None
        self._model: OpenAIModel | None = None

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        if missing := runtime.missing(self._folder, self._weights):
            raise LocalMissing(missing=missing)
        prompt = replace(prompt, max_tokens=min(prompt.max_tokens, _MAX_ANSWER))
        for is_last in (False, True):
            try:
                async with aclosing(self._ask(prompt)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ModelOffline as error:
                # It was killed before it answered: try again with a new one.
                if is_last:
                    raise self._server.failed("it ended before it answered") from error

    async def _ask(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        async with self._server.serving() as reached:
            model = await self._talking_to(reached)
            async with aclosing(model.stream(prompt)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _talking_to(self, reached: ServerAddress) -> OpenAIModel:
        if self._model is None or reached != self._reached:
            former = self._model
            self._reached = reached
            self._model = OpenAIModel(
                name="the embedded model",
                model=self._weights.file,
                base_url=reached.url,
                key=reached.key,
                setting=str(self._folder),
                context=CONTEXT,
                small=True,
                patience=_PATIENCE,
                reuse=False,
            )
            if former is not None:
                await former.close()
        return self._model
