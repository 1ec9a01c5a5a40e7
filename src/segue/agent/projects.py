"""Project instructions: AGENTS.md in the working directory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from segue.agent.tools import search
from segue.agent.tools.base import clean
from segue.agent.tools.targets import TargetChanged, aim

FILE = "AGENTS.md"
ABSENT_SECONDS = 1.0
"""Seconds to cache that a directory has no AGENTS.md. The chats of a gateway usually share one
directory without that file, and every check needs a thread."""
_LIMIT = 1024 * 1024
_MAX_ENTRIES = 1000


class Projects:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._absent: dict[Path, float] = {}
        """Directories without the file, and when each entry expires."""

    async def read(self, cwd: Path) -> str:
        """Return the content of AGENTS.md in `cwd`, or an empty string if it cannot be read.

        The file may be a link, but only to a target inside the directory: a project must not be
        able to show the model other files by linking to them.
        """
        now = self._clock()
        if now < self._absent.get(cwd, now):
            return ""
        text = await asyncio.to_thread(_read, cwd)
        self._absent.pop(cwd, None)
        if text is None:
            if len(self._absent) >= _MAX_ENTRIES:
                self._absent.clear()
            self._absent[cwd] = now + ABSENT_SECONDS
        return text or ""


def _read(cwd: Path) -> str | None:
    """Like `Projects.read`, but None if the file does not exist."""
    if not os.path.lexists(cwd / FILE):
        return None
    target = aim(cwd / FILE)
    if not target.path.is_relative_to(os.path.realpath(cwd)):
        return ""
    try:
        with target.opened() as file:
            data = search.read(file, _LIMIT)
    except (search.Unreadable, OSError, TargetChanged):
        return ""
    return clean(data.decode("utf-8", "surrogateescape")).strip()
