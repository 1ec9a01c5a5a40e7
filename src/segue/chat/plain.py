"""The console for pipes and terminals that cannot draw: lines in, lines out."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from segue.chat.questions import Question
from segue.chat.render.stream import Stream

T = TypeVar("T")


class PlainConsole:
    """A Console without drawing."""

    def __init__(self) -> None:
        self.still_coming: Stream | None = None
        self.busy = False
        self.shown = asyncio.Event()
        self.shown.set()
        self.waiting: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._closed = asyncio.Event()
        self._question: Question[Any] | None = None
        self._reads = False
        self._ended = False

    async def run(self) -> None:
        await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        self._hear("")

    async def read(self) -> str | None:
        """Return the next non-empty line, or None at the end of the input."""
        self._begin_reading()
        while not self._closed.is_set():
            if self.waiting:
                return self.waiting.popleft()
            if self._ended:
                break
            self._arrived.clear()
            await self._arrived.wait()
        return None

    async def print(self, text: str) -> None:
        _write(text)

    def redraw(self) -> None:
        """Do nothing: there is nothing to draw."""

    def clear(self) -> bool:
        return False

    async def ask(self, question: str, choices: Mapping[str, T]) -> T:
        """Return the choice whose word is typed as a whole line.

        At the end of the input, return the last choice, which is a no. A line typed before the
        question stays a message.
        """
        self._begin_reading()
        _drop_half_a_line()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._question = Question(question, choices, answer)
        _write(f"{question}\n")
        if self._ended:
            self._hear("")
        try:
            return await answer
        finally:
            self._question = None

    def _hear(self, line: str) -> None:
        """Process a line with its line end. An empty string is the end of the input."""
        self._ended = self._ended or not line
        asked = self._question
        if asked is None:
            if line.strip():
                self.waiting.append(line.rstrip("\n"))
        elif not line:
            asked.hear(list(asked.choices)[-1])
        elif asked.hear(line):
            self._question = None  # the next line is not part of the answer
        else:
            _write(f"{asked.hint}\n{asked.text}\n")
        self._arrived.set()

    def _begin_reading(self) -> None:
        if self._reads:
            return
        self._reads = True
        # Not a thread of the pool: those are joined at exit, and this one may wait for a line that
        # never comes.
        loop = asyncio.get_running_loop()
        threading.Thread(target=_read_all, args=(loop, self._hear), daemon=True).start()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _drop_half_a_line() -> None:
    """Discard a partial line, whose Enter would otherwise answer a later question."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _read_all(loop: asyncio.AbstractEventLoop, hear: Callable[[str], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the event loop has closed
        while line := sys.stdin.readline():
            loop.call_soon_threadsafe(hear, line)
        loop.call_soon_threadsafe(hear, "")
