"""What a project says to the agent: AGENTS.md of the working directory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from segue.agent.tools import search
from segue.agent.tools.base import clean
from segue.agent.tools.targets import Changed, aim

FILE = "AGENTS.md"
ABSENT = 1.0
"""Seconds for which one that is not there is not looked for again. The chats of a gateway mostly
share a directory that has none, and each look takes the way through a thread."""
_LIMIT = 1024 * 1024
_MOST = 1000


class Projects:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._absent: dict[Path, float] = {}
        """Directories that had none, each until when that is believed."""

    async def read(self, cwd: Path) -> str:
        """What the one in `cwd` says; empty when there is none that can be read.

        A link may lead to it inside the directory, and nowhere else: a project must not be able to
        show the model a file that it only points at.
        """
        now = self._clock()
        if now < self._absent.get(cwd, now):
            return ""
        text = await asyncio.to_thread(_read, cwd)
        self._absent.pop(cwd, None)
        if text is None:
            if len(self._absent) >= _MOST:
                self._absent.clear()
            self._absent[cwd] = now + ABSENT
        return text or ""


def _read(cwd: Path) -> str | None:
    """None when there is nothing of that name."""
    if not os.path.lexists(cwd / FILE):
        return None
    target = aim(cwd / FILE)
    if not target.path.is_relative_to(os.path.realpath(cwd)):
        return ""
    try:
        with target.opened() as file:
            data = search.read(file, _LIMIT)
    except (search.Unreadable, OSError, Changed):
        return ""
    return clean(data.decode("utf-8", "surrogateescape")).strip()
