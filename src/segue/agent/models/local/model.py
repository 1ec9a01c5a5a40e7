"""The agent's interface to the embedded model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from msgspec.structs import replace

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.catalog import LOCAL
from segue.agent.models.http import Timeouts
from segue.agent.models.local import runtime
from segue.agent.models.local.serve import CONTEXT, RunFolder, ServerAddress
from segue.agent.models.local.server import LocalServer
from segue.agent.models.local.weights import QWEN, Weights
from segue.agent.models.openai import OpenAIModel
from segue.core.errors import LocalMissing, ModelOffline

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
            former, self._reached = self._model, reached
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
