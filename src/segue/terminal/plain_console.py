"""The console for pipes and terminals that cannot draw: lines in, lines out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from segue.terminal.questions import Question
from segue.terminal.render.stream import Stream

T = TypeVar("T")


class PlainConsole:
    """A Console without drawing."""

    def __init__(self, handle_line: Callable[[str], bool]) -> None:
        """`handle_line` as for Console. It is used only for a keyboard: the lines of a script keep
        their order."""
        self._handle_line = handle_line
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
        self._keyboard = _Keyboard(self._on_line) if sys.stdin.isatty() else None

    async def run(self) -> None:
        await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        if self._keyboard is not None:
            self._keyboard.close()
        self._on_line("")

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

    def put_first(self, text: str) -> None:
        """Queue an input before all others."""
        self.waiting.appendleft(text)
        self._arrived.set()

    async def print(self, text: str) -> None:
        _write(text)

    def redraw(self) -> None:
        """Do nothing: there is nothing to draw."""

    def take_back(self) -> bool:
        """Drop the newest queued input. Return False if there is none."""
        if not self.waiting:
            return False
        self.waiting.pop()
        return True

    def clear(self) -> bool:
        return False

    async def ask(self, question: str, choices: Mapping[str, T]) -> T:
        """Return the choice whose word is typed as a whole line.

        At the end of the input, return the last choice, which is a no. A line typed before the
        question stays a message.
        """
        self._begin_reading()
        if self._keyboard is not None:
            self._keyboard.flush()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._question = Question(question, choices, answer)
        _write(f"{question}\n")
        if self._ended:
            self._on_line("")
        try:
            return await answer
        finally:
            self._question = None

    def _on_line(self, line: str) -> None:
        """Process a line with its line end. An empty string is the end of the input."""
        self._ended = self._ended or not line
        if self._keyboard is not None and self._handle_line(line):
            return
        asked = self._question
        if asked is None:
            if line.strip():
                self.waiting.append(line.rstrip("\n"))
        elif not line:
            asked.accept(list(asked.choices)[-1])
        elif asked.accept(line):
            self._question = None  # the next line is not part of the answer
        else:
            _write(f"{asked.hint}\n{asked.text}\n")
        self._arrived.set()

    def _begin_reading(self) -> None:
        if self._reads:
            return
        self._reads = True
        if self._keyboard is not None:
            self._keyboard.open()
            return
        # Not a thread of the pool: those are joined at exit, and this one may wait for a line that
        # never comes.
        loop = asyncio.get_running_loop()
        threading.Thread(target=_read_all, args=(loop, self._on_line), daemon=True).start()


class _Keyboard:
    """Lines from a terminal, read in the event loop, so that it is certain which of them were typed
    before a question."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        """`on_line` gets each line with its end, and an empty one when there are no more."""
        self._on_line = on_line
        self._fd = sys.stdin.fileno()
        self._line = b""

    def open(self) -> None:
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)

    def flush(self) -> None:
        """Hear the lines that were typed until now, and drop half a line: its Enter would answer a
        question that the user had not seen when typing it."""
        while select.select([self._fd], [], [], 0)[0] and self._read():
            pass
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def _read(self) -> bool:
        """Read at most one line; False at the end."""
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the terminal is gone
            data = b""
        self._line += data
        if not data or data.endswith(b"\n"):
            line = self._line
            self._line = b""
            if line:
                self._on_line(line.decode(sys.stdin.encoding, "replace"))
        if not data:
            self.close()
            self._on_line("")
        return bool(data)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _read_all(loop: asyncio.AbstractEventLoop, on_line: Callable[[str], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the event loop has closed
        while line := sys.stdin.readline():
            loop.call_soon_threadsafe(on_line, line)
        loop.call_soon_threadsafe(on_line, "")
