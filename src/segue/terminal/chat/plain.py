"""A terminal that cannot draw, or a pipe: lines come in, lines go out."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import TypeVar

from segue.terminal.render.stream import Stream

T = TypeVar("T")


class PlainConsole:
    """The same as Console, as far as it goes without drawing."""

    def __init__(self) -> None:
        self.still_coming: Stream | None = None
        self.busy = False
        self.shown = asyncio.Event()
        self.shown.set()
        self.waiting: deque[str] = deque()
        self._closed = asyncio.Event()
        self._lines: asyncio.Queue[str] | None = None

    async def run(self) -> None:
        await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        if self._lines is not None:
            self._lines.put_nowait("")  # for whoever waits for a line

    async def read(self) -> str | None:
        """The next line that holds something; None at the end."""
        while not self._closed.is_set() and (line := await self._line()):
            if line.strip():
                return line.rstrip("\n")
        return None

    async def print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def redraw(self) -> None:
        """There is nothing to draw."""

    def clear(self) -> bool:
        return False

    async def ask(self, question: str, keys: Mapping[str, T]) -> T:
        """What is answered with a line; the last of the answers, a no, when nobody answers."""
        while True:
            await self.print(f"{question}\n")
            line = await self._line()
            answer = line.strip().lower()[:1]
            if answer in keys:
                return keys[answer]
            if not line:
                return list(keys.values())[-1]

    async def _line(self) -> str:
        """With its end; empty when there are no more."""
        if self._lines is None:
            self._lines = asyncio.Queue()
            # Not one of the pool's threads: those are waited for at the end, and this one may
            # wait for a line that never comes.
            reading = threading.Thread(
                target=_read_all, args=(asyncio.get_running_loop(), self._lines), daemon=True
            )
            reading.start()
        return await self._lines.get()


def _read_all(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    with contextlib.suppress(RuntimeError):  # the program has ended meanwhile
        while line := sys.stdin.readline():
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")
