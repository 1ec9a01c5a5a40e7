"""Titles of new sessions: at once from the user's own words, and a better one from the brain."""

from __future__ import annotations

import asyncio
import logging

from segue.core.errors import ModelError, UserError
from segue.core.session import Session
from segue.core.text import one_line
from segue.core.transcript import Kind, Role, Transcript
from segue.store import Store, sessions
from segue.turns.brain import Brain

CLOSE_SECONDS = 2.0
"""How long to wait on exit for titles that are still being generated."""
_LENGTH = 40

logger = logging.getLogger(__name__)


class Titles:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    async def give(self, session: Session, brain: Brain, transcript: Transcript) -> None:
        """Give the session a title if it has none. The brain looks for one in the background."""
        if session.title is not None:
            return
        if words := from_words(transcript):
            await self._rename(session.id, words)
        task = asyncio.create_task(self._find(session.id, brain, transcript))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _find(self, session_id: str, brain: Brain, transcript: Transcript) -> None:
        try:
            title = await brain.title(transcript)
        except ModelError as error:
            logger.warning("no title found session=%s: %s", session_id, error)
        else:
            if title:
                await self._rename(session_id, title)

    async def _rename(self, session_id: str, title: str) -> None:
        try:
            await sessions.rename(self._store, session_id, title, chosen=False)
        except UserError as error:  # a title is not worth failing for
            logger.warning("title not saved session=%s: %s", session_id, error)


def from_words(transcript: Transcript) -> str:
    """A short title from the user's first text message, or an empty string if there is none."""
    said = (m.content for m in transcript if m.role is Role.USER and m.kind is Kind.SAID)
    line = one_line(next(said, ""))
    if len(line) <= _LENGTH:
        return line
    return line[: _LENGTH + 1].rpartition(" ")[0].rstrip(" ,;:") or line[:_LENGTH]
