"""A model that stops in the middle of what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.scripted import Script, ScriptedModel

MARK = "⋯"
"""Where it stops, as a word of its own."""


class HaltingModel(ScriptedModel):
    """Says its script, and stops after each MARK until it may go on."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._go = asyncio.Semaphore(0)

    def go_on(self) -> None:
        """From one mark to the next."""
        self._go.release()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        async for piece in super().stream(prompt):
            yield piece
            if isinstance(piece, Text) and piece.text.strip() == MARK:
                await self._go.acquire()
