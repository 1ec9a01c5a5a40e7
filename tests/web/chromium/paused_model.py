"""A model that pauses in the middle of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.scripted import Script, ScriptedModel

MARK = "⋯"
"""A separate word that marks a pause."""


class HaltingModel(ScriptedModel):
    """Streams its script, and pauses after each MARK until `go_on`."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._go = asyncio.Semaphore(0)

    def go_on(self) -> None:
        """Continue to the next mark."""
        self._go.release()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        async for piece in super().stream(prompt):
            yield piece
            if isinstance(piece, Text) and piece.text.strip() == MARK:
                await self._go.acquire()
